"""Placement of a gang, or of a part of one, on nodes that share one value of a label: the choice of the best value."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Final

import numpy as np

from pyroclast_scheduler.model.fit_errors import FitErrors
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement
from pyroclast_scheduler.session.task_placement import place

NO_DOMAIN: Final = "no value of node label "
"""The start of the message that no domain has room for a gang."""

_MOST_CHOICES: Final = 256  # combinations of domains that are tried for evictions; each costs a search for victims


@dataclass(frozen=True, slots=True)
class _Domain:
    """One value of the label, its code in the array of the label, and its nodes."""

    value: str
    code: int
    nodes: Bools


def place_in_domain(session: Session, job: Job, tasks: deque[Task]) -> Statement | None:
    """Place `tasks` in the best domain, see `best_domain`; None if the gang is ready in no domain.

    Tasks that are placed or infeasible are removed from `tasks`.
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
        place(session, job, tasks)  # sets the fit errors of all nodes
    return None


def best_domain(  # noqa: PLR0917
    session: Session,
    job: Job,
    key: str,
    within: Bools | None,
    fill: Callable[[Bools], Statement | None],
    is_ready: Callable[[], bool],
) -> tuple[Bools | None, int]:
    """Return the nodes of the domain that accepts most pods, and the number of domains. Of equal domains the fullest is chosen.

    Each domain is tried with `fill`, and the trial is undone. The nodes are None if `fill` placed no pod in any domain.
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
    """Call `makes_room` for each combination of domains until it returns True, or once if `job` needs no domain."""
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
    """Remove all fit errors of `job`."""
    job.fit_errors.clear()
    job.failed_roles.clear()


def _keys(job: Job) -> dict[str, str]:
    """Return the label whose value must be the same for all nodes, by part of `job`. An empty name stands for the whole job."""
    spec = job.facts.group.spec
    if spec.tree is None:
        return {"": spec.topology_key} if spec.topology_key else {}
    return {part.name: part.topology_key for path in spec.tree.paths() for part in path if part.topology_key}


def _choices(session: Session, job: Job, keys: dict[str, str]) -> Iterator[dict[str, int]]:
    """Yield all combinations of one label value, as its code, for each part."""
    found = [sorted(_domains(session, job, key, None), key=lambda each: each.value) for key in keys.values()]
    for chosen in product(*found):
        yield dict(zip(keys, (domain.code for domain in chosen), strict=True))


def _filled(session: Session, job: Job, tasks: deque[Task], nodes: Bools) -> Statement | None:
    """Place as many of `tasks` on `nodes` as fit, also beyond the minimum, since later pods could not use another domain."""
    statement = place(session, job, tasks, within=nodes, is_alone=True)
    while statement is not None and tasks and session.job_ready(job):
        more = place(session, job, tasks, within=nodes, is_alone=True)
        if more is None or not more.moves:
            break
        statement.merge(more)
    return statement


def _domains(session: Session, job: Job, key: str, within: Bools | None) -> list[_Domain]:
    """Return the domains whose nodes are open to `job`, limited to nodes `within`."""
    column, domains = session.features.label(key), session.features.domains(key)
    closed = session.closed_to(job)
    allowed = session.nodes.usable if closed is None else session.nodes.usable & ~closed
    allowed = allowed if within is None else allowed & within
    codes = np.unique(domains.codes[allowed & domains.has]).tolist()
    return [_Domain(str(column.values[code]), code, allowed & (domains.codes == code)) for code in codes]


def _fullness(session: Session, domain: _Domain) -> float:
    """Return the mean, over all resources, of the used fraction of the domain's amounts after the trial placement."""
    rows = np.flatnonzero(domain.nodes)
    whole = session.columns.allocatable[:, rows].sum(axis=1)
    taken = whole - session.columns.idle(rows).sum(axis=1)
    has = whole > 0
    return float((taken[has] / whole[has]).mean()) if has.any() else 0.0
