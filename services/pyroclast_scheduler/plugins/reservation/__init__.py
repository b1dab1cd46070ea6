"""Plugin reservation: nodes are reserved for a large job, one after another, so that small jobs cannot starve it."""

from pyroclast_scheduler.plugins.reservation.plugin import ReservationPlugin

__all__ = ["ReservationPlugin"]
