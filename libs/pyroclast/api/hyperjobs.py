"""HyperJob: Jobs that belong together and are spread over several domains: clusters, or namespaces of one."""

from __future__ import annotations

from pyroclast.api import types
from pyroclast.api.enums import SplitMode
from pyroclast.api.jobs import JobSpec, JobState
from pyroclast.api.kinds import AGE, Column, CustomKind
from pyroclast.api.shared import Condition
from pyroclast.api.wire import ApiObject, Count, Int32, Int64, WireModel

__all__ = ["KIND", "HyperJob", "HyperJobSpec", "HyperJobStatus", "ReplicatedJob", "ReplicatedJobStatus", "SplitPolicy"]


class SplitPolicy(WireModel):
    """How a replicated Job is divided over domains."""

    mode: SplitMode | None = None
    """Whether the division is given (static) or found (auto)."""
    accelerators: int | None = None
    """Accelerators that are needed in all."""
    accelerator_type: str | None = None
    """Kind of the accelerators."""


class ReplicatedJob(WireModel):
    """A Job of which there are several."""

    name: str
    """Name, unique in the HyperJob."""
    template_spec: JobSpec
    """What each Job should be."""
    split_policy: SplitPolicy | None = None
    """How it is divided over domains."""
    replicas: Int32 = 1
    """How many Jobs there are."""
    cluster_names: list[str] | None = None
    """The domains that may be used: namespaces of this cluster that take Jobs from here; the own one when absent."""


class HyperJobSpec(WireModel):
    """What a HyperJob should be."""

    replicated_jobs: list[ReplicatedJob] | None = None
    """The Jobs."""
    min_available: Int32 | None = None
    """How many Jobs must run or be done for the whole to be available; all when absent."""
    max_domains: Int32 | None = None
    """How many domains may be used."""
    plugins: dict[str, list[str]] | None = None
    """Plugins by name, with their arguments."""


class ReplicatedJobStatus(WireModel):
    """How the Jobs of one entry are."""

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
    """Number of pods that are going away."""
    unknown: Count | None = None
    """Number of pods of which nothing is known."""


class HyperJobStatus(WireModel):
    """What a HyperJob is."""

    conditions: list[Condition] | None = None
    """What holds for it."""
    replicated_jobs_status: list[ReplicatedJobStatus] | None = None
    """How the Jobs are."""
    split_count: Int32 | None = None
    """How many Jobs have been made."""
    observed_generation: Int64 | None = None
    """The generation of the spec that was acted on last."""


class HyperJob(ApiObject):
    """A HyperJob is a set of Jobs that run in several domains."""

    spec: HyperJobSpec | None = None
    """What it should be."""
    status: HyperJobStatus | None = None
    """What it is."""


KIND = CustomKind(
    types.HYPER_JOBS,
    HyperJob,
    ("hj",),
    (Column("Jobs", "integer", ".status.splitCount"), AGE),
)
