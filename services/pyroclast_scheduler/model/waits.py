"""When a job that a session could do nothing for is worth another look."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pyroclast.api import records
from pyroclast_scheduler.model.facts import JobFacts
from pyroclast_scheduler.model.shapes import Shape

__all__ = ["Evicts", "Limit", "Rest"]


class Evicts(Enum):
    """Whose pods may be made to go for a job."""

    NOBODY = 0
    OWN_QUEUE = 1
    ANYBODY = 2


@dataclass(frozen=True, slots=True)
class Limit:
    """What plugins keep a job of `queue` from: all jobs of equal limits, or none of them.

    With `shapes`: from having `count` more pods of any of these. Without: from being let in, by its namespace and `minimum`.
    `record`: the queue as it was, of which the job says why it waits.
    """

    queue: str
    record: records.Queue = field(compare=False)
    shapes: frozenset[Shape] = frozenset()
    count: int = 1
    namespace: str = ""
    minimum: frozenset[tuple[str, str | int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Rest:
    """A job about which nothing is to be done or said as long as it stays as it is in `facts` …

    … and as long as no node could take another pod of its `shapes`: at least `lacking` in all, where it has one shape only;
    `evicts`: and as long as nothing changes of those who could be made to go for it. `is_wary`: as long as nothing at all
    changes; `limit`, which only such jobs have: or plugins say that it holds all the same. `is_timed`: until the next schedule
    period at the latest.
    """

    facts: JobFacts
    shapes: frozenset[Shape] = frozenset()
    lacking: int = 1
    is_wary: bool = False
    is_timed: bool = False
    evicts: Evicts = Evicts.NOBODY
    limit: Limit | None = None
