"""Plugin reservation: nodes are kept free for a large job, one after another, so that small ones do not starve it."""

from pyroclast_scheduler.plugins.reservation.plugin import ReservationPlugin

__all__ = ["ReservationPlugin"]
