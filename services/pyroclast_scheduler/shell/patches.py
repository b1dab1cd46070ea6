"""The patches that the scheduler sends, as plain JSON with only the differences. The code is pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pyroclast.api import keys, records
from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import DisruptionReason, PodGroupPhase
from pyroclast.lifecycle.gang.groups import GroupStatus
from pyroclast_scheduler.model.dimensions import Amounts, amounts_of
from pyroclast_scheduler.model.values import number
from pyroclast_scheduler.session.outcome import WaitingTask

_NUMBER: Final = re.compile(r"\d+")


def group_patch(old: GroupStatus, new: GroupStatus) -> dict[str, Any] | None:
    """Return a merge patch that changes the status of a PodGroup from `old` to `new`; None if they are equal."""
    status: dict[str, Any] = {}
    if old.phase is not new.phase:
        status["phase"] = str(new.phase)
    for name in ("running", "succeeded", "failed"):
        amount = getattr(new, name)
        if amount != getattr(old, name):
            status[name] = amount or None  # a count of zero is omitted from the JSON
    if old.conditions != new.conditions:
        bodies = map(msgspec.to_builtins, new.conditions)
        status["conditions"] = [{name: value for name, value in each.items() if value not in {"", None}} for each in bodies]
    if status and new.phase is PodGroupPhase.PENDING:
        status["phase"] = str(new.phase)  # an absent phase is decoded as Pending
    return {"status": status} if status else None


def queue_patch(old: records.QueueStatus, new: Amounts, guarantee: Amounts) -> dict[str, Any] | None:
    """Return a merge patch that changes the allocated resources of a queue to `new` (stored units); None if they are equal.

    The patch also has the reserved resources: the amount of the queue's guarantee that the queue does not use.
    """
    unused = {name: amount - new.get(name, 0) for name, amount in guarantee.items() if amount > new.get(name, 0)}
    if _means(old.allocated, new) and _means(old.reservation.resource or {}, unused):
        return None
    reservation: dict[str, Any] = {}
    if unused or old.reservation.resource:
        reservation["resource"] = _replacing(old.reservation.resource, unused) if unused else None
    return {"status": {"allocated": _replacing(old.allocated, new), "reservation": reservation}}


def condition(kind: str, status: str, reason: str, message: str, now: str) -> dict[str, Any]:
    """Return a condition of a pod with `now` as its transition time."""
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}


def disruption(reason: DisruptionReason, message: str, now: str) -> dict[str, Any]:
    """Return the condition that says why a pod is about to be deleted."""
    return condition("DisruptionTarget", "True", str(reason), message, now)


def _means(written: Mapping[str, Any] | None, amounts: Amounts) -> bool:
    """Whether `written` exists and is equal to `amounts`. A malformed quantity is equal to nothing."""
    if written is None:
        return False
    try:
        return {k: v for k, v in amounts_of(written).items() if v} == {k: v for k, v in amounts.items() if v}
    except ValueError:
        return False


def _replacing(old: Mapping[str, Any] | None, new: Amounts) -> dict[str, Any]:
    found: dict[str, Any] = {name: number(name, amount) for name, amount in new.items()}
    return found | {name: None for name in old or () if name not in found}


def said_on_pod(kind: str, reason: str, text: str, now: str) -> dict[str, Any]:
    """Return a condition of a pod that stands for what its missing PodGroup would say; without a `text`, its removal."""
    return condition(kind, "True", reason, text, now) if text else {"$patch": "delete", "type": kind}


def waiting_patch(waiting: WaitingTask, timestamp: str) -> dict[str, Any]:
    """Return a strategic merge patch of a pod's status with the reason for which it waits."""
    waits = condition("PodScheduled", "False", waiting.reason, waiting.message, timestamp)
    status: dict[str, Any] = {"conditions": [waits]}
    if waiting.nominated:
        status["nominatedNodeName"] = waiting.nominated
    return {"status": status}


def without_queue_gate() -> dict[str, Any]:
    """Return a strategic merge patch of a pod that removes the gate of its queue, and no other gate."""
    return {"spec": {"schedulingGates": [{"name": keys.QUEUE_ALLOCATION_GATE, "$patch": "delete"}]}}


def waiting_class(waiting: WaitingTask) -> str:
    """Return the content of a pod's condition without numbers. The pod is only written again when this changes."""
    return f"{reason_class(waiting.reason, waiting.message)}|{waiting.nominated}"


def said_waiting(waiting: WaitingTask) -> str | None:
    """Return the present condition of the pod in the form of `waiting_class`; None if there is none."""
    status = waiting.task.pod.status
    for each in status.conditions:
        if each.type == "PodScheduled" and each.status == "False":
            nominated = status.nominated_node_name if waiting.nominated else ""
            return f"{reason_class(each.reason, each.message)}|{nominated}"
    return None


def reason_class(reason: str, message: str) -> str:
    """Return reason and message without numbers and names."""
    message, summary = pending.parted(message)
    reason = f"{reason}|{summary.partition(':')[0]}"
    if message.startswith("pod group is"):
        return f"{reason}|gang"
    _, possible, rest = message.partition(" can possibly be assigned to ")
    if possible:
        return f"{reason}|{rest.partition(', ')[2]}"
    return f"{reason}|{_NUMBER.sub('#', message)}"
