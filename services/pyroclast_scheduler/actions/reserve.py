"""Action reserve: locks nodes for the target of a reservation, or releases them. It must be after allocate; see `elect`."""

from __future__ import annotations

from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.session import Session


def execute(session: Session, arguments: Arguments) -> None:  # noqa: ARG001 - the action has none
    """Let the plugins advance their reservations."""
    session.reserve_nodes()
