"""What the scheduler wrote on PodGroups: position and likely start on those of both kinds, and the state of native ones.

A PodGroup of Volcano has the explanation in an annotation, a native one in a condition; readers see no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import ceil
from typing import Any, Final

import orjson

from pyroclast.api import keys
from pyroclast.api.enums import NativeConditionType
from pyroclast.api.types import JOBS, NATIVE_POD_GROUPS
from pyroclast.lifecycle.times import format_time
from pyroclast.views.jobs import Group, Waiter, WaitingCause
from pyroclast.views.readable import main_resources

WAITING_ANNOTATION: Final = "scheduling.volcano.sh/waiting"
MOST_BYTES: Final = 4096
"""The longest annotation that is read. The scheduler writes at most a quarter of that, but users can write anything."""


def said_of(group: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the wait information of a PodGroup (see `pyroclast.api.waiting`); empty without a valid annotation."""
    text = str((((group or {}).get("metadata") or {}).get("annotations") or {}).get(WAITING_ANNOTATION) or _by_condition(group))
    if not text or len(text) > MOST_BYTES:
        return {}
    try:
        said = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return said if isinstance(said, dict) else {}


def _by_condition(group: Mapping[str, Any] | None) -> str:
    """Return the same text of a native PodGroup, which has it in a condition."""
    listed = ((group or {}).get("status") or {}).get("conditions") or ()
    return next((str(each.get("message") or "") for each in listed if each.get("type") == NativeConditionType.WAITING), "")


def position_of(group: Mapping[str, Any] | None) -> int | None:
    """Return the position in the queue by the scheduler's own order, where 1 is next; None when unknown."""
    ahead = said_of(group).get("ahead")
    return ahead + 1 if isinstance(ahead, int) and ahead >= 0 else None


def start_of(group: Mapping[str, Any] | None, now: float = 0.0) -> list[str] | None:
    """Return the earliest, likely and latest start as API timestamps, not before `now`; None without an estimate from then on."""
    start = said_of(group).get("start")
    if not isinstance(start, list) or len(start) != 3:
        return None
    try:
        times = [datetime.fromisoformat(each).timestamp() for each in start]
    except (TypeError, ValueError):
        return None
    if times[2] < now:
        return None
    return [each if at >= now else format_time(ceil(now)) for each, at in zip(start, times, strict=True)]


def estimate_of(group: Mapping[str, Any] | None, now: float) -> dict[str, str] | None:
    """Return the estimate in the form of a `StartEstimate`, with its basis; None without an estimate. `now`: see `start_of`."""
    start = start_of(group, now)
    if start is None:
        return None
    return {**dict(zip(("earliest", "likely", "latest"), start, strict=True)), "basis": str(said_of(group).get("basis") or "")}


OBJECT: Final = NATIVE_POD_GROUPS.qualified
"""The value of `object` in the rows of native PodGroups."""


def is_native(row: Mapping[str, Any]) -> bool:
    """Whether a row is about a native PodGroup and not about a Job."""
    return row.get("object") == OBJECT


def own_groups(groups: Iterable[Group]) -> list[Group]:
    """Return the native PodGroups that do not belong to a Job of Volcano, which has its own row."""
    return [each for each in groups if not _shows_a_job(each)]


def native_waiter(group: Group) -> Waiter | None:
    """Return a native PodGroup that a scheduler of Pyroclast handles; None for other groups."""
    meta, queued = group["metadata"], _condition(group, NativeConditionType.QUEUED)
    started = _condition(group, NativeConditionType.INITIALLY_SCHEDULED)
    waits, is_started = queued.get("status") == "True", started.get("status") == "True"
    if not waits and not (queued and is_started):
        return None
    since = str((queued if waits else started).get("lastTransitionTime") or "")
    asks = said_of(group).get("requests")
    policy = (group.get("spec") or {}).get("schedulingPolicy") or {}
    return Waiter(
        OBJECT,
        meta["namespace"],
        meta["name"],
        meta["creationTimestamp"],
        WaitingCause(queued["reason"], queued.get("message", ""), since, bool(said_of(group).get("never"))) if waits else None,
        sentence="" if waits else "its pods have their nodes",
        queue=queue_of(group),
        priority=(group.get("spec") or {}).get("priorityClassName") or None,
        pods=int((policy.get("gang") or {}).get("minCount") or 1),
        asks=main_resources(asks) if waits and isinstance(asks, dict) else {},
        phase="Pending" if waits else "Running",
        since=since,
        group=group,
    )


def unseen_waiter(group: Group) -> Waiter:
    """Return a native PodGroup that no scheduler of Pyroclast handles."""
    meta, is_started = group["metadata"], _condition(group, NativeConditionType.INITIALLY_SCHEDULED).get("status") == "True"
    sentence = "its pods have their nodes" if is_started else "no scheduler of ours has looked at it yet"
    phase = "Running" if is_started else "Pending"
    return Waiter(OBJECT, meta["namespace"], meta["name"], "", None, sentence=sentence, queue=queue_of(group), phase=phase)


def queue_of(group: Group) -> str | None:
    """Return the queue that the PodGroup names; otherwise the queue in which the scheduler has it."""
    meta = group["metadata"]
    for given in (meta.get("labels"), meta.get("annotations")):
        if name := (given or {}).get(keys.SCHEDULING_QUEUE_NAME):
            return str(name)
    return str(said_of(group).get("queue") or "") or None


def queue_of_pod(meta: Mapping[str, Any]) -> str | None:
    """Return the queue of a pod: the queue that the scheduler wrote when it bound the pod, else the queue of the pod's label."""
    for given in (meta.get("annotations"), meta.get("labels")):
        if name := (given or {}).get(keys.SCHEDULING_QUEUE_NAME):
            return str(name)
    return None


def _condition(group: Group, kind: str) -> Mapping[str, Any]:
    listed: Sequence[Mapping[str, Any]] = (group.get("status") or {}).get("conditions") or ()
    return next((each for each in listed if each["type"] == kind), {})


def _shows_a_job(group: Group) -> bool:
    owners = group["metadata"].get("ownerReferences") or ()
    return any(each.get("controller") and (each["kind"], each["apiVersion"]) == (JOBS.kind, JOBS.api_version) for each in owners)
