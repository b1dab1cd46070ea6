"""The record of a HyperJob."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from pyroclast.api.enums import SplitMode
from pyroclast.api.records.jobs import JobState
from pyroclast.api.records.meta import Condition, ObjectRecord, Wire


class SplitPolicy(Wire, frozen=True, kw_only=True):
    """How a replicated Job is divided among domains; `mode` None means static."""

    mode: SplitMode | None = None
    accelerators: int | None = None
    accelerator_type: str | None = None


class ReplicatedJob(Wire, frozen=True, kw_only=True):
    """A Job template with its number of Jobs; `template_spec` is raw JSON."""

    name: str = ""
    template_spec: msgspec.Raw = msgspec.Raw()
    split_policy: SplitPolicy | None = None
    replicas: int = 1
    cluster_names: tuple[str, ...] = ()


class HyperJobSpec(Wire, frozen=True, kw_only=True):
    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    min_available: int | None = None
    max_domains: int | None = None
    plugins: Mapping[str, tuple[str, ...]] = {}


class ReplicatedJobStatus(Wire, frozen=True, kw_only=True):
    name: str = ""
    job_states: Mapping[str, JobState] = {}
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0


class HyperJobStatus(Wire, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()
    replicated_jobs_status: tuple[ReplicatedJobStatus, ...] = ()
    split_count: int = 0
    observed_generation: int = 0


class HyperJob(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec",)

    spec: HyperJobSpec = HyperJobSpec()
    status: HyperJobStatus = HyperJobStatus()
