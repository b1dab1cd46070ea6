"""Action reserve: keep nodes free for the job that was chosen, or give them back. Stands after allocate; see `elect`."""

from __future__ import annotations

from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.session import Session

__all__ = ["execute"]


def execute(session: Session, arguments: Arguments) -> None:  # noqa: ARG001 - it has none
    """Let the plugins go on with their reservations."""
    session.reserve_nodes()
