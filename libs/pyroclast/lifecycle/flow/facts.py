"""The input and the result of a decision about a flow, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

import msgspec

from pyroclast.api.enums import FlowPhase, FlowReason
from pyroclast.api.records import FlowEntry, FlowStatus, HttpGetProbe, Job, JobFlow, TcpSocketProbe
from pyroclast.lifecycle.flow.graph import Graph
from pyroclast.lifecycle.notices import Notice


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
    """A flow and the objects around it at time `now`.

    Args:
        flow: the flow as last observed.
        graph: the graph of the flow's spec.
        now: seconds since the epoch.
        jobs: the Jobs of the flow, by name.
        labelled: Jobs that bear the label of the flow but have another owner; the lists of the status count them.
        job_named: returns the Job of that name in the namespace, whoever owns it.
        template: returns the raw spec of the template of an entry; None when there is no such template.
        answers: results of probes, by request. The result for other pods is not used.
        refused: failed creations of Jobs, by name of the Job.
        exit_codes: exit codes of Jobs that ended, by name; None when the exit code was looked up but not found.
        cancelled: UIDs of the Jobs that were told to terminate.
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
    loops.
    """

    name: str
    entry: FlowEntry
    template: msgspec.Raw
    retry: int = 0
    item: str | None = None


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


Effect: TypeAlias = AddFinalizer | ReleaseFlow | CreateJob | DeleteJob | CancelJob


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
