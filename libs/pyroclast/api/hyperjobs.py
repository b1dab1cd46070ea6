"""HyperJob: a set of Jobs in several domains, which are clusters or namespaces of one cluster."""

from __future__ import annotations

from pyroclast.api import types
from pyroclast.api.enums import SplitMode
from pyroclast.api.jobs import JobSpec, JobState
from pyroclast.api.shared import AGE, Column, Condition, CustomKind
from pyroclast.api.wire import ApiObject, Count, Int32, Int64, WireModel


class SplitPolicy(WireModel):
    """How a replicated Job is divided among domains."""

    mode: SplitMode | None = None
    """Whether the division is given (static) or computed (auto)."""
    accelerators: int | None = None
    """The total number of accelerators that the Jobs need."""
    accelerator_type: str | None = None
    """Type of the accelerators."""


class ReplicatedJob(WireModel):
    """A Job template with its number of Jobs."""

    name: str
    """Name, unique in the HyperJob."""
    template_spec: JobSpec
    """The spec of each Job."""
    split_policy: SplitPolicy | None = None
    """How the Jobs are divided among domains."""
    replicas: Int32 = 1
    """The number of Jobs."""
    cluster_names: list[str] | None = None
    """The allowed domains: namespaces of this cluster that accept Jobs from this namespace; only this namespace when absent."""


class HyperJobSpec(WireModel):
    """The desired state of a HyperJob."""

    replicated_jobs: list[ReplicatedJob] | None = None
    """The Job templates."""
    min_available: Int32 | None = None
    """The number of Jobs that must be running or completed for the HyperJob to be available; all when absent."""
    max_domains: Int32 | None = None
    """The largest number of domains."""
    plugins: dict[str, list[str]] | None = None
    """Plugins by name, with their arguments."""


class ReplicatedJobStatus(WireModel):
    """The state of the Jobs of one entry."""

    name: str
    """Name of the entry."""
    job_states: dict[str, JobState] | None = None
    """The phase of each Job, by its name."""
    pending: Count | None = None
    """Number of pending pods."""
    running: Count | None = None
    """Number of running pods."""
    succeeded: Count | None = None
    """Number of pods that succeeded."""
    failed: Count | None = None
    """Number of pods that failed."""
    terminating: Count | None = None
    """Number of pods that are being deleted."""
    unknown: Count | None = None
    """Number of pods in an unknown state."""


class HyperJobStatus(WireModel):
    """The observed state of a HyperJob."""

    conditions: list[Condition] | None = None
    """Conditions of the HyperJob."""
    replicated_jobs_status: list[ReplicatedJobStatus] | None = None
    """The state of the Jobs of each entry."""
    split_count: Int32 | None = None
    """The number of Jobs that were created."""
    observed_generation: Int64 | None = None
    """The generation of the spec that the controller last acted on."""


class HyperJob(ApiObject):
    """A HyperJob is a set of Jobs that run in several domains."""

    spec: HyperJobSpec | None = None
    """The desired state of the HyperJob."""
    status: HyperJobStatus | None = None
    """The observed state of the HyperJob."""


KIND = CustomKind(
    types.HYPER_JOBS,
    HyperJob,
    ("hj",),
    (Column("Jobs", "integer", ".status.splitCount"), AGE),
)
