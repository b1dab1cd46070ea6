"""Nodes that a gang cannot use because all of its nodes must have one value of a label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.reasons import Code, Refusal
from pyroclast_scheduler.model.statuses import ALLOCATED, TaskStatus

if TYPE_CHECKING:
    from pyroclast_scheduler.session.session import Session

__all__ = ["refusals_of"]

_PLACED: Final = ALLOCATED | {TaskStatus.PIPELINED}


def refusals_of(session: Session, job: Job) -> list[Refusal]:
    """Nodes that cannot take a pod of `job` by their label: those without it, and those outside the domain of its other pods."""
    key = job.facts.group.spec.topology_key
    if not key:
        return []
    column = session.features.label(key)
    domains = session.features.domains(key)
    refusals = [Refusal(~domains.has, f"node(s) without label {key}", Code.UNRESOLVABLE, is_steady=True)]
    rows = [task.row for task in job.tasks if task.status in _PLACED and task.row >= 0] if _has_places(job) else []
    codes = np.unique(domains.codes[rows])
    if len(codes) > 1:
        names = ", ".join(sorted(str(column.values[code] or "") for code in codes))
        why = f"cannot determine domain for already scheduled pods: more than 1 domain found for pod group: {names}"
        return [Refusal(np.ones_like(domains.has), why, Code.UNRESOLVABLE, is_steady=True)]
    chosen = session.domain_of.get(job.facts.key)
    if chosen is not None and not len(codes):
        where = f"node(s) outside {key}={column.values[chosen]}, where room is made for the group"
        refusals.append(Refusal(domains.codes != chosen, where, Code.UNRESOLVABLE, is_steady=True))
    if len(codes):
        where = f"node(s) outside {key}={column.values[codes[0]]}, where other pods of the group are"
        refusals.append(Refusal(domains.codes != codes[0], where, Code.UNRESOLVABLE, is_steady=True))
    return refusals


def _has_places(job: Job) -> bool:
    return any(job.tally[status] for status in _PLACED)
