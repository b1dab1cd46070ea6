"""Placing a gang, or a part of one, on nodes with one value of a label: which value is the best."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Final

import numpy as np

from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.reasons import FitErrors
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement
from pyroclast_scheduler.session.task_placement import place

__all__ = ["NO_DOMAIN", "best_domain", "forget_errors", "in_each_domain", "place_in_domain"]

NO_DOMAIN: Final = "no value of node label "
"""How it begins that no domain has room for a gang."""

_MOST_CHOICES: Final = 256  # of domains for several parts together, tried to make room: each is a whole search for victims


@dataclass(frozen=True, slots=True)
class _Domain:
    """One value of the label, its code in the column of the label, and its nodes."""

    value: str
    code: int
    nodes: Bools


def place_in_domain(session: Session, job: Job, tasks: deque[Task]) -> Statement | None:
    """Place `tasks` in the best domain, see `best_domain`; None where no domain makes the gang ready.

    Tasks that were placed, or cannot be, are taken out of `tasks`.
    """
    key = job.facts.group.spec.topology_key

    def fill(nodes: Bools) -> Statement | None:
        return _filled(session, job, deque(tasks), nodes)

    nodes, count = best_domain(session, job, key, None, fill, lambda: session.job_ready(job))
    forget_errors(job)
    if nodes is not None:
        return _filled(session, job, tasks, nodes)
    if count and tasks:
        text = f"{NO_DOMAIN}{key} has nodes with room for the gang"
        for task in tasks:
            job.fail(task, FitErrors(f"{text}: {count} values were tried"))
    else:
        place(session, job, tasks)  # says why no node at all will do
    return None


def best_domain(  # noqa: PLR0917
    session: Session,
    job: Job,
    key: str,
    within: Bools | None,
    fill: Callable[[Bools], Statement | None],
    is_ready: Callable[[], bool],
) -> tuple[Bools | None, int]:
    """The nodes of the domain that takes most pods, of these of the fullest, and how many domains were tried.

    Every one is tried with `fill` and undone. None, where `fill` placed nothing in any.
    """
    best: tuple[tuple[bool, int, float, str], Bools] | None = None
    found = _domains(session, job, key, within)
    for domain in found:
        forget_errors(job)
        statement = fill(domain.nodes)
        if statement is None:
            continue
        count = sum(len(move.tasks) for move in statement.moves)
        rank = (not is_ready(), -count, -_fullness(session, domain), domain.value)
        statement.discard()
        if count and (best is None or rank < best[0]):
            best = rank, domain.nodes
    return (None if best is None else best[1]), len(found)


def in_each_domain(session: Session, job: Job, makes_room: Callable[[Job], bool]) -> bool:
    """Let `makes_room` try for `job` in one choice of domains after another until it does; once, where `job` may be anywhere."""
    keys = _keys(job)
    if not keys:
        return makes_room(job)
    domains = session.label_refusals.chosen
    try:
        for chosen in islice(_choices(session, job, keys), _MOST_CHOICES):
            domains[job.facts.key] = chosen
            if makes_room(job):
                return True
    finally:
        domains.pop(job.facts.key, None)
    return False


def forget_errors(job: Job) -> None:
    """As if nothing of `job` had been tried."""
    job.fit_errors.clear()
    job.failed_roles.clear()


def _keys(job: Job) -> dict[str, str]:
    """By part of `job`, the label of which it must have one value; an empty name is the whole."""
    spec = job.facts.group.spec
    if spec.tree is None:
        return {"": spec.topology_key} if spec.topology_key else {}
    return {part.name: part.topology_key for path in spec.tree.paths() for part in path if part.topology_key}


def _choices(session: Session, job: Job, keys: dict[str, str]) -> Iterator[dict[str, int]]:
    """The codes of one value for each part, in all ways."""
    found = [sorted(_domains(session, job, key, None), key=lambda each: each.value) for key in keys.values()]
    for chosen in product(*found):
        yield dict(zip(keys, (domain.code for domain in chosen), strict=True))


def _filled(session: Session, job: Job, tasks: deque[Task], nodes: Bools) -> Statement | None:
    """Place as many of `tasks` on `nodes` as fit, beyond the minimum too: later they could not go elsewhere."""
    statement = place(session, job, tasks, within=nodes, is_alone=True)
    while statement is not None and tasks and session.job_ready(job):
        more = place(session, job, tasks, within=nodes, is_alone=True)
        if more is None or not more.moves:
            break
        statement.merge(more)
    return statement


def _domains(session: Session, job: Job, key: str, within: Bools | None) -> list[_Domain]:
    """The domains in which `job` may be, as far as they are `within`."""
    column, domains = session.features.label(key), session.features.domains(key)
    closed = session.closed_to(job)
    allowed = session.nodes.usable if closed is None else session.nodes.usable & ~closed
    allowed = allowed if within is None else allowed & within
    codes = np.unique(domains.codes[allowed & domains.has]).tolist()
    return [_Domain(str(column.values[code]), code, allowed & (domains.codes == code)) for code in codes]


def _fullness(session: Session, domain: _Domain) -> float:
    """The mean over the resources of what is taken of the domain's, once all that was placed there is there."""
    rows = np.flatnonzero(domain.nodes)
    whole = session.columns.allocatable[:, rows].sum(axis=1)
    taken = whole - session.columns.idle(rows).sum(axis=1)
    has = whole > 0
    return float((taken[has] / whole[has]).mean()) if has.any() else 0.0
