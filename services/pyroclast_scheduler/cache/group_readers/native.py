"""The reader of PodGroups of the Kubernetes API (`scheduling.k8s.io`), and the sources of their queues.

The queue, the minimum resources and the validity of such a PodGroup follow from its pods. It is therefore read again whenever one
of its pods changes. The API has no queues: the first one named by the PodGroup, a pod, the Job or the Namespace is used.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from pyroclast.api import keys, records
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.types import BATCH_JOBS, ResourceType
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.gang.groups import (
    Group,
    GroupSpec,
    GroupStatus,
    Hold,
    claims_of,
    goes_whole,
    has_started,
    is_protected,
    named,
    topology_key,
)
from pyroclast_scheduler.model.dimensions import Amounts, summed
from pyroclast_scheduler.model.tasks import ALLOCATED, SCHEDULED, VALID, TaskFacts, TaskStatus, native_key


class QueueSources:
    """Finds the queue of a group. Only the thread of the cache may use it.

    Of Jobs and Namespaces, only those that name a queue are stored: `by_job` by UID, and `by_namespace` by name.
    """

    def __init__(self) -> None:
        self.by_job: dict[str, str] = {}
        self.by_namespace: dict[str, str] = {}

    def queue_of(self, metas: Sequence[records.Meta], oldest: records.Meta) -> str:
        """Return the queue of a group whose oldest member is `oldest`; empty for the default queue.

        `metas`: the metadata of the object that describes the group, and of the objects of its parts.
        """
        metas = (*metas, oldest)
        found = next(filter(None, map(named, metas)), "")
        if found:
            return found
        job = next(filter(None, map(job_of, metas)), "")
        return self.by_job.get(job, "") or self.by_namespace.get(oldest.namespace, "")

    def job_changed(self, old: records.Meta | None, new: records.Meta | None) -> str:
        """Handle that a Job was created, changed or deleted. Return its UID if the queue of groups may change."""
        meta = new or old
        return "" if meta is None else _set(self.by_job, meta.uid, "" if new is None else named(new))

    def namespace_changed(self, old: records.Meta | None, new: records.Meta | None) -> str:
        """Handle that a Namespace was created, changed or deleted. Return its name if the queue of groups may change."""
        meta = new or old
        queue = "" if new is None else new.annotations.get(keys.SCHEDULING_QUEUE_NAME, "")
        return "" if meta is None else _set(self.by_namespace, meta.name, queue)


def job_of(meta: records.Meta) -> str:
    """Return the UID of the batch/v1 Job that controls an object; empty if none does."""
    owner = meta.controller
    is_job = owner is not None and (owner.api_version, owner.kind) == (BATCH_JOBS.api_version, BATCH_JOBS.kind)
    return owner.uid if owner is not None and is_job else ""


def _set(queues: dict[str, str], key: str, queue: str) -> str:
    """Store the queue of `key`. Return `key` if the previous one was another, else an empty text."""
    before = queues.pop(key, "")
    if queue:
        queues[key] = queue
    return "" if before == queue else key


PATIENCE_SECONDS: Final = 2.0
"""How long missing members are expected after other members succeeded: their controller may be creating them."""

_PREFIX: Final = "volcano.sh/"
_SUCCEEDED: Final = frozenset({TaskStatus.SUCCEEDED})
_LIVING: Final = VALID - _SUCCEEDED
_NEVER: Final = "Never"


@dataclass(frozen=True, slots=True)
class Members:
    """The pods that name a group.

    `tasks`: the pods of this scheduler, and all pods with a node. `elsewhere`: the scheduler names of other pending pods.
    `settled_seconds`: seconds since the last pod was added. `queue`: the queue in which pods of the group may be bound already.
    """

    tasks: Sequence[TaskFacts]
    elsewhere: Collection[str] = ()
    settled_seconds: float = 0.0
    queue: str = ""


class Quorum(NamedTuple):
    """The living members of a group, and how many of them must be placed together.

    `succeeded`: the number of members that succeeded and need no node any more. `is_timed`: whether `needed` may change by time
    alone.
    """

    living: Sequence[TaskFacts]
    needed: int
    succeeded: int
    is_timed: bool

    @property
    def is_there(self) -> bool:
        """Whether enough members exist."""
        return len(self.living) >= self.needed

    @property
    def minimum(self) -> int:
        """The number of pods that must be placed together, or have been placed, before the group can start."""
        return self.needed + self.succeeded

    @property
    def text(self) -> str:
        """The number of existing members out of the needed members, as text for users."""
        return f"{len(self.living)} of {self.needed} pods present"

    @property
    def amounts(self) -> Amounts:
        """The sum of the requests of the oldest members, as many as must be placed together."""
        return summed(task.shape.request for task in sorted(self.living, key=_age)[: self.needed])


def read(
    record: records.NativePodGroup,
    members: Members,
    *,
    kind: ResourceType,
    names: Collection[str],
    queues: QueueSources,
    obstacle: Hold | None = None,
) -> tuple[Group | None, bool]:
    """Return the group that `record` describes with these members, and whether time alone may change it.

    Return None if this scheduler places none of the members. `names`: the names of this scheduler. `obstacle`: why no pod of the
    group may be placed by any scheduler; None if there is no such reason.
    """
    spec = record.spec
    if not is_ours(members.tasks, names):
        return None, False
    found = quorum(record, members.tasks, members.settled_seconds)
    hold = mismatch(spec.priority, found.living, members.elsewhere) or obstacle or gated(found.living)
    if hold is None and not found.is_there:
        hold = Hold(PendingReason.PODS_MISSING, found.text)
    group = build(
        record,
        [record.metadata],
        members,
        found.living,
        kind=kind,
        queues=queues,
        key=native_key(record.metadata.namespace, record.metadata.name),
        min_member=found.minimum,
        member_resources=found.amounts if hold is None else None,
        hold=hold,
        evicts_whole=goes_whole(spec),
        claims=claims_of(spec),
        topology_key=topology_key(spec),
    )
    return group, found.is_timed


def build(
    record: records.NativePodGroup | records.CompositePodGroup,
    metas: Sequence[records.Meta],
    members: Members,
    living: Sequence[TaskFacts],
    *,
    kind: ResourceType,
    queues: QueueSources,
    key: str,
    **spec: Any,  # noqa: ANN401 - fields of `GroupSpec`
) -> Group:
    """Return the group of at least one pod that `record` describes.

    `metas`: the metadata of `record` and of the parts below it. `living`: the pods that have not ended. `spec`: the fields of the
    specification in which PodGroups and CompositePodGroups differ.
    """
    meta, tasks = record.metadata, members.tasks
    oldest = min(tasks, key=_age)
    pinned = members.queue if any(task.status in ALLOCATED for task in tasks) else ""
    inherited = {key: text for key, text in oldest.pod.metadata.annotations.items() if _is_inherited(key)}
    # a group with a node was enqueued before: no other state survives a restart of the scheduler
    has_places = any(task.status in SCHEDULED or task.status in ALLOCATED for task in tasks)
    return Group(
        kind=kind,
        key=key,
        metadata=msgspec.structs.replace(meta, annotations={**inherited, **meta.annotations}),
        spec=GroupSpec(
            queue=pinned or queues.queue_of(metas, oldest.pod.metadata),
            priority=record.spec.priority or 0,
            is_protected=is_protected(meta),
            never_preempts=_never_preempts(record.spec, living),
            **spec,
        ),
        status=GroupStatus(phase=PodGroupPhase.INQUEUE if has_started(record) or has_places else PodGroupPhase.PENDING),
        said=record.status.conditions,
        keeps_phase=False,
        warning="" if any(map(named, metas)) else _disagreement(tasks, oldest),
    )


def is_ours(tasks: Sequence[TaskFacts], names: Collection[str]) -> bool:
    """Whether this scheduler, which is called by `names`, places one of `tasks`."""
    return any(task.pod.spec.scheduler_name in names for task in tasks)


def quorum(record: records.NativePodGroup, tasks: Sequence[TaskFacts], settled: float) -> Quorum:
    """Return how many of `tasks`, the pods of `record`, must be placed together.

    `settled`: seconds since the last pod was added.
    """
    living, succeeded = [task for task in tasks if task.status in _LIVING], sum(task.status in _SUCCEEDED for task in tasks)
    needed, is_timed = _needed(record, tasks, living, succeeded, settled)
    return Quorum(living, needed, succeeded, is_timed)


def _needed(
    record: records.NativePodGroup, tasks: Sequence[TaskFacts], living: Sequence[TaskFacts], succeeded: int, settled: float
) -> tuple[int, bool]:
    """Return how many living members must be placed together, and whether time alone may change the number.

    Once the gang has started, members that succeeded need no replacement. Otherwise the last replacement would wait for ever.
    Members may end before the condition is written that the gang has started.
    """
    gang = record.spec.scheduling_policy.gang
    if not living and succeeded:
        return 0, False
    if gang is None:
        return 1, False
    started = has_started(record) or sum(task.status in SCHEDULED for task in tasks) >= gang.min_count
    if len(living) >= gang.min_count or not started:
        return gang.min_count, False
    if any(task.status in ALLOCATED for task in living) or (succeeded and settled >= PATIENCE_SECONDS):
        return max(1, gang.min_count - succeeded), False
    return gang.min_count, bool(succeeded)


def mismatch(priority: int | None, living: Sequence[TaskFacts], elsewhere: Collection[str]) -> Hold | None:
    """Return why kube-scheduler would refuse the group too, in the words of kube-scheduler; None if it would not.

    The reasons are pods with different scheduler names, and pods whose priority differs from that of the group.
    """
    names = list(dict.fromkeys([*(task.pod.spec.scheduler_name for task in living), *sorted(elsewhere)]))
    if len(names) > 1:
        text = f'all pods in a single pod group should have the same .spec.schedulerName set, got: "{names[0]}" and "{names[1]}"'
        return Hold(PendingReason.LEFT_OUT, text, is_error=True)
    wanted = priority or 0
    other = next((each for task in living if (each := task.pod.spec.priority or 0) != wanted), None)
    if other is None:
        return None
    text = f"all pods in a single pod group should have the same priority as the pod group's priority, got {other} and {wanted}"
    return Hold(PendingReason.LEFT_OUT, text, is_error=True)


def gated(living: Sequence[TaskFacts]) -> Hold | None:
    """Return the hold of a group with a pod behind a scheduling gate.

    The gate of the queue does not count: this scheduler removes it.
    """
    behind = [task for task in living if task.gates and not task.is_behind_queue_gate]
    if not behind:
        return None
    gates = ", ".join(sorted({gate for task in behind for gate in task.gates}))
    waits = "1 pod waits" if len(behind) == 1 else f"{len(behind)} pods wait"
    return Hold(PendingReason.GATED, f"{waits} behind scheduling gates: {gates}")


def _never_preempts(spec: records.NativePodGroupSpec | records.CompositePodGroupSpec, living: Sequence[TaskFacts]) -> bool:
    if spec.preemption_policy:
        return spec.preemption_policy == _NEVER
    return bool(living) and all(task.pod.spec.preemption_policy == _NEVER for task in living)


def _disagreement(tasks: Sequence[TaskFacts], oldest: TaskFacts) -> str:
    """Return a warning if pods name another queue than the oldest pod, whose queue is used; empty if none does."""
    taken = named(oldest.pod.metadata)
    if not taken:
        return ""
    others = sorted({each for task in tasks if (each := named(task.pod.metadata)) not in {"", taken}})
    if not others:
        return ""
    return f'queue "{others[0]}" is not taken: the oldest pod of the group, {oldest.name}, names queue "{taken}"'


def _is_inherited(key: str) -> bool:
    """Whether the group inherits this annotation from its oldest member.

    The annotation `volcano.sh/preemptable` is not inherited, since it applies to each pod separately.
    """
    return key == keys.RUNNING_ESTIMATE or (key.startswith(_PREFIX) and key != keys.PREEMPTABLE)


def _age(task: TaskFacts) -> tuple[float, int, str]:
    return task.created, task.index, task.name
