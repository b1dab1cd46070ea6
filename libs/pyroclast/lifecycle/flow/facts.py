"""What a decision about a flow starts from, and what it ends in: values only."""

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

__all__ = [
    "AddFinalizer",
    "CancelJob",
    "CreateJob",
    "DeleteJob",
    "Effect",
    "FlowDecision",
    "FlowFacts",
    "ProbeAnswer",
    "ProbeRequest",
    "ProbedJob",
    "Refused",
    "ReleaseFlow",
    "Report",
]


@dataclass(frozen=True, slots=True)
class Refused:
    """The Job of that name could not be made: why, and when to try again (seconds since the epoch)."""

    reason: FlowReason
    message: str
    next_try: float


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What probes found; `message` says what did not pass."""

    passed: bool
    message: str = ""


class ProbedJob(NamedTuple):
    """A Job whose pods are probed, in one of its versions: those that it has after a restart are others."""

    name: str
    uid: str
    version: int


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """Probes over the network that are to be run again and again until they pass: all of them at the pods of all `jobs`."""

    entry: str
    target: str
    jobs: tuple[ProbedJob, ...]
    http: tuple[HttpGetProbe, ...] = ()
    tcp: tuple[TcpSocketProbe, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowFacts:
    """A flow and what is around it at `now`, in seconds since the epoch.

    Args:
        flow: as last seen.
        graph: of its spec.
        now: seconds since the epoch.
        jobs: the Jobs of the flow, by name.
        labelled: Jobs of others that bear its label: they count in the lists of the status.
        job_named: any Job of the namespace, also that of a stranger.
        template: the spec of the template of an entry, raw; None when there is none.
        answers: of probes, by what was asked: what other pods answered, or were asked, does not count.
        refused: what came of trying to make Jobs, by name.
        exit_codes: of Jobs that ended, by name; None: looked for, not found.
        cancelled: uids of Jobs whose termination was asked for.
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
    """Keep the flow, once it is deleted, until its Jobs are gone."""


@dataclass(frozen=True, slots=True)
class ReleaseFlow:
    """Let a deleted flow go."""


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Make the Job `name` of `entry` from a template's spec. `retry` counts the times it was made before and failed; `item` is
    what a round of a loop is about.
    """

    name: str
    entry: FlowEntry
    template: msgspec.Raw
    retry: int = 0
    item: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete a Job, that very one."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Have a Job terminated, that very one, as its flow has failed."""

    name: str
    uid: str


Effect: TypeAlias = AddFinalizer | ReleaseFlow | CreateJob | DeleteJob | CancelJob


@dataclass(frozen=True, slots=True)
class Report:
    """What a flow says of itself: its status, None where that is not ours to write, and what users are told besides."""

    status: FlowStatus | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class FlowDecision:
    """What is to be done about a flow now.

    `report` gives the status to write, as far as it is known before the effects. It is only computed when `status` or `notices`
    are read, since a decision with effects is followed by another one, which may write the status instead. `phase` is the one
    of that status. `probes` are to be kept running; `exit_codes` are Jobs whose pods have to be asked how they ended;
    `recheck_at` in seconds since the epoch; `waits_for_status`: decide again once the status has been written.
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
        """What the status of the flow should be; None: it is left alone."""
        return self._report.status

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What users are told besides."""
        return self._report.notices

    @cached_property
    def _report(self) -> Report:
        return self.report()
