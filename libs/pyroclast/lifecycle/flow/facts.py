"""The input and the result of a decision about a flow, as values; the graph of the entries belongs to the input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple, TypeAlias

import msgspec

from pyroclast.api.enums import FlowPhase, FlowReason
from pyroclast.api.records import FlowEntry, FlowSpec, FlowStatus, HttpGetProbe, Job, JobFlow, TcpSocketProbe
from pyroclast.lifecycle.effects import Notice
from pyroclast.lifecycle.flow.uses import NO_USES, Uses, uses_of


@dataclass(frozen=True, slots=True)
class Node:
    """One entry of a flow.

    `targets` are those of `dependsOn`. `waits` are the targets and the entries whose outcome or outputs the entry reads. `asked`
    are the waits for which any outcome is enough. `needs` are those whose outputs the Jobs of the entry are made from. `choosers`
    are the entries whose `else` or `switch` may choose this entry. `uses`: the expressions of the entry.
    """

    entry: FlowEntry
    position: int
    targets: tuple[str, ...]
    waits: tuple[str, ...]
    asked: frozenset[str]
    choosers: tuple[str, ...]
    needs: tuple[str, ...] = ()
    uses: Uses = NO_USES

    @property
    def name(self) -> str:
        """The name of the entry."""
        return self.entry.name


@dataclass(frozen=True, slots=True)
class Graph:
    """All entries by name, in the order of the flow.

    In `order`, each entry follows all entries that it waits for and all that may choose it. `cyclic` has the entries of cycles,
    and the entries that wait for a cycle; these are not in `order`. `tolerated` are the entries whose failure another entry
    reads. `follows_progress`: whether a Job that has not ended can let another Job start.
    """

    nodes: Mapping[str, Node]
    order: tuple[str, ...]
    cyclic: frozenset[str]
    tolerated: frozenset[str]
    follows_progress: bool = False


def build(spec: FlowSpec) -> Graph:
    """Return the graph of the entries. Of several entries with the same name, the first is used."""
    entries: dict[str, tuple[int, FlowEntry]] = {}
    for position, entry in enumerate(spec.flows):
        entries.setdefault(entry.name, (position, entry))
    choosers: dict[str, list[str]] = {}
    for name, (_, entry) in entries.items():
        for chosen in dict.fromkeys(chosen_by(entry)):
            choosers.setdefault(chosen, []).append(name)
    nodes = {name: _node(entry, position, choosers.get(name, ())) for name, (position, entry) in entries.items()}
    order = _order(nodes)
    tolerated = frozenset(target for node in nodes.values() for target in node.asked)
    progress = any(
        entry.condition is not None or (entry.depends_on is not None and entry.depends_on.probe is not None)
        for _, entry in entries.values()
    )
    return Graph(nodes, order, frozenset(nodes.keys() - set(order)), tolerated, progress)


def chosen_by(entry: FlowEntry) -> Iterable[str]:
    """Yield the names of the entries among which `entry` chooses."""
    yield from entry.otherwise
    if entry.switch is not None:
        for case in entry.switch.cases:
            yield from case.entries
        yield from entry.switch.default


def _node(entry: FlowEntry, position: int, choosers: Iterable[str]) -> Node:
    targets = tuple(dict.fromkeys(entry.depends_on.targets)) if entry.depends_on is not None else ()
    uses = uses_of(entry)
    asked = [*uses.asked]
    if entry.condition is not None:
        if entry.condition.target:
            asked.append(entry.condition.target)
        if entry.condition.expression:
            asked += targets
    if entry.switch is not None and entry.switch.on:
        asked.append(entry.switch.on)
    waits = tuple(dict.fromkeys((*targets, *asked, *uses.needs)))
    return Node(entry, position, targets, waits, frozenset(asked), tuple(choosers), uses.needs, uses)


def _order(nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """Return the entries in an order in which each follows the entries that it needs, without those behind a cycle."""
    needed = {name: [other for other in (*node.waits, *node.choosers) if other in nodes] for name, node in nodes.items()}
    sorter, order = TopologicalSorter(needed), list[str]()
    with suppress(CycleError):  # the sorter can still be used, up to the cycle
        sorter.prepare()
    while ready := sorter.get_ready():
        order += ready
        sorter.done(*ready)
    return tuple(order)


@dataclass(frozen=True, slots=True)
class Refused:
    """The API server refused to create the Job of that name. `next_try`: when to try again, in seconds since the epoch."""

    reason: FlowReason
    message: str
    next_try: float


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The result of probes; `message` names the failed probe."""

    passed: bool
    message: str = ""


class ProbedJob(NamedTuple):
    """A Job whose pods are probed, in one of its versions: after a restart, the Job has other pods and a new version."""

    name: str
    uid: str
    version: int


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """Network probes that run repeatedly until they pass; each probe runs on the pods of all `jobs`."""

    entry: str
    target: str
    jobs: tuple[ProbedJob, ...]
    http: tuple[HttpGetProbe, ...] = ()
    tcp: tuple[TcpSocketProbe, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowFacts:
    """A flow and the objects around it at time `now`, in seconds since the epoch. Jobs are given by name.

    `labelled`: Jobs that bear the label of the flow but have another owner; the lists of the status count them. `job_named`:
    returns the Job of that name in the namespace, whoever owns it. `template`: returns the raw spec of the template of an entry.
    `exit_codes`: of Jobs that ended; None when the exit code was looked up but not found. `cancelled`: UIDs of the Jobs that were
    told to terminate.
    """

    flow: JobFlow
    graph: Graph
    now: float
    jobs: Mapping[str, Job] = field(default_factory=dict)
    labelled: Mapping[str, Job] = field(default_factory=dict)
    job_named: Callable[[str], Job | None] = lambda _: None
    template: Callable[[str], msgspec.Raw | None] = lambda _: None
    answers: Mapping[ProbeRequest, ProbeAnswer] = field(default_factory=dict)
    refused: Mapping[str, Refused] = field(default_factory=dict)
    exit_codes: Mapping[str, int | None] = field(default_factory=dict)
    cancelled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add the finalizer, which keeps a deleted flow until its Jobs are gone."""


@dataclass(frozen=True, slots=True)
class ReleaseFlow:
    """Remove the finalizer of a deleted flow."""


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create the Job `name` of `entry` from the spec of a template.

    `retry`: how many Jobs of this name failed before. `item`: the item of a loop that this round handles; None outside of such
    loops. `values`: the values of the references in the patch of the entry, by their expressions.
    """

    name: str
    entry: FlowEntry
    template: msgspec.Raw
    retry: int = 0
    item: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the Job with this UID; a newer Job of the same name stays."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Terminate the Job with this UID, because its flow has failed."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class SuspendJob:
    """Suspend the Job with this UID together with its flow, or resume it if `suspended` is false."""

    name: str
    uid: str
    suspended: bool


Effect: TypeAlias = AddFinalizer | ReleaseFlow | CreateJob | DeleteJob | CancelJob | SuspendJob


@dataclass(frozen=True, slots=True)
class Report:
    """The status to write, None when the decision leaves the status alone, and the Events to record."""

    status: FlowStatus | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class FlowDecision:
    """The decision about a flow.

    `report` returns the status to write, as far as it is known before the effects. It is only computed when `status` or `notices`
    are read, since a decision with effects is followed by another one, which may write the status instead. `phase` is the phase
    in that status. `probes` must be kept running. `exit_codes` names the Jobs whose exit codes are to be read from their pods.
    `recheck_at` is in seconds since the epoch. `waits_for_status`: decide again after the status was written.
    """

    effects: tuple[Effect, ...] = ()
    report: Callable[[], Report] = field(default=Report, compare=False)
    phase: FlowPhase | None = None
    probes: tuple[ProbeRequest, ...] = ()
    exit_codes: tuple[str, ...] = ()
    recheck_at: float | None = None
    waits_for_status: bool = False

    @property
    def status(self) -> FlowStatus | None:
        """The status that the flow should have; None when the decision leaves the status alone."""
        return self._report.status

    @property
    def notices(self) -> tuple[Notice, ...]:
        """The Events to record on the flow."""
        return self._report.notices

    @cached_property
    def _report(self) -> Report:
        return self.report()
