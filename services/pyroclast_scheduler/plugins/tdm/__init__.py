"""Plugin tdm (time-division multiplexing): revocable nodes, which pods may only use during certain hours."""

from pyroclast_scheduler.plugins.tdm.plugin import Tdm

__all__ = ["Tdm"]
