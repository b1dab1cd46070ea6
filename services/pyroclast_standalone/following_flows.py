"""Describes the progress of a JobFlow as a tree: each entry below the last entry that it waits for, with its Jobs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyroclast.api.enums import EntryPhase, FlowPhase, JobPhase
from pyroclast.api.records import FlowJobCondition, JobFlow
from pyroclast.lifecycle.flow import graph
from pyroclast.lifecycle.flow.names import job_name
from pyroclast_standalone.following import Progress

MOST_LEVELS: Final = 40
"""Most levels of a tree. A flow may be a chain of hundreds of entries, whose indentation would be unreadable."""

_OWN_WORDS = frozenset(EntryPhase)


@dataclass(frozen=True, slots=True)
class _Tree:
    flow: JobFlow
    nodes: Mapping[str, graph.Node]
    jobs: Mapping[str, Progress]
    children: Mapping[str, Sequence[str]]


def flow_progress(flow: JobFlow, jobs: Mapping[str, Progress]) -> Progress:
    """Return the progress of `flow`. `jobs` are its existing Jobs by name."""
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
    """Return the parent of each entry in the tree, empty for none: of the needed entries, the first with the longest path.

    From `MOST_LEVELS` on, an entry is a sibling of its parent.
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
    """Return the loop round of the Job `name`, if its name is `job` and a number. Otherwise None."""
    index = name.removeprefix(f"{job}-")
    return int(index) if index != name and index.isdecimal() else None


def _condition(tree: _Tree, name: str) -> FlowJobCondition:
    """Return the condition of an entry in the status. A large flow may only have a row for its Job."""
    status, job = tree.flow.status, job_name(tree.flow.metadata.name, name)
    if (said := status.conditions.get(job)) is not None:
        return said
    return next((FlowJobCondition(phase=row.state) for row in status.job_status_list if row.name == job), FlowJobCondition())
