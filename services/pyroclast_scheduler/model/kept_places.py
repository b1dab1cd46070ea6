"""Places that a session leaves to pods that do not have them yet: for the other jobs of that session they are taken."""

from __future__ import annotations

from typing import NamedTuple

from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["KeptPlace"]


class KeptPlace(NamedTuple):
    """A place on `node` for a pod of a job of `queue`. `is_coming`: what is there now goes first."""

    task: TaskFacts
    node: str
    queue: str
    is_coming: bool
