"""JobFlow: Jobs that depend on each other."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import Field

from pyroclast.api import types
from pyroclast.api.enums import FailurePolicy, FlowPhase, JobPhase, RetainPolicy, TargetStrategy
from pyroclast.api.kinds import Column, CustomKind
from pyroclast.api.shared import TaskState
from pyroclast.api.wire import ApiObject, Count, Duration, Extra, Int32, IntOrString, Name, RawObject, Time, WireModel

__all__ = [
    "KIND",
    "Condition",
    "DependsOn",
    "Flow",
    "HttpGet",
    "HttpHeader",
    "If",
    "JobFlow",
    "JobFlowSpec",
    "JobFlowStatus",
    "JobStatus",
    "Loop",
    "Patch",
    "Probe",
    "Retry",
    "RunningHistory",
    "State",
    "Switch",
    "SwitchCase",
    "TaskStatus",
    "TcpSocket",
]

_Port = Annotated[int, Ge(0), Le(65535)]


class HttpHeader(WireModel):
    """A header of a request."""

    name: str
    """Name of the header."""
    value: str
    """Value of the header."""


class HttpGet(WireModel):
    """Passes when the pods of a task answer a GET."""

    task_name: Name | None = None
    """The task; all tasks when absent."""
    path: str | None = None
    """Path of the request."""
    port: _Port | None = None
    """Port of the pods."""
    http_header: HttpHeader | None = None
    """A header of the request."""


class TcpSocket(WireModel):
    """Passes when the pods of a task accept a connection."""

    task_name: Name | None = None
    """The task; all tasks when absent."""
    port: _Port
    """Port of the pods."""


class TaskStatus(WireModel):
    """Passes when enough pods of a task are in a phase."""

    task_name: Name | None = None
    """The task; all tasks when absent."""
    phase: Annotated[str, MaxLen(63)] | None = None
    """The phase."""


class Probe(WireModel):
    """What must pass before a target counts as satisfied although it has not completed."""

    http_get_list: list[HttpGet] | None = None
    """Requests that must be answered."""
    tcp_socket_list: list[TcpSocket] | None = None
    """Connections that must be accepted."""
    task_status_list: list[TaskStatus] | None = None
    """Phases that must be reached."""


class DependsOn(WireModel):
    """What must have happened before an entry starts."""

    targets: list[str] | None = None
    """Names of the entries that must have completed, or pass the probe."""
    strategy: TargetStrategy | None = None
    """Whether all targets are needed, which is the default, or any is enough."""
    probe: Probe | None = None
    """What must pass instead of the targets' completion."""


class Patch(WireModel):
    """Changes to the template for this flow, in the form of a Job's spec. `spec` is taken when both are given."""

    spec: RawObject | None = None
    """The changes."""
    job_spec: RawObject | None = None
    """The changes, under their other name."""


class If(WireModel):
    """When an entry runs: by the outcome of another entry or by an expression."""

    target: str | None = None
    """The entry whose outcome is asked for."""
    phase: list[JobPhase] | None = None
    """The phases of its Job in which this entry runs."""
    expression: str | None = None
    """A CEL expression over the status of the targets, in place of target and phase."""


class SwitchCase(WireModel):
    """Entries that run when the outcome is this one."""

    phase: JobPhase | None = None
    """The phase of the Job that is asked."""
    exit_code: Int32 | None = None
    """The exit code of the Job that is asked, in place of the phase."""
    entries: list[str] | None = None
    """Names of the entries that run then."""


class Switch(WireModel):
    """Chooses entries by the outcome of another one."""

    on: str
    """The entry whose outcome is asked for. YAML reads a bare `on` as true: write "on"."""
    cases: list[SwitchCase] | None = None
    """Outcomes and the entries they lead to; the first that holds counts."""
    default: list[str] | None = None
    """Names of the entries that run when no case holds."""


class Loop(WireModel):
    """Runs an entry several times."""

    count: Count | None = None
    """How many times."""
    items: list[IntOrString] | None = None
    """One run for each item, which the pods find in VC_FLOW_ITEM. In place of count."""
    parallel: Annotated[int, Ge(1), Extra({"format": "int32"})] | None = None
    """How many run at the same time; one by default."""
    until: str | None = None
    """A CEL expression that ends the loop early."""


class Retry(WireModel):
    """What to do when the Job of an entry fails."""

    limit: Count | None = None
    """How often the Job is run again."""
    backoff: Duration | None = None
    """How long to wait before, as a Go duration; doubled each time."""


class Flow(WireModel):
    """One entry of a flow: a Job made from the template of the same name."""

    name: Annotated[str, MinLen(1)]
    """Name of the entry and of the JobTemplate in the same namespace; the Job is called FLOW-ENTRY."""
    depends_on: DependsOn | None = None
    """What must have happened before."""
    patch: Patch | None = None
    """Changes to the template for this flow."""
    condition: Annotated[If | None, Field(alias="if")] = None
    """When the entry runs; skipped otherwise."""
    otherwise: Annotated[list[str] | None, Field(alias="else")] = None
    """Names of the entries that run when `if` does not hold."""
    switch: Switch | None = None
    """Chooses other entries by an outcome."""
    loop: Annotated[Loop | None, Field(alias="for")] = None
    """Runs the entry several times."""
    retry: Retry | None = None
    """What to do when the Job fails."""


class JobFlowSpec(WireModel):
    """What a flow consists of."""

    flows: list[Flow] | None = None
    """The entries."""
    job_retain_policy: RetainPolicy | None = None
    """Whether the Jobs are kept or deleted when the flow has succeeded; kept when absent."""
    failure_policy: FailurePolicy | None = None
    """Whether the other Jobs run on when the flow has failed (Continue, which is the default) or are terminated (Cancel)."""


class RunningHistory(WireModel):
    """A time during which a Job was in one state."""

    start_timestamp: Time | None = None
    """When it began."""
    end_timestamp: Time | None = None
    """When it ended."""
    state: str | None = None
    """The phase of the Job."""


class JobPods(WireModel):
    """The pods of a Job over all its tries, restarts included."""

    started: Count | None = None
    """Pods that ever started."""
    failed: Count | None = None
    """Pods that ever failed."""
    present: Count | None = None
    """Those of the started ones that the Job counts at present."""
    present_failed: Count | None = None
    """Those of the failed ones that the Job counts at present."""


class JobStatus(WireModel):
    """The history of a Job of the flow."""

    name: str | None = None
    """Name of the Job."""
    state: str | None = None
    """Phase of the Job."""
    start_timestamp: Time | None = None
    """When the Job was made."""
    end_timestamp: Time | None = None
    """When the Job ended."""
    restart_count: Count | None = None
    """How often the Job was restarted."""
    running_histories: list[RunningHistory] | None = None
    """The phases that the Job was in."""
    pod_failure_ratio: str | None = None
    """Failed pods by pods that ever started, over all tries, with two decimals."""
    pods: JobPods | None = None
    """What the ratio is worked out from."""
    retries: Count | None = None
    """How often the Job was made anew because it had failed."""
    exit_code: Int32 | None = None
    """How the Job ended, where a switch or an expression asks for it."""


class Condition(WireModel):
    """How a Job of the flow is."""

    phase: str | None = None
    """Phase of the Job; Waiting before it is made, Skipped when it is not wanted, Retrying before it is run again."""
    create_time: Time | None = None
    """When the Job was made."""
    running_duration: Duration | None = None
    """How long the Job ran, as a Go duration."""
    task_status_count: dict[str, TaskState] | None = None
    """Number of pods by task and phase."""
    completion_time: Time | None = None
    """When the Job ended."""
    reason: str | None = None
    """Why, as one word."""
    message: str | None = None
    """Why, for people."""


class State(WireModel):
    """The phase of a flow."""

    phase: FlowPhase | None = None
    """The phase."""


class JobFlowStatus(WireModel):
    """What a flow is."""

    pending_jobs: list[str] | None = None
    """Jobs that are pending."""
    running_jobs: list[str] | None = None
    """Jobs that run."""
    failed_jobs: list[str] | None = None
    """Jobs that failed."""
    completed_jobs: list[str] | None = None
    """Jobs that completed."""
    terminated_jobs: list[str] | None = None
    """Jobs that were terminated."""
    unknown_jobs: Annotated[list[str] | None, Field(alias="unKnowJobs")] = None
    """Jobs in any other phase."""
    job_status_list: list[JobStatus] | None = None
    """The history of each Job."""
    conditions: dict[str, Condition] | None = None
    """How each Job is, by its name."""
    state: State | None = None
    """The current phase."""
    start_time: Time | None = None
    """When the first Job was made."""
    completion_time: Time | None = None
    """When the flow ended."""
    next_jobs: list[str] | None = None
    """Jobs that are not made yet although all their targets have started."""


class JobFlow(ApiObject):
    """A JobFlow makes Jobs from templates in the order of what they depend on."""

    spec: JobFlowSpec | None = None
    """What the flow consists of."""
    status: JobFlowStatus | None = None
    """What the flow is."""


KIND = CustomKind(
    types.JOB_FLOWS,
    JobFlow,
    ("jf",),
    (Column("Status", "string", ".status.state.phase"), Column("Age", "date", ".metadata.creationTimestamp")),
)
