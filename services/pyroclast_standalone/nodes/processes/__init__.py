"""Containers as real processes: `shim` runs one, `runtime` looks after all, `layout` says where their state lies."""
