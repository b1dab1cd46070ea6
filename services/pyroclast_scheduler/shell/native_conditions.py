"""The conditions on PodGroups of the Kubernetes API: that of kube-scheduler in its words, and Pyroclast's own.

The code is pure.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import NativeConditionReason, NativeConditionType, PodGroupConditionType, PodGroupPhase
from pyroclast.api.types import COMPOSITE_POD_GROUPS
from pyroclast.api.waiting import read_waiting
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.gang.groups import Group
from pyroclast_scheduler.cache.native_groups import NativeGroups
from pyroclast_scheduler.explaining.annotations import said_of
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.shell.debounce import Pruner
from pyroclast_scheduler.shell.patches import condition, reason_class

_STARTED: Final = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED})
_LONGEST_MESSAGE: Final = 32_768
_PASSING: Final = frozenset({NativeConditionType.DISRUPTION_TARGET, NativeConditionType.WAITING})
"""The types of conditions that are removed once they are no longer true."""
_PRESENT: Final = " pods present"  # the number itself matters to the user


class _Eviction(NamedTuple):
    """The message of an eviction. `uid`: the UID of the group's object, because another object may get the same name."""

    uid: str
    message: str


class EvictedGroups:
    """The evicted groups by key. `natives`: the objects of the groups."""

    def __init__(self, natives: NativeGroups) -> None:
        self._natives = natives
        self._found: dict[str, _Eviction] = {}
        self._pruner = Pruner()

    def __contains__(self, key: object) -> bool:
        return key in self._found

    def add(self, task: TaskFacts, whom: str = "") -> list[str]:
        """Add the groups that are evicted as a whole with `task`, and return their keys. `whom`: ends the message."""
        message = f"{task.pod.spec.scheduler_name}: preempting to accommodate a higher priority podgroup{whom}"
        self._pruner.prune(self._found, lambda key: bool(self.message(key)))
        keys = self._natives.gone_whole(task)
        for key in keys:
            if (group := self._natives.without_pods(key)) is not None:
                self._found[key] = _Eviction(group.metadata.uid, message)
        return keys

    def remove(self, key: str) -> None:
        """Remove a group whose pods are placed again."""
        del self._found[key]

    def message(self, key: str) -> str:
        """Return why the pods of a group were evicted; empty if they were not, or if the object of the group is deleted."""
        found = self._found.get(key)
        group = None if found is None else self._natives.without_pods(key)
        return "" if found is None or group is None or group.metadata.uid != found.uid else found.message

    def shown(self, key: str) -> Group | None:
        """Return the group as `NativeGroups.shown` does, and also an evicted group that has no pods left."""
        group = self._natives.shown(key)
        return self._natives.without_pods(key) if group is None and self.message(key) else group


class _Said(NamedTuple):
    """One condition without its time."""

    type: str
    status: str
    reason: str
    message: str = ""

    @property
    def mark(self) -> tuple[str, str, str]:
        """The text of the condition without numbers. The condition is only written again when this text changes."""
        is_exact = self.reason == PendingReason.PODS_MISSING or self.message.endswith(_PRESENT)
        if is_exact or self.type == NativeConditionType.WAITING:
            return self.type, self.status, f"{self.reason}|{self.message}"
        return self.type, self.status, reason_class(self.reason, self.message)


def said_class(group: Group, evicted: str = "") -> tuple[tuple[str, str, str], ...]:
    """Return the conditions that a group should have, without their numbers."""
    return tuple(each.mark for each in _wanted(group, evicted))


def conditions_patch(group: Group, now: str, evicted: str = "", *, waiting: str | None = None) -> dict[str, Any] | None:
    """Return the strategic merge patch of the status of `group` with the missing changes; None if there are none.

    `evicted`: why all pods of the group were evicted, until they are placed again; empty if they were not. `waiting`: the
    explanation that the object should have, see `pyroclast.api.waiting`; None: the present one.
    """
    known = {each.type: each for each in group.said}
    wanted = _wanted(group, evicted)
    text = said_of(group) if waiting is None else waiting
    if (said := read_waiting(text) if text else None) is not None:
        wanted.append(_Said(NativeConditionType.WAITING, "True", said.code, text))
    made: list[dict[str, Any]] = []
    for each in wanted:
        before = known.get(each.type)
        if before is not None and _Said(before.type, before.status, before.reason, before.message).mark == each.mark:
            continue
        since = before.last_transition_time if before is not None and before.status == each.status else None
        body = condition(each.type, each.status, each.reason, each.message[:_LONGEST_MESSAGE], since or now)
        made.append({**body, "observedGeneration": group.metadata.generation})
    over = known.keys() & _PASSING - {each.type for each in wanted}
    made += [{"$patch": "delete", "type": str(each)} for each in sorted(over)]
    return {"metadata": {"uid": group.metadata.uid}, "status": {"conditions": made}} if made else None


def _wanted(group: Group, evicted: str) -> list[_Said]:
    status, hold = group.status, group.spec.hold
    kinds = {each.type: each for each in status.conditions}
    unschedulable = kinds.get(PodGroupConditionType.UNSCHEDULABLE)
    is_started = status.phase in _STARTED
    text = "" if unschedulable is None or is_started else pending.parted(unschedulable.message)[1]
    code, _, why = text.partition(": ")
    found: list[_Said] = []
    scheduled = _scheduled(group)
    was_started = any(each.type == scheduled and each.status == "True" for each in group.said)  # which is never reverted
    if is_started or was_started:
        found.append(_Said(scheduled, "True", NativeConditionReason.SCHEDULED))
    elif code:
        reason = NativeConditionReason.UNSCHEDULABLE
        if hold is not None and hold.is_error:
            is_invalid = hold.is_layout and scheduled is NativeConditionType.COMPOSITE_SCHEDULED
            reason = NativeConditionReason.INVALID if is_invalid else NativeConditionReason.SCHEDULER_ERROR
        found.append(_Said(scheduled, "False", reason, why))
    if code:
        found.append(_Said(NativeConditionType.QUEUED, "True", code, why))
    elif is_started:
        found.append(_Said(NativeConditionType.QUEUED, "False", NativeConditionReason.ADMITTED))
    before = next((each for each in group.said if each.type == NativeConditionType.DISRUPTION_TARGET), None)
    if evicted:
        found.append(_Said(NativeConditionType.DISRUPTION_TARGET, "True", NativeConditionReason.PREEMPTION, evicted))
    elif before is not None and not is_started:
        found.append(_Said(before.type, before.status, before.reason, before.message))
    return found


def _scheduled(group: Group) -> NativeConditionType:
    """Return the type of the condition for a placed minimum, which depends on the kind of the object."""
    is_composite = group.kind.kind == COMPOSITE_POD_GROUPS.kind
    return NativeConditionType.COMPOSITE_SCHEDULED if is_composite else NativeConditionType.INITIALLY_SCHEDULED
