"""The reader of PodGroups of the Kubernetes API (`scheduling.k8s.io`), and the sources of their queues.

The queue, the minimum resources and the validity of such a PodGroup follow from its pods. It is therefore read again whenever one
of its pods changes. The API has no queues: the first one named by the PodGroup, a pod, the Job or the Namespace is used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

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
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.tasks import ALLOCATED, SCHEDULED, VALID, TaskFacts, TaskStatus, native_key


class QueueSources:
    """Finds the queue of a group. Only the thread of the cache may use it.

    Of Jobs and Namespaces, only those that name a queue are stored.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}

    def queue_of(self, groups: Sequence[records.Meta], oldest: records.Meta) -> str:
        """Return the queue of a group whose oldest member is `oldest`; empty for the default queue.

        `groups`: the metadata of the object that describes the group, and of the objects of its parts.
        """
        metas = (*groups, oldest)
        found = next(filter(None, map(named, metas)), "")
        if found:
            return found
        job = next(filter(None, map(job_of, metas)), "")
        return self._jobs.get(job, "") or self._namespaces.get(oldest.namespace, "")

    def job_changed(self, old: records.Meta | None, new: records.Meta | None) -> str:
        """Handle that a Job was created, changed or deleted.

        Return its UID if the queue of groups may change, else an empty text.
        """
        meta = new or old
        if meta is None:
            return ""
        queue = "" if new is None else named(new)
        return meta.uid if _set(self._jobs, meta.uid, queue) else ""

    def namespace_changed(self, old: records.Meta | None, new: records.Meta | None) -> str:
        """Handle that a Namespace was created, changed or deleted.

        Return its name if the queue of groups may change, else an empty text.
        """
        meta = new or old
        if meta is None:
            return ""
        queue = "" if new is None else new.annotations.get(keys.SCHEDULING_QUEUE_NAME, "")
        return meta.name if _set(self._namespaces, meta.name, queue) else ""

    @property
    def known(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The queues by UID of Jobs, and by name of Namespaces, for a capture. Callers must not change the mappings."""
        return self._jobs, self._namespaces

    def restore(self, jobs: Mapping[str, str], namespaces: Mapping[str, str]) -> None:
        """Restore the queue names that `known` returned: by Job, and by namespace."""
        self._jobs, self._namespaces = dict(jobs), dict(namespaces)


def job_of(meta: records.Meta) -> str:
    """Return the UID of the batch/v1 Job that controls an object; empty if none does."""
    owner = meta.controller
    is_job = owner is not None and (owner.api_version, owner.kind) == (BATCH_JOBS.api_version, BATCH_JOBS.kind)
    return owner.uid if owner is not None and is_job else ""


def _set(known: dict[str, str], key: str, queue: str) -> bool:
    """Store the queue of `key`. Return whether it differs from the previous one."""
    before = known.pop(key, "")
    if queue:
        known[key] = queue
    return before != queue


PATIENCE_SECONDS: Final = 2.0
"""How long missing members are expected after other members succeeded: their controller may be creating them."""

_PREFIX: Final = "volcano.sh/"
_LIVING: Final = VALID - {TaskStatus.SUCCEEDED}
_NEVER: Final = "Never"


@dataclass(frozen=True, slots=True)
class Members:
    """The pods that name a group.

    `tasks`: the pods of this scheduler, and all pods with a node. `elsewhere`: the scheduler names of other pending pods.
    `settled_seconds`: seconds since the last pod was added.
    """

    tasks: Sequence[TaskFacts]
    elsewhere: Collection[str] = ()
    settled_seconds: float = 0.0


class Reading(NamedTuple):
    """A group as it was read. `is_timed`: whether the result may change by time alone."""

    group: Group
    is_timed: bool = False


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
        return _sum(sorted(self.living, key=_age)[: self.needed])


def read(
    record: records.NativePodGroup,
    members: Members,
    *,
    kind: ResourceType,
    names: Collection[str],
    queues: QueueSources,
    fixed_queue: str = "",
    obstacle: Hold | None = None,
) -> Reading | None:
    """Return the group that `record` describes with these members; None if this scheduler places none of the members.

    Args:
        record: the PodGroup.
        members: the pods of the group.
        kind: the resource type of the object.
        names: the names of this scheduler.
        queues: finds the queue of the group.
        fixed_queue: the queue in which pods of the group are already bound.
        obstacle: why no pod of the group may be placed by any scheduler; None if there is no such reason.
    """
    tasks, spec = members.tasks, record.spec
    if not is_ours(tasks, names):
        return None
    found = quorum(record, tasks, members.settled_seconds)
    hold = mismatch(spec.priority, found.living, members.elsewhere) or obstacle or gated(found.living)
    if hold is None and not found.is_there:
        hold = Hold(PendingReason.PODS_MISSING, found.text)
    group = common(record, [], found.living, tasks, kind=kind, queues=queues, fixed_queue=fixed_queue)
    return Reading(
        msgspec.structs.replace(
            group,
            key=native_key(record.metadata.namespace, record.metadata.name),
            spec=msgspec.structs.replace(
                group.spec,
                min_member=found.minimum,
                member_resources=found.amounts if hold is None else None,
                hold=hold,
                evicts_whole=goes_whole(spec),
                claims=claims_of(spec),
                topology_key=topology_key(spec),
            ),
        ),
        found.is_timed,
    )


def common(
    record: records.NativePodGroup | records.CompositePodGroup,
    parts: Sequence[records.Meta],
    living: Sequence[TaskFacts],
    tasks: Sequence[TaskFacts],
    *,
    kind: ResourceType,
    queues: QueueSources,
    fixed_queue: str,
) -> Group:
    """Return the properties that PodGroups and CompositePodGroups share.

    Args:
        record: the object that describes the group.
        parts: the metadata of the objects of the parts.
        living: the pods that have not ended.
        tasks: all pods, at least one.
        kind: the resource type of `record`.
        queues: finds the queue of the group.
        fixed_queue: the queue in which pods of the group are already bound.
    """
    meta, spec, oldest = record.metadata, record.spec, min(tasks, key=_age)
    metas = [meta, *parts]
    pinned = fixed_queue if any(task.status in ALLOCATED for task in tasks) else ""
    inherited = {key: text for key, text in oldest.pod.metadata.annotations.items() if _is_inherited(key)}
    return Group(
        kind=kind,
        key="",
        metadata=msgspec.structs.replace(meta, annotations={**inherited, **meta.annotations}),
        spec=GroupSpec(
            queue=pinned or queues.queue_of(metas, oldest.pod.metadata),
            priority=spec.priority or 0,
            is_protected=is_protected(meta),
            never_preempts=_never_preempts(spec, living),
        ),
        status=GroupStatus(phase=PodGroupPhase.INQUEUE if has_started(record) or _has_places(tasks) else PodGroupPhase.PENDING),
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
    living = [task for task in tasks if task.status in _LIVING]
    needed, is_timed = _needed(record.spec, tasks, living, settled, started=_started(record, tasks))
    return Quorum(living, needed, sum(task.status is TaskStatus.SUCCEEDED for task in tasks), is_timed)


def _has_places(tasks: Sequence[TaskFacts]) -> bool:
    """Whether one of `tasks` has a node, so that the group was enqueued before.

    No other state survives a restart of the scheduler.
    """
    return any(task.status in SCHEDULED or task.status in ALLOCATED for task in tasks)


def _started(record: records.NativePodGroup, tasks: Sequence[TaskFacts]) -> bool:
    return has_started(record) or _is_placed(record.spec, tasks)


def _is_placed(spec: records.NativePodGroupSpec, tasks: Sequence[TaskFacts]) -> bool:
    """Whether the minimum of members has or had nodes. Some may end before the condition is written."""
    gang = spec.scheduling_policy.gang
    return sum(task.status in SCHEDULED for task in tasks) >= (1 if gang is None else gang.min_count)


def _needed(
    spec: records.NativePodGroupSpec, tasks: Sequence[TaskFacts], living: Sequence[TaskFacts], settled: float, *, started: bool
) -> tuple[int, bool]:
    """Return how many living members must be placed together, and whether time alone may change the number.

    Once the gang has started, members that succeeded need no replacement. Otherwise the last replacement would wait for ever.
    """
    gang, succeeded = spec.scheduling_policy.gang, sum(task.status is TaskStatus.SUCCEEDED for task in tasks)
    if not living and succeeded:
        return 0, False
    if gang is None:
        return 1, False
    if len(living) >= gang.min_count or not started:
        return gang.min_count, False
    if any(task.status in ALLOCATED for task in living):
        return max(1, gang.min_count - succeeded), False
    if succeeded and settled >= PATIENCE_SECONDS:
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


def _sum(tasks: Sequence[TaskFacts]) -> Amounts:
    total: dict[str, int] = {}
    for task in tasks:
        for name, amount in task.shape.request.items():
            total[name] = total.get(name, 0) + amount
    return total
