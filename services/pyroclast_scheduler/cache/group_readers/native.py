"""The reader of Kubernetes' own PodGroups (`scheduling.k8s.io`).

Such a PodGroup says little of itself: its queue, the resources of its minimum, and whether its members fit together follow from
its pods, so that it is read again when one of them changes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from pyroclast.api import keys, records
from pyroclast.api.enums import NativeConditionType, PodGroupPhase
from pyroclast.api.types import ResourceType
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.cache.group_readers.queue_sources import QueueSources, named
from pyroclast_scheduler.model.booleans import parse_bool
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.groups import Group, GroupClaim, GroupSpec, GroupStatus, Hold
from pyroclast_scheduler.model.statuses import ALLOCATED, SCHEDULED, VALID, TaskStatus
from pyroclast_scheduler.model.tasks import TaskFacts, native_key

__all__ = ["PATIENCE_SECONDS", "Members", "Reading", "has_started", "read"]

PATIENCE_SECONDS: Final = 2.0
"""For which the members that are missing after others succeeded are waited for: their controller may be about to make them."""

_PREFIX: Final = "volcano.sh/"
_LIVING: Final = VALID - {TaskStatus.SUCCEEDED}
_NEVER: Final = "Never"


@dataclass(frozen=True, slots=True)
class Members:
    """The pods that name a group.

    `tasks`: those of our scheduler, and those of any that have a node. `elsewhere`: names of the schedulers that others wait for.
    `settled_seconds`: since the last one came.
    """

    tasks: Sequence[TaskFacts]
    elsewhere: Collection[str] = ()
    settled_seconds: float = 0.0


class Reading(NamedTuple):
    """A group, and whether time alone may change what is read of it."""

    group: Group
    is_timed: bool = False


def read(
    record: records.NativePodGroup,
    members: Members,
    *,
    kind: ResourceType,
    names: Collection[str],
    queues: QueueSources,
    fixed_queue: str = "",
) -> Reading | None:
    """The group that `record` describes with these members; None as long as it has none that our scheduler places.

    Args:
        record: the PodGroup.
        members: its pods.
        kind: what it is served as.
        names: those of our scheduler.
        queues: where its queue is looked up.
        fixed_queue: the queue in which something of it is bound.
    """
    tasks = members.tasks
    if not any(task.pod.spec.scheduler_name in names for task in tasks):
        return None
    meta, spec = record.metadata, record.spec
    oldest = min(tasks, key=_age)
    living = [task for task in tasks if task.status in _LIVING]
    started = has_started(record) or _is_placed(spec, tasks)
    needed, is_timed = _needed(spec, tasks, living, members.settled_seconds, started=started)
    hold = _mismatch(record, living, members.elsewhere) or _parent(spec) or _gated(living)
    if hold is None and len(living) < needed:
        hold = Hold(PendingReason.PODS_MISSING, f"{len(living)} of {needed} pods present")
    pinned = fixed_queue if any(task.status in ALLOCATED for task in tasks) else ""
    inherited = {key: text for key, text in oldest.pod.metadata.annotations.items() if _is_inherited(key)}
    group = Group(
        kind=kind,
        key=native_key(meta.namespace, meta.name),
        metadata=msgspec.structs.replace(meta, annotations={**inherited, **meta.annotations}),
        spec=GroupSpec(
            min_member=needed + sum(task.status is TaskStatus.SUCCEEDED for task in tasks),
            queue=pinned or queues.queue_of(meta, oldest.pod.metadata),
            priority=spec.priority or 0,
            member_resources=_sum(sorted(living, key=_age)[:needed]) if hold is None else None,
            hold=hold,
            evicts_whole=spec.disruption_mode is not None and spec.disruption_mode.all is not None,
            is_protected=not parse_bool(meta.annotations.get(keys.PREEMPTABLE, "true")),
            never_preempts=_never_preempts(spec, living),
            claims=tuple(
                GroupClaim(each.name, each.resource_claim_name, each.resource_claim_template_name)
                for each in spec.resource_claims
            ),
            topology_key=next((each.key for each in _topology(spec)), ""),
        ),
        status=GroupStatus(phase=PodGroupPhase.INQUEUE if started else PodGroupPhase.PENDING),
        said=record.status.conditions,
        keeps_phase=False,
        warning=_disagreement(meta, tasks, oldest),
    )
    return Reading(group, is_timed)


def has_started(record: records.NativePodGroup) -> bool:
    """Whether it is written that as many members as it needs were placed."""
    wanted = NativeConditionType.INITIALLY_SCHEDULED, "True"
    return any((each.type, each.status) == wanted for each in record.status.conditions)


def _is_placed(spec: records.NativePodGroupSpec, tasks: Sequence[TaskFacts]) -> bool:
    """Whether as many members as it needs have a node, or had one: some may end before that is written."""
    gang = spec.scheduling_policy.gang
    return sum(task.status in SCHEDULED for task in tasks) >= (1 if gang is None else gang.min_count)


def _needed(
    spec: records.NativePodGroupSpec, tasks: Sequence[TaskFacts], living: Sequence[TaskFacts], settled: float, *, started: bool
) -> tuple[int, bool]:
    """How many living members must have a place together, and whether time alone may change that.

    Once the gang has started, members that succeeded are not waited for: else the last replacement would wait for ever.
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


def _mismatch(record: records.NativePodGroup, living: Sequence[TaskFacts], elsewhere: Collection[str]) -> Hold | None:
    """What kube-scheduler refuses too, in its words."""
    names = list(dict.fromkeys([*(task.pod.spec.scheduler_name for task in living), *sorted(elsewhere)]))
    if len(names) > 1:
        text = f'all pods in a single pod group should have the same .spec.schedulerName set, got: "{names[0]}" and "{names[1]}"'
        return Hold(PendingReason.LEFT_OUT, text, is_error=True)
    wanted = record.spec.priority or 0
    other = next((each for task in living if (each := task.pod.spec.priority or 0) != wanted), None)
    if other is None:
        return None
    text = f"all pods in a single pod group should have the same priority as the pod group's priority, got {other} and {wanted}"
    return Hold(PendingReason.LEFT_OUT, text, is_error=True)


def _gated(living: Sequence[TaskFacts]) -> Hold | None:
    """One pod behind a gate holds all of them; not behind that of its queue, which the scheduler opens itself."""
    behind = [task for task in living if task.gates and not task.is_behind_queue_gate]
    if not behind:
        return None
    gates = ", ".join(sorted({gate for task in behind for gate in task.gates}))
    waits = "1 pod waits" if len(behind) == 1 else f"{len(behind)} pods wait"
    return Hold(PendingReason.GATED, f"{waits} behind scheduling gates: {gates}")


def _parent(spec: records.NativePodGroupSpec) -> Hold | None:
    parent = spec.parent_composite_pod_group_name
    if not parent:
        return None
    text = f"spec.parentCompositePodGroupName: CompositePodGroup {parent} is not served by this scheduler; leave the field empty"
    return Hold(PendingReason.LEFT_OUT, text)


def _never_preempts(spec: records.NativePodGroupSpec, living: Sequence[TaskFacts]) -> bool:
    if spec.preemption_policy:
        return spec.preemption_policy == _NEVER
    return bool(living) and all(task.pod.spec.preemption_policy == _NEVER for task in living)


def _topology(spec: records.NativePodGroupSpec) -> Sequence[records.TopologyConstraint]:
    return () if spec.scheduling_constraints is None else spec.scheduling_constraints.topology


def _disagreement(meta: records.Meta, tasks: Sequence[TaskFacts], oldest: TaskFacts) -> str:
    """What to tell of pods that name another queue than the oldest one, whose word counts."""
    taken = named(oldest.pod.metadata)
    if named(meta) or not taken:
        return ""
    others = sorted({each for task in tasks if (each := named(task.pod.metadata)) not in {"", taken}})
    if not others:
        return ""
    return f'queue "{others[0]}" is not taken: the oldest pod of the group, {oldest.name}, names queue "{taken}"'


def _is_inherited(key: str) -> bool:
    """Whether the oldest member speaks for the group by this annotation; of evictions each pod speaks for itself."""
    return key.startswith(_PREFIX) and key != keys.PREEMPTABLE


def _age(task: TaskFacts) -> tuple[float, int, str]:
    return task.created, task.index, task.name


def _sum(tasks: Sequence[TaskFacts]) -> Amounts:
    total: dict[str, int] = {}
    for task in tasks:
        for name, amount in task.shape.request.items():
            total[name] = total.get(name, 0) + amount
    return total
