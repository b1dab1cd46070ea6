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
from pyroclast.api.types import JOBS, NATIVE_POD_GROUPS, POD_GROUPS
from pyroclast.api.waiting_codes import NEVER
from pyroclast.lifecycle.times import format_time
from pyroclast.views.jobs import WAITING_PHASES, Group, Waiter, WaitingCause, group_cause, seconds_since
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


RUNNING_PHASES: Final = frozenset({"Running", "Unknown"})
"""Phases of PodGroups whose pods have their nodes."""

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


def plain_waiter(group: Group) -> Waiter | None:
    """Return a PodGroup of Volcano that belongs to no Job; None for that of a Job, or one whose pods have ended.

    Users, operators such as those of Spark and Ray, and the job controller (for pods without a group) create such PodGroups.
    """
    meta, spec, phase = group["metadata"], group.get("spec") or {}, str((group.get("status") or {}).get("phase") or "")
    waits, created = phase in WAITING_PHASES, str(meta.get("creationTimestamp") or "")
    if job_of(group) or not (waits or phase in RUNNING_PHASES):
        return None
    cause = group_cause(group) if waits else None
    return Waiter(
        POD_GROUPS.qualified,
        meta["namespace"],
        meta["name"],
        created,
        cause,
        sentence="" if waits else "its pods have their nodes",
        queue=str(spec.get("queue") or "default"),
        priority=spec.get("priorityClassName") or None,
        pods=int(spec.get("minMember") or 1),
        asks=main_resources(spec.get("minResources") or {}),
        phase="Pending" if waits else "Running",
        since=cause.since if cause is not None else created,
        group=group,
    )


def stored_order(groups: Iterable[Group], queue: str, now: float) -> tuple[list[dict[str, Any]], bool]:
    """Return the waiting Jobs of a queue as rows, and whether they are in the order that the scheduler wrote last.

    If one of them has no position yet, they are in the order of priority and age.
    """
    waiting = [
        group
        for group in groups
        if ((group.get("spec") or {}).get("queue") or "default") == queue
        and (group.get("status") or {}).get("phase", "") in WAITING_PHASES
    ]
    places = {group["metadata"]["uid"]: position_of(group) for group in waiting}
    has_places = None not in places.values()
    waiting.sort(key=lambda group: (places[group["metadata"]["uid"]] if has_places else 0, *_rank(group)))
    rows: list[dict[str, Any]] = []
    for at, group in enumerate(waiting, 1):
        said = said_of(group)
        rows.append(
            {
                "position": at,
                "namespace": group["metadata"]["namespace"],
                "name": job_of(group) or group["metadata"]["name"],
                "priority": (group.get("spec") or {}).get("priority", 0),
                "waitedSeconds": seconds_since(group["metadata"]["creationTimestamp"], now),
                "asks": main_resources((group.get("spec") or {}).get("minResources") or {}),
                "code": said.get("code"),
                "start": NEVER if said.get("never") else start_of(group, now),
            }
        )
    return rows, has_places


def _rank(group: Group) -> tuple[int, str, str, str]:
    metadata, priority = group["metadata"], int((group.get("spec") or {}).get("priority") or 0)
    return -priority, metadata["creationTimestamp"], metadata["namespace"], metadata["name"]


def job_of(group: Group) -> str:
    """Return the name of the Job to which a PodGroup of Volcano belongs; empty if it belongs to none."""
    owners = group["metadata"].get("ownerReferences") or ()
    versions = {None, "", JOBS.api_version}  # a Job of batch/v1 is another kind
    return next((str(each["name"]) for each in owners if each["kind"] == JOBS.kind and each.get("apiVersion") in versions), "")


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
