"""Containers as real processes: `shim` runs one, `runtime` manages all, and `layout` defines the paths of their state."""
