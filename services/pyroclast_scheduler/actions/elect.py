"""Action elect: choose the job that nodes are reserved for. Stands between enqueue and allocate; see the plugin reservation."""

from __future__ import annotations

from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.session import Session

__all__ = ["execute"]


def execute(session: Session, arguments: Arguments) -> None:  # noqa: ARG001 - it has none
    """Ask the plugins which of the jobs that wait is to be reserved for."""
    session.target_job(list(session.jobs.values()))
