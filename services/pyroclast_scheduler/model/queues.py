"""A queue: what the scheduler knows of it, and its place in a session."""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.api import records
from pyroclast_scheduler.model.dimensions import Amounts, amounts_of
from pyroclast_scheduler.model.tasks import seconds_of

__all__ = ["Queue", "QueueFacts"]


class QueueFacts:
    """One queue.

    Raises (when made):
        ValueError: a quantity of the queue makes no sense.
    """

    def __init__(self, queue: records.Queue) -> None:
        spec = queue.spec
        self.record = queue
        self.name = queue.metadata.name
        self.uid = queue.metadata.uid
        self.created = seconds_of(queue.metadata.creation_timestamp)
        self.weight = max(0, spec.weight)  # less would take from the others what they deserve
        self.priority = spec.priority
        self.parent = spec.parent
        self.is_reclaimable = spec.reclaimable is not False
        self.is_open = queue.status.state in {None, "", "Open"}
        self.capability: Amounts | None = None if spec.capability is None else amounts_of(spec.capability)
        self.guarantee: Amounts = amounts_of(spec.guarantee.resource)
        self.deserved: Amounts | None = None if spec.deserved is None else amounts_of(spec.deserved)

    @property
    def resources(self) -> frozenset[str]:
        """The names of all resources that it limits, guarantees or deserves."""
        return frozenset((*(self.capability or ()), *self.guarantee, *(self.deserved or ())))


@dataclass(slots=True, eq=False)
class Queue:
    """A queue in a session."""

    facts: QueueFacts

    @property
    def name(self) -> str:
        """Its name."""
        return self.facts.name
