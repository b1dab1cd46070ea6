"""When a job that a session could do nothing for is worth another look."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.shapes import Shape

__all__ = ["Evicts", "Rest"]


class Evicts(Enum):
    """Whose pods may be made to go for a job."""

    NOBODY = 0
    OWN_QUEUE = 1
    ANYBODY = 2


@dataclass(frozen=True, slots=True)
class Rest:
    """A job about which nothing is to be done or said as long as it stays as it is in `facts` …

    … and as long as no node could take another pod of its `shapes`: at least `lacking` in all, where it has one shape only;
    `evicts`: and as long as nothing changes of those who could be made to go for it. `is_wary`: as long as nothing at all
    changes. `minds`: and as long as no pod with one of these values of labels, and none that keeps away from others, comes to a
    node or leaves it, and nodes change in nothing but their room; None: who is where does not matter to it. `pause`: for so many
    schedule periods at most; 0: time does not matter. `kind`: all that rest and are of the same kind wait for the same, and one
    of them is asked for all; None: it is alone. `reason`: why it says that it waits.
    """

    facts: JobFacts
    shapes: frozenset[Shape] = frozenset()
    lacking: int = 1
    is_wary: bool = False
    minds: frozenset[tuple[str, str]] | None = None
    pause: int = 0
    evicts: Evicts = Evicts.NOBODY
    kind: bytes | None = None
    reason: str = ""
