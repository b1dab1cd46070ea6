"""The process shell: settings, logs, traces, metrics, health, supervision, TLS."""

from pyroclast import lean as _lean

_lean.load_structlog()  # before anything else here imports it
_lean.load_aiohttp()
