"""JobFlow: Jobs that depend on each other; and JobTemplate, from which its Jobs are created."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import Field

from pyroclast.api import types
from pyroclast.api.enums import FailurePolicy, FlowPhase, JobPhase, RetainPolicy, TargetStrategy
from pyroclast.api.jobs import JobSpec
from pyroclast.api.shared import Column, CustomKind, TaskState
from pyroclast.api.wire import ApiObject, Count, Duration, Extra, Int32, IntOrString, Name, RawObject, Scalar, Time, WireModel


class JobTemplateStatus(WireModel):
    """The state of a template."""

    job_depends_on_list: list[str] | None = None
    """Names of the Jobs that were created from the template."""


class JobTemplate(ApiObject):
    """A JobTemplate is the template of the Jobs that flows create for entries of the same name."""

    spec: JobSpec | None = None
    """The spec of the Jobs."""
    status: JobTemplateStatus | None = None
    """The state of the template."""


JOB_TEMPLATE = CustomKind(types.JOB_TEMPLATES, JobTemplate, ("jt",))


_Port = Annotated[int, Ge(0), Le(65535)]


class HttpHeader(WireModel):
    """A header of a request."""

    name: str
    """Name of the header."""
    value: str
    """Value of the header."""


class HttpGet(WireModel):
    """Passes when the pods of a task answer a GET request."""

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
    """The probe that satisfies a dependency on targets that have not completed."""

    http_get_list: list[HttpGet] | None = None
    """Requests that the pods must answer."""
    tcp_socket_list: list[TcpSocket] | None = None
    """Connections that the pods must accept."""
    task_status_list: list[TaskStatus] | None = None
    """Phases that enough pods must have reached."""


class DependsOn(WireModel):
    """The dependencies of an entry."""

    targets: list[str] | None = None
    """Names of the entries that must have completed, or pass the probe."""
    strategy: TargetStrategy | None = None
    """Whether all targets must be satisfied, which is the default, or any one of them."""
    probe: Probe | None = None
    """The probe that satisfies a target before it completes."""


class Patch(WireModel):
    """Changes to the template for this flow, in the form of a Job's spec. If both fields are set, `spec` is used.

    A string may contain `${entries.NAME.outputs…}` and `${parameters.NAME}`.
    """

    spec: RawObject | None = None
    """The changes."""
    job_spec: RawObject | None = None
    """The changes, in the older field; used when `spec` is absent."""


class If(WireModel):
    """The condition of an entry: the outcome of another entry, or an expression."""

    target: str | None = None
    """The entry whose outcome decides."""
    phase: list[JobPhase] | None = None
    """The phases of the target's Job in which this entry runs."""
    expression: str | None = None
    """A CEL expression over the status and the outputs of entries and over the parameters, in place of target and phase."""


class SwitchCase(WireModel):
    """Entries that run for one outcome."""

    phase: JobPhase | None = None
    """The phase of the Job that decides."""
    exit_code: Int32 | None = None
    """The exit code of the Job that decides, in place of the phase."""
    expression: str | None = None
    """A CEL expression over the status and the outputs of entries and over the parameters, in place of phase and exit code."""
    entries: list[str] | None = None
    """Names of the entries that run in this case."""


class Switch(WireModel):
    """Chooses entries by the outcome of another entry."""

    on: str
    """The entry whose outcome decides. YAML reads a bare `on` as true: write "on"."""
    cases: list[SwitchCase] | None = None
    """Outcomes and their entries; the first case that applies is used."""
    default: list[str] | None = None
    """Names of the entries that run when no case applies."""


class Loop(WireModel):
    """Runs an entry several times."""

    count: Count | None = None
    """The number of runs."""
    items: list[IntOrString] | None = None
    """One run for each item, in place of count. The pods find the item in VC_FLOW_ITEM."""
    items_from: str | None = None
    """A CEL expression whose value is the list of the items, or the number of runs, in place of count and items."""
    parallel: Annotated[int, Ge(1), Extra({"format": "int32"})] | None = None
    """The largest number of parallel runs; one by default."""
    until: str | None = None
    """A CEL expression over the finished runs that ends the loop early."""


class Retry(WireModel):
    """The retries of the failed Job of an entry."""

    limit: Count | None = None
    """The largest number of retries."""
    backoff: Duration | None = None
    """The time before the first retry, as a Go duration; doubled for each further retry."""


class Flow(WireModel):
    """One entry of a flow: a Job that is created from the template of the same name."""

    name: Annotated[str, MinLen(1)]
    """Name of the entry and of the JobTemplate in the same namespace; the name of the Job is FLOW-ENTRY."""
    depends_on: DependsOn | None = None
    """The dependencies of the entry."""
    patch: Patch | None = None
    """Changes to the template for this flow."""
    condition: Annotated[If | None, Field(alias="if")] = None
    """The condition of the entry; the entry is skipped when it is false."""
    otherwise: Annotated[list[str] | None, Field(alias="else")] = None
    """Names of the entries that run when `if` is false."""
    switch: Switch | None = None
    """Chooses other entries by an outcome."""
    loop: Annotated[Loop | None, Field(alias="for")] = None
    """Runs the entry several times."""
    retry: Retry | None = None
    """The retries of the failed Job."""


class JobFlowSpec(WireModel):
    """The entries and policies of a flow."""

    flows: list[Flow] | None = None
    """The entries."""
    parameters: dict[str, Scalar] | None = None
    """The values of `${parameters.NAME}` in patches and of `parameters.NAME` in expressions, by name."""
    job_retain_policy: RetainPolicy | None = None
    """Whether the Jobs are deleted when the flow has succeeded; they stay when absent."""
    failure_policy: FailurePolicy | None = None
    """Whether the other Jobs continue when the flow has failed (Continue, which is the default) or are terminated (Cancel)."""
    suspend: bool | None = None
    """Whether the flow starts no Jobs at present and its Jobs are suspended."""


class RunningHistory(WireModel):
    """A time during which a Job was in one phase."""

    start_timestamp: Time | None = None
    """When the phase began."""
    end_timestamp: Time | None = None
    """When the phase ended."""
    state: str | None = None
    """The phase of the Job."""


class JobPods(WireModel):
    """The pods of a Job over all its tries, restarts included."""

    started: Count | None = None
    """Pods that ever started."""
    failed: Count | None = None
    """Pods that ever failed."""
    present: Count | None = None
    """Started pods that the status of the Job counts at present."""
    present_failed: Count | None = None
    """Failed pods that the status of the Job counts at present."""


class JobStatus(WireModel):
    """The history of a Job of the flow."""

    name: str | None = None
    """Name of the Job."""
    state: str | None = None
    """Phase of the Job."""
    start_timestamp: Time | None = None
    """When the Job was created."""
    end_timestamp: Time | None = None
    """When the Job ended."""
    restart_count: Count | None = None
    """How often the Job was restarted."""
    running_histories: list[RunningHistory] | None = None
    """The phases of the Job, with their times."""
    pod_failure_ratio: str | None = None
    """The ratio of failed pods to pods that ever started, over all tries, with two decimals."""
    pods: JobPods | None = None
    """The numbers from which the ratio is computed."""
    retries: Count | None = None
    """How often the Job failed and was created again."""
    exit_code: Int32 | None = None
    """The exit code of the Job, if a switch or an expression uses it."""
    outputs: str | None = None
    """The outputs of the ended Job, as JSON: the value of one pod, a list by index, or a map by task; see `outputsOmitted`."""
    outputs_omitted: str | None = None
    """Why the outputs are left out; absent when they are not."""


class Condition(WireModel):
    """The state of a Job of the flow."""

    phase: str | None = None
    """Phase of the Job; Waiting before its creation, Skipped when it will not be created, Retrying before the next try."""
    create_time: Time | None = None
    """When the Job was created."""
    running_duration: Duration | None = None
    """How long the Job ran, as a Go duration."""
    task_status_count: dict[str, TaskState] | None = None
    """Number of pods by task and phase."""
    completion_time: Time | None = None
    """When the Job ended."""
    reason: str | None = None
    """The reason of the phase, as one word."""
    message: str | None = None
    """The reason of the phase, as text."""


class State(WireModel):
    """The phase of a flow."""

    phase: FlowPhase | None = None
    """The phase."""


class JobFlowStatus(WireModel):
    """The observed state of a flow."""

    pending_jobs: list[str] | None = None
    """Pending Jobs."""
    running_jobs: list[str] | None = None
    """Running Jobs."""
    failed_jobs: list[str] | None = None
    """Failed Jobs."""
    completed_jobs: list[str] | None = None
    """Completed Jobs."""
    terminated_jobs: list[str] | None = None
    """Terminated Jobs."""
    unknown_jobs: Annotated[list[str] | None, Field(alias="unKnowJobs")] = None
    """Jobs in any other phase."""
    job_status_list: list[JobStatus] | None = None
    """The history of each Job."""
    conditions: dict[str, Condition] | None = None
    """The state of each Job, by its name."""
    state: State | None = None
    """The current phase."""
    start_time: Time | None = None
    """When the first Job was created."""
    completion_time: Time | None = None
    """When the flow ended."""
    next_jobs: list[str] | None = None
    """Jobs that are not created yet although all their targets have started."""
    resumed: str | None = None
    """The value of the annotation flow.volcano.sh/resume that was last carried out."""


class JobFlow(ApiObject):
    """A JobFlow creates Jobs from templates in the order of their dependencies."""

    spec: JobFlowSpec | None = None
    """The entries and policies of the flow."""
    status: JobFlowStatus | None = None
    """The observed state of the flow."""


KIND = CustomKind(
    types.JOB_FLOWS,
    JobFlow,
    ("jf",),
    (Column("Status", "string", ".status.state.phase"), Column("Age", "date", ".metadata.creationTimestamp")),
)
