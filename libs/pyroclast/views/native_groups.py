"""Rows and explanations of native PodGroups, from the conditions that the scheduler writes on them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.enums import NativeConditionType
from pyroclast.api.types import JOBS, NATIVE_POD_GROUPS
from pyroclast.api.waiting_codes import CODES, NEVER
from pyroclast.views.amounts import main_resources
from pyroclast.views.documents import Row, document
from pyroclast.views.explanation import start_line
from pyroclast.views.health import health_of, nodes_of
from pyroclast.views.human_durations import human_duration
from pyroclast.views.jobs import Group, seconds_since
from pyroclast.views.starts import estimate_of, position_of, said_of, start_of

OBJECT: Final = NATIVE_POD_GROUPS.qualified
"""The value of `object` in the rows of native PodGroups."""
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def is_native(row: Mapping[str, Any]) -> bool:
    """Whether a row is about a native PodGroup and not about a Job."""
    return row.get("object") == OBJECT


def own_groups(groups: Iterable[Group]) -> list[Group]:
    """Return the native PodGroups that do not belong to a Job of Volcano, which has its own row."""
    return [each for each in groups if not _shows_a_job(each)]


@dataclass(frozen=True, slots=True)
class NativeState:
    """The state of a native PodGroup, by its conditions. `code`: why the group waits, empty once it has started; `since`: since
    when.

    `is_final`: whether the group will never start by waiting alone. `start`: the earliest, likely and latest start, empty without
    an estimate. `asks`: the requests of the minimum of pods together. These three are only set while the group waits.
    """

    queue: str
    minimum: int
    code: str
    sentence: str
    since: str
    is_final: bool = False
    start: tuple[str, ...] = ()
    asks: Mapping[str, str] = field(default_factory=dict)


def native_state(group: Group) -> NativeState | None:
    """Return the state of a native PodGroup that a scheduler of Pyroclast handles; None for other groups."""
    queue, minimum = queue_of(group) or "", _minimum(group)
    if (said := _queued(group)) is not None:
        since, is_final = said.get("lastTransitionTime", ""), _is_final(group)
        start = () if is_final else tuple(start_of(group) or ())
        return NativeState(queue, minimum, said["reason"], said.get("message", ""), since, is_final, start, _asks(group))
    started = _condition(group, NativeConditionType.INITIALLY_SCHEDULED)
    if started.get("status") != "True" or not _condition(group, NativeConditionType.QUEUED):
        return None
    return NativeState(queue, minimum, "", "", started.get("lastTransitionTime", ""))


def waiting_native_rows(groups: Iterable[Group], now: float) -> list[Row]:
    """Return a row in the form of a Job's row for each native PodGroup that waits for a scheduler of Pyroclast, the
    oldest first.
    """
    found = [(each, said) for each in groups if (said := _queued(each)) is not None]
    found.sort(key=lambda pair: str(pair[0]["metadata"]["creationTimestamp"]))
    return [
        {
            "position": position_of(each),
            **_name(each),
            "pods": _minimum(each),
            "asks": _asks(each),
            "waitedSeconds": seconds_since(each["metadata"]["creationTimestamp"], now),
            "code": said["reason"],
            "start": NEVER if _is_final(each) else start_of(each),
            "never": _is_final(each),
            "sentence": said.get("message", ""),
            "since": said.get("lastTransitionTime", ""),
        }
        for each, said in found
    ]


def running_native_rows(groups: Iterable[Group], pods: Iterable[Mapping[str, Any]], now: float) -> list[Row]:
    """Return a row in the form of a Job's row for each native PodGroup that has started and has unfinished pods.

    `pods`: the pods of all PodGroups.
    """
    by_group: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for pod in pods:
        named = ((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName")
        if named and (pod.get("status") or {}).get("phase") not in _ENDED:
            by_group.setdefault((pod["metadata"]["namespace"], named), []).append(pod)
    rows: list[Row] = []
    for each in groups:
        state = native_state(each)
        own = by_group.get((each["metadata"]["namespace"], each["metadata"]["name"]))
        if state is None or state.code or not own:
            continue
        rows.append(
            {
                **_name(each),
                "queue": queue_of(each) or next(filter(None, (queue_of_pod(pod["metadata"]) for pod in own)), None),
                "pods": len(own),
                "ready": sum((pod.get("status") or {}).get("phase") == "Running" for pod in own),
                "nodes": nodes_of(own),
                "asks": {},
                "elapsedSeconds": seconds_since(state.since, now),
                "ends": None,
                "health": health_of(len(own), own),
                "phase": "Running",
                "retries": 0,
            }
        )
    return sorted(rows, key=lambda row: -row["elapsedSeconds"])


def native_explanation(group: Group, now: float) -> dict[str, Any]:
    """Return the document `Explanation`, as far as the conditions of the PodGroup contain its facts."""
    meta = group["metadata"]
    named = {"metadata": {"namespace": meta["namespace"], "name": meta["name"]}, "queue": queue_of(group)}
    stamp = datetime.fromtimestamp(now).astimezone().isoformat(timespec="seconds")
    known = {"asOf": stamp, "complete": False}
    said = _queued(group)
    if said is None:
        has_started = _condition(group, NativeConditionType.INITIALLY_SCHEDULED).get("status") == "True"
        sentence = "its pods have their nodes" if has_started else "no scheduler of ours has looked at it yet"
        phase = "Running" if has_started else "Pending"
        return document("Explanation", {**named, "code": None, "never": False, "sentence": sentence, "phase": phase, **known})
    code = said["reason"]
    help_text = CODES[code].help if code in CODES else ""
    is_final = _is_final(group)
    start = None if is_final else estimate_of(group)
    fields = {
        "phase": "Pending",
        "code": code,
        "never": is_final,
        "since": said.get("lastTransitionTime", ""),
        "waitedSeconds": seconds_since(meta["creationTimestamp"], now),
        "sentence": said.get("message", ""),
        "start": start,
        "startReason": "" if start else "waiting alone does not help" if is_final else "no estimate is made",
        "help": help_text,
        "doc": f"docs/codes.md#{code.lower()}",
    }
    return document("Explanation", {**named, **fields, **known})


def native_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return the document that `native_explanation` returns as lines of text for a terminal."""
    name = f"{answer['metadata']['namespace']}/{answer['metadata']['name']}"
    queue = f" in queue {answer['queue']}" if answer["queue"] else ""
    if answer["code"] is None:
        return [f"{name}{queue}: {answer['sentence']}"]
    lines = [
        f"{name} waits for {human_duration(answer['waitedSeconds'])}{queue}: {answer['code']}",
        f"why      {answer['sentence']}",
    ]
    lines.append(start_line(answer))
    if answer["help"]:
        lines.append(f"help     {answer['help']}; see {answer['doc']}")
    return [*lines, f"as of    {answer['asOf']}, from the objects in the API server"]


def _name(group: Group) -> Row:
    meta = group["metadata"]
    priority = (group.get("spec") or {}).get("priorityClassName") or None
    return {
        "object": OBJECT,
        "namespace": meta["namespace"],
        "name": meta["name"],
        "queue": queue_of(group),
        "priority": priority,
    }


def queue_of(group: Group) -> str | None:
    """Return the queue that the PodGroup names; otherwise the queue in which the scheduler has it, which another object
    may name.
    """
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


def _is_final(group: Group) -> bool:
    return bool(said_of(group).get("never"))


def _asks(group: Group) -> dict[str, str]:
    """Return the requests of the minimum of pods together, as the scheduler wrote them."""
    said = said_of(group).get("requests")
    return main_resources(said) if isinstance(said, dict) else {}


def _minimum(group: Group) -> int:
    policy = (group.get("spec") or {}).get("schedulingPolicy") or {}
    return int((policy.get("gang") or {}).get("minCount") or 1)


def _queued(group: Group) -> Mapping[str, Any] | None:
    found = _condition(group, NativeConditionType.QUEUED)
    return found if found.get("status") == "True" else None


def _condition(group: Group, kind: str) -> Mapping[str, Any]:
    listed: Sequence[Mapping[str, Any]] = (group.get("status") or {}).get("conditions") or ()
    return next((each for each in listed if each["type"] == kind), {})


def _shows_a_job(group: Group) -> bool:
    owners = group["metadata"].get("ownerReferences") or ()
    return any(each.get("controller") and (each["kind"], each["apiVersion"]) == (JOBS.kind, JOBS.api_version) for each in owners)
