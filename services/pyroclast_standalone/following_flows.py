"""The progress of a JobFlow as a tree: each entry below the last of those that it waits for, with its Jobs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyroclast.api.enums import EntryPhase, FlowPhase, JobPhase
from pyroclast.api.records import FlowJobCondition, JobFlow
from pyroclast.lifecycle.flow import graph
from pyroclast.lifecycle.flow.names import job_name

from .following import Progress

__all__ = ["MOST_LEVELS", "flow_progress"]

MOST_LEVELS: Final = 40
"""Of a tree: a flow may be a chain of hundreds, which nobody reads indented."""

_OWN_WORDS = frozenset(EntryPhase)


@dataclass(frozen=True, slots=True)
class _Tree:
    flow: JobFlow
    nodes: Mapping[str, graph.Node]
    jobs: Mapping[str, Progress]
    children: Mapping[str, Sequence[str]]


def flow_progress(flow: JobFlow, jobs: Mapping[str, Progress]) -> Progress:
    """What `flow` does now; `jobs` are its Jobs that exist, by their names."""
    built = graph.build(flow.spec)
    children: dict[str, list[str]] = {}
    for name, parent in _parents(built).items():
        children.setdefault(parent, []).append(name)
    tree = _Tree(flow, built.nodes, jobs, children)
    phases = Counter(_condition(tree, name).phase for name in built.nodes)
    skipped = f", {phases[EntryPhase.SKIPPED]} skipped" if phases[EntryPhase.SKIPPED] else ""
    detail = f"{phases[JobPhase.COMPLETED]} of {len(built.nodes)} entries completed{skipped}"
    branches = tuple((name, _entry(tree, name)) for name in children.get("", ()))
    return Progress(flow.status.state.phase or FlowPhase.PENDING, detail, branches)


def _parents(built: graph.Graph) -> dict[str, str]:
    """The entry below which each one stands, empty for none: of those that it needs, the first with the longest way to it.

    From `MOST_LEVELS` on an entry stands beside the one that it would stand below.
    """
    depths: dict[str, int] = {}
    parents: dict[str, str] = {}
    for name in built.order:
        node = built.nodes[name]
        needed = [other for other in (*node.waits, *node.choosers) if other in depths]
        depths[name] = 1 + max((depths[other] for other in needed), default=0)
        nearest = max(needed, key=depths.__getitem__, default="")
        parents[name] = nearest if depths[name] <= MOST_LEVELS else parents[nearest]
    parents.update({name: "" for name in built.nodes if name in built.cyclic})
    return parents


def _entry(tree: _Tree, name: str) -> Progress:
    job = job_name(tree.flow.metadata.name, name)
    condition = _condition(tree, name)
    is_loop = tree.nodes[name].entry.loop is not None
    rounds = sorted((index, key) for key in tree.jobs if is_loop and (index := _round(key, job)) is not None)
    branches = (
        *((f"round {index}", tree.jobs[key]) for index, key in rounds),
        *((child, _entry(tree, child)) for child in tree.children.get(name, ())),
    )
    if job in tree.jobs and condition.phase not in _OWN_WORDS:
        return Progress(tree.jobs[job].phase, tree.jobs[job].detail, branches)
    return Progress(condition.phase or EntryPhase.WAITING, condition.message, branches)


def _round(name: str, job: str) -> int | None:
    """Which round the Job `name` is of the loop whose Jobs are named `job` and a number; None when it is none of them."""
    index = name.removeprefix(f"{job}-")
    return int(index) if index != name and index.isdecimal() else None


def _condition(tree: _Tree, name: str) -> FlowJobCondition:
    """What the status says of an entry. Of a large flow only the row of its Job may say how that is."""
    status, job = tree.flow.status, job_name(tree.flow.metadata.name, name)
    if (said := status.conditions.get(job)) is not None:
        return said
    return next((FlowJobCondition(phase=row.state) for row in status.job_status_list if row.name == job), FlowJobCondition())
