"""The records of JobFlow and JobTemplate. Patches and template specs stay raw JSON, as pod templates do.

Parts of a status are encoded without what is zero or empty, as they go over the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pyroclast.api.enums import FailurePolicy, FlowPhase, JobPhase, RetainPolicy, TargetStrategy
from pyroclast.api.records.jobs import TaskState
from pyroclast.api.records.meta import ObjectRecord, Wire

__all__ = [
    "MOST_ROUNDS",
    "FlowCondition",
    "FlowDependsOn",
    "FlowEntry",
    "FlowJobCondition",
    "FlowJobPods",
    "FlowJobStatus",
    "FlowLoop",
    "FlowRetry",
    "FlowSpec",
    "FlowState",
    "FlowStatus",
    "FlowSwitch",
    "HttpGetProbe",
    "HttpHeader",
    "JobFlow",
    "JobTemplate",
    "JobTemplateStatus",
    "ProbeSet",
    "RunningHistory",
    "SwitchCase",
    "TaskStatusProbe",
    "TcpSocketProbe",
]

MOST_ROUNDS: Final = 1500
"""Jobs that the loops of one flow may make: the flow's status has some lines for each, and an object is limited to 1.5 MB."""


class HttpHeader(Wire, frozen=True, kw_only=True):
    """A header of a probe's request."""

    name: str = ""
    value: str = ""


class HttpGetProbe(Wire, frozen=True, kw_only=True):
    """The pods of a task must answer a GET. An empty task name means all tasks."""

    task_name: str = ""
    path: str = ""
    port: int = 0
    http_header: HttpHeader | None = None


class TcpSocketProbe(Wire, frozen=True, kw_only=True):
    """The pods of a task must accept a connection."""

    task_name: str = ""
    port: int = 0


class TaskStatusProbe(Wire, frozen=True, kw_only=True):
    """Enough pods of a task must be in a phase."""

    task_name: str = ""
    phase: str = ""


class ProbeSet(Wire, frozen=True, kw_only=True):
    """Probes that all must pass before a target counts as satisfied."""

    http_get_list: tuple[HttpGetProbe, ...] = ()
    tcp_socket_list: tuple[TcpSocketProbe, ...] = ()
    task_status_list: tuple[TaskStatusProbe, ...] = ()


class FlowDependsOn(Wire, frozen=True, kw_only=True):
    """The entries that must be done, or pass their probes, before this one starts."""

    targets: tuple[str, ...] = ()
    strategy: TargetStrategy = TargetStrategy.ALL
    probe: ProbeSet | None = None


class FlowCondition(Wire, frozen=True, kw_only=True):
    """A target in one of the phases, or an expression over the targets' status."""

    target: str = ""
    phase: tuple[JobPhase, ...] = ()
    expression: str = ""


class SwitchCase(Wire, frozen=True, kw_only=True):
    """Entries that are chosen when the target ended in this phase or with this exit code."""

    phase: JobPhase | None = None
    exit_code: int | None = None
    entries: tuple[str, ...] = ()


class FlowSwitch(Wire, frozen=True, kw_only=True):
    """Chooses entries by the outcome of the target `on`."""

    on: str = ""
    cases: tuple[SwitchCase, ...] = ()
    default: tuple[str, ...] = ()


class FlowLoop(Wire, frozen=True, kw_only=True):
    """Runs an entry several times; `parallel` is how many at once, `until` an expression that ends the loop early."""

    count: int | None = None
    items: tuple[str | int, ...] = ()
    parallel: int = 1
    until: str = ""


class FlowRetry(Wire, frozen=True, kw_only=True):
    """How often a failed Job of an entry is run again; `backoff` is a Go duration, doubled each time."""

    limit: int = 0
    backoff: str | None = None


class FlowEntry(Wire, frozen=True, kw_only=True):
    """One vertex of a flow; `patch` is raw JSON, empty when absent. `otherwise` runs when `condition` does not hold."""

    name: str = ""
    depends_on: FlowDependsOn | None = None
    patch: msgspec.Raw = msgspec.Raw()
    condition: FlowCondition | None = msgspec.field(default=None, name="if")
    otherwise: tuple[str, ...] = msgspec.field(default=(), name="else")
    switch: FlowSwitch | None = None
    loop: FlowLoop | None = msgspec.field(default=None, name="for")
    retry: FlowRetry | None = None


class FlowSpec(Wire, frozen=True, kw_only=True):
    """The entries of a flow and what becomes of their Jobs."""

    flows: tuple[FlowEntry, ...] = ()
    job_retain_policy: RetainPolicy = RetainPolicy.RETAIN
    failure_policy: FailurePolicy = FailurePolicy.CONTINUE


class RunningHistory(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A time during which a Job was in one state."""

    start_timestamp: str | None = None
    end_timestamp: str | None = None
    state: str = ""


class FlowJobPods(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Pods of a Job that ever started and failed, over all tries; `present` and `present_failed` are those that it counts now."""

    started: int = 0
    failed: int = 0
    present: int = 0
    present_failed: int = 0


class FlowJobStatus(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The history of one Job; `pod_failure_ratio` has two decimals."""

    name: str = ""
    state: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    restart_count: int = 0
    running_histories: tuple[RunningHistory, ...] = ()
    pod_failure_ratio: str = ""
    pods: FlowJobPods | None = None
    retries: int = 0
    exit_code: int | None = None


class FlowJobCondition(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """How one Job of the flow is."""

    phase: str = ""
    create_time: str | None = None
    running_duration: str | None = None
    task_status_count: Mapping[str, TaskState] = {}
    completion_time: str | None = None
    reason: str = ""
    message: str = ""


class FlowState(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The phase of a flow."""

    phase: FlowPhase = FlowPhase.NEW


class FlowStatus(Wire, frozen=True, kw_only=True):
    """What a flow is."""

    pending_jobs: tuple[str, ...] = ()
    running_jobs: tuple[str, ...] = ()
    failed_jobs: tuple[str, ...] = ()
    completed_jobs: tuple[str, ...] = ()
    terminated_jobs: tuple[str, ...] = ()
    unknown_jobs: tuple[str, ...] = msgspec.field(default=(), name="unKnowJobs")
    job_status_list: tuple[FlowJobStatus, ...] = ()
    conditions: Mapping[str, FlowJobCondition] = {}
    state: FlowState = FlowState()
    start_time: str | None = None
    completion_time: str | None = None
    next_jobs: tuple[str, ...] = ()


class JobFlow(ObjectRecord, frozen=True, kw_only=True):
    """A flow of Jobs."""

    spec: FlowSpec = FlowSpec()
    status: FlowStatus = FlowStatus()


class JobTemplateStatus(Wire, frozen=True, kw_only=True):
    """The Jobs made from a template."""

    job_depends_on_list: tuple[str, ...] = ()


class JobTemplate(ObjectRecord, frozen=True, kw_only=True):
    """A template of Jobs; `spec`, a Job's spec, is raw JSON, empty when absent."""

    spec: msgspec.Raw = msgspec.Raw()
    status: JobTemplateStatus = JobTemplateStatus()
