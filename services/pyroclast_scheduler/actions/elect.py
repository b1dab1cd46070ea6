"""Action elect: chooses the target of a reservation. It must be between enqueue and allocate; see the plugin reservation."""

from __future__ import annotations

from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.session import Session


def execute(session: Session, arguments: Arguments) -> None:  # noqa: ARG001 - the action has none
    """Let the plugins choose a target, the job for which nodes are reserved, among the waiting jobs."""
    session.target_job(list(session.jobs.values()))
