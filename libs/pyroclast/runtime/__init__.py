"""The process shell: settings, logs, traces, metrics, health, supervision, TLS."""

from pyroclast import lean as _lean  # noqa: F401 - before anything else here imports structlog
