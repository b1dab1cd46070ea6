"""The embedded control plane and the command pyroclast."""

from pyroclast import lean as _lean  # noqa: F401 - before all that there is to load
