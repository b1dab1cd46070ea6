"""What is written on PodGroups of Kubernetes itself: kube-scheduler's condition in its words, ours beside it. Pure."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import NativeConditionReason, NativeConditionType, PodGroupConditionType, PodGroupPhase
from pyroclast.api.types import COMPOSITE_POD_GROUPS
from pyroclast.api.waiting import read_waiting
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.explaining.annotations import said_of
from pyroclast_scheduler.model.groups import Group
from pyroclast_scheduler.shell.patches import condition, reason_class

__all__ = ["conditions_patch", "said_class"]

_STARTED: Final = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED})
_LONGEST_MESSAGE: Final = 32_768
_PASSING: Final = frozenset({NativeConditionType.DISRUPTION_TARGET, NativeConditionType.WAITING})
"""Types of conditions that are taken away once they no longer hold."""

_PRESENT: Final = " pods present"  # how many is what its user waits for


class _Said(NamedTuple):
    """One condition without its time."""

    type: str
    status: str
    reason: str
    message: str = ""

    @property
    def mark(self) -> tuple[str, str, str]:
        """What it says, without its numbers: it is only written again when this changes."""
        is_exact = self.reason == PendingReason.PODS_MISSING or self.message.endswith(_PRESENT)
        if is_exact or self.type == NativeConditionType.WAITING:
            return self.type, self.status, f"{self.reason}|{self.message}"
        return self.type, self.status, reason_class(self.reason, self.message)


def said_class(group: Group, evicted: str = "") -> tuple[tuple[str, str, str], ...]:
    """What a group should say, without its numbers."""
    return tuple(each.mark for each in _wanted(group, evicted))


def conditions_patch(group: Group, now: str, evicted: str = "", *, waiting: str | None = None) -> dict[str, Any] | None:
    """The strategic merge patch of the status of `group` that makes it say what it should; None if it does.

    Args:
        group: as its object shows it.
        now: an API timestamp.
        evicted: why all of its pods were evicted, until they have places again; empty if they were not.
        waiting: what it should say of its wait, see `pyroclast.api.waiting`; None: what it says.
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
    if is_started or _was_started(group):
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


def _was_started(group: Group) -> bool:
    """Whether it says already that it has started, which is never taken back."""
    scheduled = _scheduled(group)
    return any(each.type == scheduled and each.status == "True" for each in group.said)


def _scheduled(group: Group) -> NativeConditionType:
    """The type of the condition that says of an object of that kind that enough of it has its nodes."""
    is_composite = group.kind.kind == COMPOSITE_POD_GROUPS.kind
    return NativeConditionType.COMPOSITE_SCHEDULED if is_composite else NativeConditionType.INITIALLY_SCHEDULED
