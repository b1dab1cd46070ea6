"""The only code that talks to an API server: client, informer, work queue, leases, events."""

from pyroclast import lean as _lean  # noqa: F401 - before anything else here imports structlog
