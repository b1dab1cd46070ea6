"""Patches that the scheduler sends, as plain JSON: only what differs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pyroclast.api import keys, records
from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import DisruptionReason, PodGroupPhase
from pyroclast_scheduler.model.amount_text import number
from pyroclast_scheduler.model.dimensions import Amounts, amounts_of
from pyroclast_scheduler.model.groups import GroupStatus
from pyroclast_scheduler.session.outcome import WaitingTask

__all__ = [
    "condition",
    "disruption",
    "group_patch",
    "queue_patch",
    "reason_class",
    "waiting_class",
    "waiting_patch",
    "without_queue_gate",
]

_NUMBER: Final = re.compile(r"\d+")


def group_patch(old: GroupStatus, new: GroupStatus) -> dict[str, Any] | None:
    """A merge patch that makes a PodGroup's status `new`; None if nothing differs."""
    status: dict[str, Any] = {}
    if old.phase is not new.phase:
        status["phase"] = str(new.phase)
    for name in ("running", "succeeded", "failed"):
        amount = getattr(new, name)
        if amount != getattr(old, name):
            status[name] = amount or None  # a count of zero is left away on the wire
    if old.conditions != new.conditions:
        status["conditions"] = [_without_blanks(msgspec.to_builtins(condition)) for condition in new.conditions]
    if status and new.phase is PodGroupPhase.PENDING:
        status["phase"] = str(new.phase)  # an absent one reads like it
    return {"status": status} if status else None


def queue_patch(old: records.QueueStatus, new: Amounts, guarantee: Amounts) -> dict[str, Any] | None:
    """A merge patch that makes a queue's allocated resources `new` (stored units); None if its status means the same already.

    Beside them stands what is reserved: how much of the queue's guarantee others may not use although the queue does not.
    """
    unused = {name: amount - new.get(name, 0) for name, amount in guarantee.items() if amount > new.get(name, 0)}
    if _means(old.allocated, new) and _means(old.reservation.resource or {}, unused):
        return None
    reservation: dict[str, Any] = {}
    if unused or old.reservation.resource:
        reservation["resource"] = _replacing(old.reservation.resource, unused) if unused else None
    return {"status": {"allocated": _replacing(old.allocated, new), "reservation": reservation}}


def condition(kind: str, status: str, reason: str, message: str, now: str) -> dict[str, Any]:
    """A condition of a pod since `now`."""
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}


def disruption(reason: DisruptionReason, message: str, now: str) -> dict[str, Any]:
    """The condition that tells why a pod is about to be deleted."""
    return condition("DisruptionTarget", "True", str(reason), message, now)


def _means(written: Mapping[str, Any] | None, amounts: Amounts) -> bool:
    """Whether `written` stands there and means `amounts`; what makes no sense means nothing."""
    if written is None:
        return False
    try:
        return {k: v for k, v in amounts_of(written).items() if v} == {k: v for k, v in amounts.items() if v}
    except ValueError:
        return False


def _replacing(old: Mapping[str, Any] | None, new: Amounts) -> dict[str, Any]:
    """What turns `old` into `new` as a merge patch."""
    found: dict[str, Any] = {name: number(name, amount) for name, amount in new.items()}
    return found | {name: None for name in old or () if name not in found}


def waiting_patch(waiting: WaitingTask, timestamp: str) -> dict[str, Any]:
    """A strategic merge patch of a pod's status that says why it waits."""
    waits = condition("PodScheduled", "False", waiting.reason, waiting.message, timestamp)
    status: dict[str, Any] = {"conditions": [waits]}
    if waiting.nominated:
        status["nominatedNodeName"] = waiting.nominated
    return {"status": status}


def without_queue_gate() -> dict[str, Any]:
    """A strategic merge patch of a pod that takes away the gate of its queue, and leaves others."""
    return {"spec": {"schedulingGates": [{"name": keys.QUEUE_ALLOCATION_GATE, "$patch": "delete"}]}}


def waiting_class(waiting: WaitingTask) -> str:
    """What a pod's condition says, without its numbers: a pod is only written again when this changes."""
    return f"{reason_class(waiting.reason, waiting.message)}|{waiting.nominated}"


def reason_class(reason: str, message: str) -> str:
    """Reason and message without numbers and names."""
    message, summary = pending.parted(message)
    reason = f"{reason}|{summary.partition(':')[0]}"
    if message.startswith("pod group is"):
        return f"{reason}|gang"
    _, possible, rest = message.partition(" can possibly be assigned to ")
    if possible:
        return f"{reason}|{rest.partition(', ')[2]}"
    return f"{reason}|{_NUMBER.sub('#', message)}"


def _without_blanks(condition: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in condition.items() if value not in {"", None}}
