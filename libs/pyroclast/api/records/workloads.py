"""The records of Kubernetes' workloads whose pods a Pyroclast scheduler may place: the number of their pods, and their
selectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pyroclast.api.records.meta import Condition, ObjectRecord, Wire


class ReplicaSetSpec(Wire, frozen=True, kw_only=True):
    """The number of pods, and their label selector, unparsed."""

    replicas: int = 1
    selector: Mapping[str, Any] | None = None


class ReplicaSet(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec.replicas",)

    spec: ReplicaSetSpec = ReplicaSetSpec()

    @property
    def size(self) -> int:
        """The desired number of pods."""
        return self.spec.replicas

    @property
    def at_once(self) -> int:
        """The most pods that are created before one of them is ready."""
        return self.size


class StatefulSetSpec(Wire, frozen=True, kw_only=True):
    """The number of pods, how they are created (`OrderedReady`: one by one), and their label selector, unparsed."""

    replicas: int = 1
    pod_management_policy: str = ""
    selector: Mapping[str, Any] | None = None


class StatefulSetStatus(Wire, frozen=True, kw_only=True):
    update_revision: str = ""


class StatefulSet(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec.replicas",)

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()

    @property
    def size(self) -> int:
        """The desired number of pods."""
        return self.spec.replicas

    @property
    def at_once(self) -> int:
        """The most pods that are created before one of them is ready."""
        return min(1, self.size) if self.spec.pod_management_policy == "OrderedReady" else self.size


class JobGang(Wire, frozen=True, kw_only=True):
    """The pods start together; `min_count` None means the Job's parallelism."""

    min_count: int | None = None


class JobSchedulingPolicy(Wire, frozen=True, kw_only=True):
    gang: JobGang | None = None


class JobScheduling(Wire, frozen=True, kw_only=True):
    scheduling_policy: JobSchedulingPolicy | None = None


class BatchJobSpec(Wire, frozen=True, kw_only=True):
    """The parallelism of a Job, and whether it is suspended. `scheduling`: the source of the native PodGroup that Kubernetes
    creates.
    """

    parallelism: int = 1
    suspend: bool = False
    scheduling: JobScheduling | None = None


class BatchJobStatus(Wire, frozen=True, kw_only=True):
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[Condition, ...] = ()


class BatchJob(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec.parallelism", "spec.suspend")

    spec: BatchJobSpec = BatchJobSpec()
    status: BatchJobStatus = BatchJobStatus()

    @property
    def phase(self) -> str:
        """The phase in the words of Pyroclast's Jobs: Completed, Failed, Running, or empty before the first pod runs."""
        ends = {"Complete": "Completed", "Failed": "Failed"}
        found = next((ends[each.type] for each in self.status.conditions if each.status == "True" and each.type in ends), "")
        return found or ("Running" if self.status.ready or self.status.succeeded or self.status.failed else "")

    @property
    def size(self) -> int:
        """The desired number of parallel pods; 0 while the Job is suspended."""
        return 0 if self.spec.suspend else self.spec.parallelism

    @property
    def at_once(self) -> int:
        """The most pods that are created before one of them is ready."""
        return self.size

    @property
    def gang(self) -> int | None:
        """How many pods must start together according to `scheduling`; None when they need not."""
        policy = None if self.spec.scheduling is None else self.spec.scheduling.scheduling_policy
        if policy is None or policy.gang is None:
            return None
        return policy.gang.min_count or max(1, self.spec.parallelism)
