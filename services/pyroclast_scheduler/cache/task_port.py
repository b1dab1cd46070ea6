"""The tasks of the cache, for those who change them beside what watches tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyroclast.api import records
from pyroclast_scheduler.cache.assumptions import Assumptions
from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["TaskPort"]


@dataclass(frozen=True, slots=True)
class TaskPort:
    """What may be done to the tasks of the cache.

    `put` takes up a pod and tells whether that changed anything, `drop` forgets one by its uid. `changed`: a session should look;
    `stale`: at all jobs. `now`: seconds.
    """

    tasks: Mapping[str, TaskFacts]
    assumptions: Assumptions
    put: Callable[[records.Pod], bool]
    drop: Callable[[str], None]
    changed: Callable[[], None]
    stale: Callable[[], None]
    now: Callable[[], float]
