"""The records of JobFlow and JobTemplate. Patches and template specs stay raw JSON, like pod templates.

Parts of a status are encoded without zero and empty fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec

from pyroclast.api.enums import FailurePolicy, FlowPhase, JobPhase, RetainPolicy, TargetStrategy
from pyroclast.api.records.jobs import TaskState
from pyroclast.api.records.meta import ObjectRecord, Wire

MOST_ROUNDS: Final = 1500
"""The most Jobs that the loops of one flow may create. The flow's status has some lines for each Job, and an object may have 1.5
MB.
"""


class HttpHeader(Wire, frozen=True, kw_only=True):
    name: str = ""
    value: str = ""


class HttpGetProbe(Wire, frozen=True, kw_only=True):
    task_name: str = ""
    path: str = ""
    port: int = 0
    http_header: HttpHeader | None = None


class TcpSocketProbe(Wire, frozen=True, kw_only=True):
    task_name: str = ""
    port: int = 0


class TaskStatusProbe(Wire, frozen=True, kw_only=True):
    task_name: str = ""
    phase: str = ""


class ProbeSet(Wire, frozen=True, kw_only=True):
    http_get_list: tuple[HttpGetProbe, ...] = ()
    tcp_socket_list: tuple[TcpSocketProbe, ...] = ()
    task_status_list: tuple[TaskStatusProbe, ...] = ()


class FlowDependsOn(Wire, frozen=True, kw_only=True):
    targets: tuple[str, ...] = ()
    strategy: TargetStrategy = TargetStrategy.ALL
    probe: ProbeSet | None = None


class FlowCondition(Wire, frozen=True, kw_only=True):
    target: str = ""
    phase: tuple[JobPhase, ...] = ()
    expression: str = ""


class SwitchCase(Wire, frozen=True, kw_only=True):
    phase: JobPhase | None = None
    exit_code: int | None = None
    expression: str = ""
    entries: tuple[str, ...] = ()


class FlowSwitch(Wire, frozen=True, kw_only=True):
    on: str = ""
    cases: tuple[SwitchCase, ...] = ()
    default: tuple[str, ...] = ()


class FlowLoop(Wire, frozen=True, kw_only=True):
    count: int | None = None
    items: tuple[str | int, ...] = ()
    items_from: str = ""
    parallel: int = 1
    until: str = ""


class FlowRetry(Wire, frozen=True, kw_only=True):
    limit: int = 0
    backoff: str | None = None


class FlowEntry(Wire, frozen=True, kw_only=True):
    """One entry of a flow. `patch` is raw JSON, empty when absent.

    `otherwise`: the entries that run when `condition` is false.
    """

    name: str = ""
    depends_on: FlowDependsOn | None = None
    patch: msgspec.Raw = msgspec.Raw()
    condition: FlowCondition | None = msgspec.field(default=None, name="if")
    otherwise: tuple[str, ...] = msgspec.field(default=(), name="else")
    switch: FlowSwitch | None = None
    loop: FlowLoop | None = msgspec.field(default=None, name="for")
    retry: FlowRetry | None = None


class FlowSpec(Wire, frozen=True, kw_only=True):
    flows: tuple[FlowEntry, ...] = ()
    parameters: Mapping[str, Any] = {}
    job_retain_policy: RetainPolicy = RetainPolicy.RETAIN
    failure_policy: FailurePolicy = FailurePolicy.CONTINUE
    suspend: bool = False


class RunningHistory(Wire, frozen=True, kw_only=True, omit_defaults=True):
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    state: str = ""


class FlowJobPods(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The pods of a Job that ever started and failed, over all tries.

    `present` and `present_failed` count those that exist now.
    """

    started: int = 0
    failed: int = 0
    present: int = 0
    present_failed: int = 0


class FlowJobStatus(Wire, frozen=True, kw_only=True, omit_defaults=True):
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
    outputs: str = ""
    outputs_omitted: str = ""


class FlowJobCondition(Wire, frozen=True, kw_only=True, omit_defaults=True):
    phase: str = ""
    create_time: str | None = None
    running_duration: str | None = None
    task_status_count: Mapping[str, TaskState] = {}
    completion_time: str | None = None
    reason: str = ""
    message: str = ""


class FlowState(Wire, frozen=True, kw_only=True, omit_defaults=True):
    phase: FlowPhase = FlowPhase.NEW


class FlowStatus(Wire, frozen=True, kw_only=True):
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
    resumed: str = ""


class JobFlow(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec", "status")

    spec: FlowSpec = FlowSpec()
    status: FlowStatus = FlowStatus()


class JobTemplateStatus(Wire, frozen=True, kw_only=True):
    job_depends_on_list: tuple[str, ...] = ()


class JobTemplate(ObjectRecord, frozen=True, kw_only=True):
    """A template of Jobs; `spec`, a Job's spec, is raw JSON, empty when absent."""

    spec: msgspec.Raw = msgspec.Raw()
    status: JobTemplateStatus = JobTemplateStatus()
