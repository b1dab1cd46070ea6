"""Room on nodes that a session reserves for pods that are not bound yet. Other jobs of the same session cannot use this room."""

from __future__ import annotations

from typing import NamedTuple

from pyroclast_scheduler.model.tasks import TaskFacts


class KeptPlace(NamedTuple):
    """Room on `node` for a pod of a job of `queue`.

    `is_coming`: whether the room is still occupied by pods that are being deleted.
    """

    task: TaskFacts
    node: str
    queue: str
    is_coming: bool
