"""The only code that talks to an API server: client, informer, work queue, leases, events."""

from pyroclast import lean as _lean

_lean.load_structlog()  # before anything else here imports it
_lean.load_aiohttp()
