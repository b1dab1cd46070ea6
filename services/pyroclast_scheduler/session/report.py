"""What a session tells beside its decisions: events, warnings, faults of objects, numbers for the metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyroclast_scheduler.model.faults import Fault
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.session.measures import Measures
from pyroclast_scheduler.session.outcome import Note

__all__ = ["Report"]


@dataclass(slots=True)
class Report:
    """Plugins and actions add to it.

    `notes`: events on PodGroups. `warnings`: what of the configuration has no effect. `faults`: what of objects makes no sense.
    `let_in`: pods that pass the gate of their queue.
    """

    measures: Measures
    notes: list[Note] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    faults: set[Fault] = field(default_factory=set)
    let_in: list[TaskFacts] = field(default_factory=list)
