"""The records of the workloads of Kubernetes whose pods a scheduler of ours may place: how many pods they want, and which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.api.records.meta import ObjectRecord, Wire

__all__ = ["BatchJob", "BatchJobSpec", "ReplicaSet", "ReplicaSetSpec", "StatefulSet", "StatefulSetSpec", "StatefulSetStatus"]


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


class BatchJobSpec(Wire, frozen=True, kw_only=True):
    """How many pods at a time, and whether any."""

    parallelism: int = 1
    suspend: bool = False


class BatchJob(ObjectRecord, frozen=True, kw_only=True):
    """A Job of Kubernetes itself."""

    spec: BatchJobSpec = BatchJobSpec()

    @property
    def size(self) -> int:
        """How many pods it wants at a time."""
        return 0 if self.spec.suspend else self.spec.parallelism
