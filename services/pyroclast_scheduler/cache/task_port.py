"""The interface through which code besides the watches changes the tasks in the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyroclast.api import records
from pyroclast_scheduler.cache.assumptions import Assumptions
from pyroclast_scheduler.model.tasks import TaskFacts


@dataclass(frozen=True, slots=True)
class TaskPort:
    """The operations on the tasks of the cache.

    Attributes:
        tasks: the tasks by UID.
        assumptions: the assumptions about pods.
        put: sets a pod; returns whether that changed anything.
        drop: removes a pod by its UID.
        changed: reports a change that a session should examine.
        stale: reports a change that may affect any job.
        now: returns seconds.
    """

    tasks: Mapping[str, TaskFacts]
    assumptions: Assumptions
    put: Callable[[records.Pod], bool]
    drop: Callable[[str], None]
    changed: Callable[[], None]
    stale: Callable[[], None]
    now: Callable[[], float]
