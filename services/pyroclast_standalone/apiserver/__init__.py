"""The embedded, Kubernetes-compatible API server."""

from pyroclast import lean as _lean

_lean.load_aiohttp()  # before anything else here imports it
