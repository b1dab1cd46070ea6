"""The results of plugins and actions besides decisions: Events, warnings, faults, numbers for the metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyroclast_scheduler.model.faults import Fault
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.session.measures import Measures
from pyroclast_scheduler.session.outcome import Note


@dataclass(slots=True)
class Report:
    """The results to which plugins and actions add.

    `notes`: Events on PodGroups. `warnings`: texts about settings that have no effect. `faults`: invalid objects. `let_in`: pods
    whose queue gate is removed.
    """

    measures: Measures
    notes: list[Note] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    faults: set[Fault] = field(default_factory=set)
    let_in: list[TaskFacts] = field(default_factory=list)
