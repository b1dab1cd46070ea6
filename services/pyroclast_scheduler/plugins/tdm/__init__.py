"""Plugin tdm (time-division multiplexing): nodes that belong to somebody else outside certain hours."""

from pyroclast_scheduler.plugins.tdm.plugin import Tdm

__all__ = ["Tdm"]
