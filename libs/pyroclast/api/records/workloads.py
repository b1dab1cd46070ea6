"""The records of the workloads of Kubernetes whose pods a scheduler of ours may place: how many pods they want, and which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.api.records.meta import ObjectRecord, Wire

__all__ = [
    "BatchJob",
    "BatchJobSpec",
    "JobGang",
    "JobScheduling",
    "JobSchedulingPolicy",
    "ReplicaSet",
    "ReplicaSetSpec",
    "StatefulSet",
    "StatefulSetSpec",
    "StatefulSetStatus",
]


class ReplicaSetSpec(Wire, frozen=True, kw_only=True):
    """How many pods, and which; the label selector as it came."""

    replicas: int = 1
    selector: Mapping[str, Any] | None = None


class ReplicaSet(ObjectRecord, frozen=True, kw_only=True):
    """A ReplicaSet."""

    spec: ReplicaSetSpec = ReplicaSetSpec()

    @property
    def size(self) -> int:
        """How many pods it wants."""
        return self.spec.replicas


class StatefulSetSpec(Wire, frozen=True, kw_only=True):
    """How many pods, and which; the label selector as it came."""

    replicas: int = 1
    selector: Mapping[str, Any] | None = None


class StatefulSetStatus(Wire, frozen=True, kw_only=True):
    """The revision that its pods are being brought to."""

    update_revision: str = ""


class StatefulSet(ObjectRecord, frozen=True, kw_only=True):
    """A StatefulSet."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()

    @property
    def size(self) -> int:
        """How many pods it wants."""
        return self.spec.replicas


class JobGang(Wire, frozen=True, kw_only=True):
    """All or nothing; `min_count` None: as many pods as run at a time."""

    min_count: int | None = None


class JobSchedulingPolicy(Wire, frozen=True, kw_only=True):
    """How the pods of a Job start; without `gang` each by itself."""

    gang: JobGang | None = None


class JobScheduling(Wire, frozen=True, kw_only=True):
    """What a Job says of the group that its pods are to be."""

    scheduling_policy: JobSchedulingPolicy | None = None


class BatchJobSpec(Wire, frozen=True, kw_only=True):
    """How many pods at a time, and whether any; `scheduling`: what Kubernetes makes a PodGroup from, of most Jobs."""

    parallelism: int = 1
    suspend: bool = False
    scheduling: JobScheduling | None = None


class BatchJob(ObjectRecord, frozen=True, kw_only=True):
    """A Job of Kubernetes itself."""

    spec: BatchJobSpec = BatchJobSpec()

    @property
    def size(self) -> int:
        """How many pods it wants at a time."""
        return 0 if self.spec.suspend else self.spec.parallelism

    @property
    def gang(self) -> int | None:
        """How many pods must start together by `scheduling`; None if it does not say that any must."""
        policy = None if self.spec.scheduling is None else self.spec.scheduling.scheduling_policy
        if policy is None or policy.gang is None:
            return None
        return policy.gang.min_count or max(1, self.spec.parallelism)
