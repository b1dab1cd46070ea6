"""Simulated nodes: run pods by stages against any API server."""
