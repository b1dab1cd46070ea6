"""Changes of a Job that may let it start, as changed Jobs. Trials decide which of these changes help."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pyroclast.api.waiting_reasons import PendingReason as Code
from pyroclast.resources import quantity
from pyroclast.resources.pods import NO_ADDITIONS, Additions
from pyroclast.resources.vectors import stored_amount
from pyroclast_scheduler.model.causes import Shortage
from pyroclast_scheduler.model.dimensions import PODS
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.values import number

_MOST_QUEUES: Final = 2
_MOST_TERMS: Final = 3
_SHORTEST_SECONDS: Final = 60
_OF_QUEUE: Final = frozenset({
    Code.QUEUE_CLOSED, Code.NOT_LET_IN, Code.LEFT_OUT, Code.ABOVE_QUEUE_LIMIT, Code.QUEUE_FULL, Code.HELD_BY_GUARANTEE,
    Code.BEHIND_ANOTHER, Code.PERSON_LIMIT,
})  # fmt: skip
_OF_SIZE: Final = frozenset({
    Code.ABOVE_QUEUE_LIMIT, Code.ABOVE_CLUSTER, Code.QUEUE_FULL, Code.CLUSTER_FULL, Code.HELD_BY_GUARANTEE, Code.BEHIND_ANOTHER,
    Code.TOO_FEW_NODES, Code.NODES_FULL, Code.TOPOLOGY_TOO_NARROW, Code.PERSON_LIMIT,
})  # fmt: skip
_OF_ORDER: Final = frozenset({
    Code.QUEUE_FULL, Code.CLUSTER_FULL, Code.BEHIND_ANOTHER, Code.NODES_FULL, Code.HELD_BY_GUARANTEE, Code.KEPT_FOR_ANOTHER,
})  # fmt: skip

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A changed Job in place of a waiting one. `kind`, `value`: the field and its new value. `text`: the change in words."""

    kind: str
    value: str
    text: str
    body: Body


@dataclass(frozen=True, slots=True)
class Priorities:
    """The values of PriorityClasses by name, and the value without a class."""

    values: Mapping[str, int]
    default: int = 0


@dataclass(frozen=True, slots=True)
class Situation:
    """A waiting Job as JSON with its gang and cause, and the cluster.

    `reservation`: of the nodes that the Job lacks. `place`: its position in the queue, from 1. `additions`: what the API server
    adds to the amounts of its pods.
    """

    body: Mapping[str, Any]
    gang: JobFacts
    code: Code
    short: Sequence[Shortage]
    snapshot: Snapshot
    priorities: Priorities
    reservation: Reservation | None
    now: float
    place: int = 1
    is_never: bool = False
    additions: Additions = NO_ADDITIONS


def candidates(case: Situation) -> Iterator[Change]:
    """Yield the changes of a Job that are worth a trial, the most promising first."""
    code = case.code
    if code is Code.NO_NODE_BIG_ENOUGH:
        yield from _smaller_pods(case)
    if code is Code.NO_NODE_ALLOWED:
        yield from _fewer_terms(case.body)
        yield from _tolerations(case)
    if code is Code.TOPOLOGY_TOO_NARROW:
        yield from _wider(case.body)
    if code is Code.KEPT_FOR_ANOTHER:
        yield from _estimate(case)
    if code in _OF_SIZE:
        yield from _fewer_pods(case)
    if code in _OF_QUEUE:
        yield from _other_queues(case)
    if code in _OF_ORDER:
        yield from _priorities(case)


def _changed(
    body: Mapping[str, Any], kind: str, value: str, text: str, change: Callable[..., None], *arguments: object
) -> Change:
    """Return the Job with its spec changed by `change`."""
    other = copy.deepcopy(dict(body))
    change(other["spec"], *arguments)
    return Change(kind, value, text, other)


def _set(spec: Body, *path_and_value: object) -> None:
    *path, last, value = path_and_value
    for name in path:
        spec = spec[str(name)]
    spec[str(last)] = value


def _fewer_pods(case: Situation) -> Iterator[Change]:
    """Yield Jobs with fewer pods of the largest task, limited by the short resources and the free room of nodes."""
    body, gang, snapshot = case.body, case.gang, case.snapshot
    tasks = body["spec"].get("tasks") or []
    at = max(range(len(tasks)), key=lambda index: int(tasks[index].get("replicas") or 0), default=None)
    if at is None:
        return
    has = int(tasks[at].get("replicas") or 0)
    shape = next((task.shape for task in gang.tasks if task.role == (tasks[at].get("name") or "")), None)
    if shape is None or has < 2:
        return
    request = snapshot.dimensions.vector(shape.request)
    rows = [row for row in np.flatnonzero(request > 0).tolist() if row != PODS]
    room = has - 1
    for short in case.short:
        per_pod = shape.request.get(short.resource, 0)
        if short.limit is not None and per_pod:
            limit, used, promised = (_stored(short.resource, text) for text in (short.limit, short.used, short.promised))
            others = sum(task.shape.request.get(short.resource, 0) for task in gang.tasks) - per_pod * has
            room = min(room, math.floor((limit - used - promised - others) / per_pod))
    if rows:
        idle = np.maximum(snapshot.columns.idle(), 0)[:, snapshot.is_ready]
        room = min(room, int(np.min([idle[row] // request[row] for row in rows], axis=0).sum()))
    for count in dict.fromkeys((room, room // 2)):
        if 0 < count < has:
            text = f"{count} {'pod' if count == 1 else 'pods'} instead of {has}"
            yield _changed(body, "pods", str(count), text, _scale, at, count)


def with_pods(body: Mapping[str, Any], pods: int) -> Body:
    """Return the Job with so many pods of its largest task. ValueError: it has no task."""
    tasks = body["spec"].get("tasks") or []
    at = max(range(len(tasks)), key=lambda index: int(tasks[index].get("replicas") or 0), default=None)
    if at is None:
        raise ValueError("the Job has no task")
    return _changed(body, "pods", str(pods), "", _scale, at, pods).body


def _scale(spec: Body, at: int, count: int) -> None:
    task = spec["tasks"][at]
    gone = int(task["replicas"]) - count
    task["replicas"] = count
    if task.get("minAvailable") is not None:
        task["minAvailable"] = min(int(task["minAvailable"]), count)
    if spec.get("minAvailable"):
        spec["minAvailable"] = max(1, int(spec["minAvailable"]) - gone)


def _other_queues(case: Situation) -> Iterator[Change]:
    """Yield the Job in other open queues without children, those with the lowest usage of their capability first."""
    snapshot, own = case.snapshot, case.gang.queue
    parents = {queue.parent for queue in snapshot.queues.values()} | {"root"}

    def use(name: str) -> tuple[float, str]:
        sums, cap = snapshot.queue_sums.get(name), snapshot.queues[name].capability or {}
        taken = {} if sums is None else dict(zip(snapshot.dimensions.names, sums.allocated.tolist(), strict=True))
        return max((taken.get(each, 0.0) / limit for each, limit in cap.items() if limit > 0), default=0.0), name

    names = [name for name, each in snapshot.queues.items() if each.is_open and name not in parents and name != own]
    for name in sorted(names, key=use)[:_MOST_QUEUES]:
        yield _changed(case.body, "queue", name, f"queue {name}", _set, "queue", name)


def _priorities(case: Situation) -> Iterator[Change]:
    """Yield the Job with higher PriorityClasses, the lowest first, without those of the system."""
    higher = sorted((value, name) for name, value in case.priorities.values.items() if value > case.gang.priority)
    for _, name in higher:
        if not name.startswith("system-"):
            yield _changed(case.body, "priorityClassName", name, f"priorityClassName {name}", _prioritise, name)


def _prioritise(spec: Body, name: str) -> None:
    spec["priorityClassName"] = name
    for task in spec.get("tasks") or []:
        pod = (task.get("template") or {}).get("spec") or {}
        pod.pop("priorityClassName", None)
        pod.pop("priority", None)


def _smaller_pods(case: Situation) -> Iterator[Change]:
    """Yield Jobs whose pods request at most what the largest node has of the short resource."""
    for short in case.short:
        most, asked = _stored(short.resource, short.largest), _stored(short.resource, short.asked)
        if 0 < most < asked:
            value = number(short.resource, most)
            text = f"{value} {short.resource} a pod instead of {short.asked}"
            yield _changed(case.body, "request", f"{short.resource}={value}", text, _shrink, short.resource, value)


def _shrink(spec: Body, resource: str, value: str) -> None:
    for pod in _pods(spec):
        containers = [each for each in pod.get("containers") or [] if resource in _asked(each)]
        if len(containers) == 1:
            for amounts in (containers[0]["resources"].get("requests"), containers[0]["resources"].get("limits")):
                if amounts and resource in amounts and quantity.parse(str(amounts[resource])) > quantity.parse(value):
                    amounts[resource] = value


def _asked(container: Mapping[str, Any]) -> dict[str, Any]:
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _fewer_terms(body: Mapping[str, Any]) -> Iterator[Change]:
    """Yield Jobs without one entry of the node selector, or without required node affinity."""
    terms: dict[tuple[str, str], None] = {}
    has_affinity = False
    for pod in _pods(body["spec"]):
        terms |= dict.fromkeys((str(key), str(value)) for key, value in (pod.get("nodeSelector") or {}).items())
        required = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        has_affinity = has_affinity or bool(required)
    for key, value in list(terms)[:_MOST_TERMS]:
        text = f"no nodeSelector {key}={value}"
        yield _changed(body, "nodeSelector", f"{key}={value}", text, _drop_selector, key)
    if has_affinity:
        yield _changed(body, "nodeAffinity", "", "no required nodeAffinity", _drop_affinity)
    if len(terms) > 1:
        yield _changed(body, "nodeSelector", "", "no nodeSelector", _drop_selector, None)


def _drop_selector(spec: Body, key: str | None) -> None:
    for pod in _pods(spec):
        if key is None:
            pod.pop("nodeSelector", None)
        else:
            (pod.get("nodeSelector") or {}).pop(key, None)


def _drop_affinity(spec: Body) -> None:
    for pod in _pods(spec):
        ((pod.get("affinity") or {}).get("nodeAffinity") or {}).pop("requiredDuringSchedulingIgnoredDuringExecution", None)


def _tolerations(case: Situation) -> Iterator[Change]:
    """Yield Jobs that tolerate the most frequent taints."""
    counts: dict[tuple[str, str, str], int] = {}
    for node in case.snapshot.nodes:
        for taint in () if node is None else node.spec.taints:
            if taint.effect != "PreferNoSchedule" and not taint.key.startswith("node.kubernetes.io/"):
                slot = taint.key, taint.value, str(taint.effect)
                counts[slot] = counts.get(slot, 0) + 1
    for key, value, effect in sorted(counts, key=lambda slot: (-counts[slot], slot))[:_MOST_TERMS]:
        toleration = {"key": key, "operator": "Equal", "value": value, "effect": effect}
        text = f"a toleration of {key}={value}:{effect} ({counts[key, value, effect]} nodes)"
        yield _changed(case.body, "toleration", f"{key}={value}:{effect}", text, _tolerate, toleration)


def _tolerate(spec: Body, toleration: Body) -> None:
    for pod in _pods(spec):
        pod.setdefault("tolerations", []).append(toleration)


def _wider(body: Mapping[str, Any]) -> Iterator[Change]:
    topology = body["spec"].get("networkTopology") or {}
    tier = topology.get("highestTierAllowed")
    if tier is not None:
        higher = int(tier) + 1
        path = ("networkTopology", "highestTierAllowed")
        yield _changed(body, "highestTierAllowed", str(higher), f"highestTierAllowed {higher}", _set, *path, higher)
    if topology.get("mode", "hard") == "hard":
        yield _changed(body, "topologyMode", "soft", "networkTopology mode soft", _set, "networkTopology", "mode", "soft")


def _estimate(case: Situation) -> Iterator[Change]:
    """Yield the Job with a running estimate that ends before the reserved nodes are needed."""
    reservation = case.reservation
    until = None if reservation is None else reservation.fill_until or reservation.promise
    seconds = 0 if until is None else int(until - case.now) - 1
    if seconds >= _SHORTEST_SECONDS:
        value = f"{seconds // 60}m"
        yield _changed(case.body, "runningEstimate", value, f"runningEstimate {value}", _set, "runningEstimate", value)


def _pods(spec: Mapping[str, Any]) -> Sequence[Body]:
    found = ((task.get("template") or {}).get("spec") for task in spec.get("tasks") or [])
    return [pod for pod in found if pod]


def _stored(name: str, text: str | None) -> int:
    """Return a quantity in stored units, 0 for None."""
    return stored_amount(name, text) or 0 if text else 0
