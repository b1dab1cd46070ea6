"""Placing a gang on nodes with one value of a label: which value is the best."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.reasons import FitErrors
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement
from pyroclast_scheduler.session.task_placement import place

__all__ = ["NO_DOMAIN", "in_each_domain", "place_in_domain"]

NO_DOMAIN: Final = "no value of node label "
"""How it begins that no domain has room for a gang."""


@dataclass(frozen=True, slots=True)
class _Domain:
    """One value of the label, its code in the column of the label, and its nodes."""

    value: str
    code: int
    nodes: Bools


def place_in_domain(session: Session, job: Job, tasks: deque[Task]) -> Statement | None:
    """Place `tasks` in the domain that takes most of them, of these in the fullest; None where no domain makes the gang ready.

    Every domain is tried and undone; the best one is made again. Tasks that were placed, or cannot be, are taken out of `tasks`.
    """
    best: tuple[tuple[bool, int, float, str], _Domain] | None = None
    found = _domains(session, job)
    for domain in found:
        _forget_errors(job)
        statement = _filled(session, job, deque(tasks), domain)
        if statement is None:
            continue
        count = sum(len(move.tasks) for move in statement.moves)
        rank = (not session.job_ready(job), -count, -_fullness(session, domain), domain.value)
        statement.discard()
        if count and (best is None or rank < best[0]):
            best = rank, domain
    _forget_errors(job)
    if best is not None:
        return _filled(session, job, tasks, best[1])
    if found and tasks:
        text = f"{NO_DOMAIN}{job.facts.group.spec.topology_key} has nodes with room for the gang"
        for task in tasks:
            job.fail(task, FitErrors(f"{text}: {len(found)} values were tried"))
    else:
        place(session, job, tasks)  # says why no node at all will do
    return None


def in_each_domain(session: Session, job: Job, makes_room: Callable[[Job], bool]) -> bool:
    """Let `makes_room` try for `job` in one domain after another until it does; once, where `job` may be anywhere."""
    if not job.facts.group.spec.topology_key:
        return makes_room(job)
    try:
        for domain in sorted(_domains(session, job), key=lambda each: each.value):
            session.domain_of[job.facts.key] = domain.code
            if makes_room(job):
                return True
    finally:
        session.domain_of.pop(job.facts.key, None)
    return False


def _filled(session: Session, job: Job, tasks: deque[Task], domain: _Domain) -> Statement | None:
    """Place as many of `tasks` in `domain` as fit, beyond the minimum too: later they could not go elsewhere."""
    statement = place(session, job, tasks, within=domain.nodes, is_alone=True)
    while statement is not None and tasks and session.job_ready(job):
        more = place(session, job, tasks, within=domain.nodes, is_alone=True)
        if more is None or not more.moves:
            break
        statement.merge(more)
    return statement


def _domains(session: Session, job: Job) -> list[_Domain]:
    """The domains in which `job` may be."""
    key = job.facts.group.spec.topology_key
    column, domains = session.features.label(key), session.features.domains(key)
    closed = session.closed_to(job)
    allowed = session.usable if closed is None else session.usable & ~closed
    codes = np.unique(domains.codes[allowed & domains.has]).tolist()
    return [_Domain(str(column.values[code]), code, allowed & (domains.codes == code)) for code in codes]


def _fullness(session: Session, domain: _Domain) -> float:
    """The mean over the resources of what is taken of the domain's, once all that was placed there is there."""
    rows = np.flatnonzero(domain.nodes)
    whole = session.columns.allocatable[:, rows].sum(axis=1)
    taken = whole - session.columns.idle(rows).sum(axis=1)
    has = whole > 0
    return float((taken[has] / whole[has]).mean()) if has.any() else 0.0


def _forget_errors(job: Job) -> None:
    job.fit_errors.clear()
    job.failed_roles.clear()
