"""Whether a Job that does not exist yet would start now, computed from queues, nodes and pods; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyroclast.api.waiting_codes import CODES, NEVER, NOT_NOW
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.resources import quantity
from pyroclast.resources.pods import effective
from pyroclast.resources.quantity import Quantity
from pyroclast.views.amounts import added, amount, as_text, main_resources
from pyroclast.views.documents import document
from pyroclast.views.explanation import explanation_lines
from pyroclast.views.jobs import WAITING_PHASES, Group
from pyroclast.views.node_filters import forbidden_by
from pyroclast.views.nodes import ENDED, state_of

Document = Mapping[str, Any]
Amounts = Mapping[str, Quantity]
OVERCOMMIT: Final = 1.2
"""The multiple of the cluster's resources up to which the scheduler admits gangs by default."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a Job would not start now. `code` is None when the Job would start."""

    code: PendingReason | None
    sentence: str
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster: Queue objects by name, nodes, pods that have not ended, and PodGroups."""

    queues: Mapping[str, Document]
    nodes: Sequence[Document]
    pods: Sequence[Document]
    groups: Sequence[Group]
    free: dict[str, dict[str, Quantity]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Compute the free resources of each node."""
        for node in self.nodes:
            self.free[node["metadata"]["name"]] = _allocatable(node)
        for pod in self.pods:
            free = self.free.get((pod.get("spec") or {}).get("nodeName") or "")
            if free is not None and (pod.get("status") or {}).get("phase") not in ENDED:
                _take(free, _asks(pod["spec"]))


def gang_of(job: Document) -> list[Document]:
    """Return the specs of the pods that the Job needs to start. The defaults of the Job must be set."""
    found: list[Document] = []
    spec = job.get("spec") or {}
    for task in spec.get("tasks") or ():
        replicas, least = task.get("replicas", 1), task.get("minAvailable")
        count = replicas if least is None else least
        template = (task.get("template") or {}).get("spec") or {}
        found += [template] * int(count)
    return found[: int(spec.get("minAvailable") or len(found)) or len(found)]


def fits(job: Document, cluster: Cluster, absence: str = "") -> Finding:
    """Return the first cause, in the order of the scheduling stages, for which the Job would wait.

    `absence`: why no scheduler places the pods of the Job; empty when a scheduler does.
    """
    if absence:
        return Finding(PendingReason.NO_SCHEDULER, absence)
    gang = gang_of(job)
    asks = _sum([_asks(pod) for pod in gang])
    queue = (job.get("spec") or {}).get("queue") or "default"
    found = next(_in_queue(queue, asks, cluster), None) or next(_on_nodes(gang, asks, cluster), None)
    return found or Finding(None, f"{len(gang)} pods with {_text(asks)} fit now")


def _in_queue(queue: str, asks: Amounts, cluster: Cluster) -> Iterator[Finding]:
    lineage = list(_lineage(queue, cluster.queues))
    for each in lineage:
        limits = {name: amount(value) for name, value in ((each.get("spec") or {}).get("capability") or {}).items()}
        if over := _over(asks, limits):
            name = each["metadata"]["name"]
            text = f"it asks for {_one(over, asks)}; queue {name} may have at most {_one(over, limits)} (its capability)"
            yield Finding(PendingReason.ABOVE_QUEUE_LIMIT, f"{NEVER}: {text}", is_final=True)
    whole = _sum([_allocatable(node) for node in cluster.nodes])
    if over := _over(asks, whole, absent=True):
        text = f"it asks for {_one(over, asks)}; the cluster has {_one(over, whole)}"
        yield Finding(PendingReason.ABOVE_CLUSTER, f"{NEVER}: {text}", is_final=True)
    for each in lineage:
        name = each["metadata"]["name"]
        limits = {resource: amount(value) for resource, value in ((each.get("spec") or {}).get("capability") or {}).items()}
        used = {resource: amount(value) for resource, value in ((each.get("status") or {}).get("allocated") or {}).items()}
        promised = _promised(cluster, name)
        if over := _over(_sum([asks, used, promised]), limits, only=asks):
            text = (
                f"it asks for {_one(over, asks)}; queue {name} may have at most {_one(over, limits)}, it has "
                f"{used.get(over, quantity.ZERO)} and {promised.get(over, quantity.ZERO)} are promised to gangs let in before"
            )
            yield Finding(PendingReason.QUEUE_FULL, f"{NOT_NOW}: {text}")
    used = _sum([_asks(pod["spec"]) for pod in cluster.pods if (pod.get("spec") or {}).get("nodeName")])
    taken = _sum([used, _promised(cluster, "")])
    for resource, asked in asks.items():
        room = float(whole.get(resource, quantity.ZERO)) * OVERCOMMIT - float(taken.get(resource, quantity.ZERO))
        if float(asked) > room:
            yield Finding(
                PendingReason.CLUSTER_FULL, f"{NOT_NOW}: it asks for {_one(resource, asks)}; the cluster has promised the rest"
            )


def _on_nodes(gang: Sequence[Document], asks: Amounts, cluster: Cluster) -> Iterator[Finding]:
    ready = [node for node in cluster.nodes if state_of(node) != "NotReady"]
    if not ready:
        yield Finding(PendingReason.NO_NODE_READY, f"{NOT_NOW}: none of {len(cluster.nodes)} nodes is ready")
        return
    for pod in gang:
        reasons = [forbidden_by(pod, node) for node in ready]
        open_nodes = [node for node, reason in zip(ready, reasons, strict=True) if not reason]
        if not open_nodes:
            counts = ", ".join(f"{reasons.count(reason)} by {reason}" for reason in dict.fromkeys(reasons))
            yield Finding(PendingReason.NO_NODE_ALLOWED, f"{NEVER}: no node takes a pod: {counts}", is_final=True)
        if open_nodes and not any(_holds(_allocatable(node), _asks(pod)) for node in open_nodes):
            text = f"a pod asks for {_text(_asks(pod))}; no node that takes it has so much"
            yield Finding(PendingReason.NO_NODE_BIG_ENOUGH, f"{NEVER}: {text}", is_final=True)
    empty = {node["metadata"]["name"]: _allocatable(node) for node in ready}
    if not _placed(gang, ready, empty):
        text = f"the nodes do not hold {len(gang)} pods with {_text(asks)} even when all are empty"
        yield Finding(PendingReason.TOO_FEW_NODES, f"{NEVER}: {text}", is_final=True)
    if not _placed(gang, ready, {name: dict(free) for name, free in cluster.free.items()}):
        yield Finding(PendingReason.NODES_FULL, f"{NOT_NOW}: {len(gang)} pods with {_text(asks)} do not fit on what is free")


def _placed(gang: Sequence[Document], nodes: Sequence[Document], free: dict[str, dict[str, Quantity]]) -> bool:
    """Whether all pods can be placed: the largest pod first, each on the fullest node with enough room."""
    for pod in sorted(gang, key=lambda pod: -sum(float(each) for each in _asks(pod).values())):
        asked = _asks(pod)
        names = [node["metadata"]["name"] for node in nodes if not forbidden_by(pod, node)]
        able = [name for name in names if _holds(free.get(name, {}), asked)]
        if not able:
            return False
        _take(free[min(able, key=lambda name: float(free[name].get("cpu", quantity.ZERO)))], asked)
    return True


def _lineage(name: str, queues: Mapping[str, Document]) -> Iterator[Document]:
    """Yield the queue and its ancestors."""
    seen: set[str] = set()
    while name in queues and name not in seen:
        seen.add(name)
        yield queues[name]
        name = (queues[name].get("spec") or {}).get("parent") or ""


def _promised(cluster: Cluster, queue: str) -> dict[str, Quantity]:
    """Return the requests of admitted gangs that are not allocated yet, of one queue, or of all when `queue` is empty."""
    let_in = [
        group
        for group in cluster.groups
        if (group.get("status") or {}).get("phase") in WAITING_PHASES - {"", "Pending"}
        and queue in {"", (group.get("spec") or {}).get("queue") or "default"}
    ]
    asked = [main_resources((group.get("spec") or {}).get("minResources") or {}) for group in let_in]
    return {name: amount(value) for name, value in added(asked).items()}


def _allocatable(node: Document) -> dict[str, Quantity]:
    return {name: amount(value) for name, value in ((node.get("status") or {}).get("allocatable") or {}).items()}


def _asks(pod: Document) -> dict[str, Quantity]:
    return {**effective(pod, "requests"), "pods": quantity.from_value(1)}


def _take(free: dict[str, Quantity], asked: Amounts) -> None:
    for name, value in asked.items():
        if name in free:
            free[name] -= value


def _holds(free: Amounts, asked: Amounts) -> bool:
    return all(free.get(name, quantity.ZERO) >= value for name, value in asked.items() if value)


def _over(asks: Amounts, limits: Amounts, *, absent: bool = False, only: Amounts | None = None) -> str:
    """Return the first resource whose request exceeds its limit; empty when there is none.

    `absent`: a missing limit counts as 0.
    """
    for name, value in sorted(asks.items(), key=lambda each: ("/" not in each[0], each[0])):
        if name == "pods" or (only is not None and not only.get(name)):
            continue
        limit = limits.get(name, quantity.ZERO if absent else None)
        if limit is not None and value > limit:
            return name
    return ""


def _sum(lists: Sequence[Amounts]) -> dict[str, Quantity]:
    sums: dict[str, Quantity] = {}
    for each in lists:
        for name, value in each.items():
            sums[name] = sums.get(name, quantity.ZERO) + value
    return sums


def _text(amounts: Amounts) -> str:
    return as_text({name: str(value) for name, value in amounts.items() if name != "pods"}) or "no resources"


def _one(name: str, amounts: Amounts) -> str:
    return as_text({name: str(amounts.get(name, quantity.ZERO))}) or f"0 {name}"


def fits_document(job: Document, finding: Finding, as_of: str) -> dict[str, Any]:
    """Return the document `Fit`: whether the Job would start now, and if not, why."""
    metadata = {name: job["metadata"].get(name) for name in ("namespace", "name")}
    code = None if finding.code is None else str(finding.code)
    fields = {"metadata": metadata, "queue": (job.get("spec") or {}).get("queue") or "default", "code": code}
    told = {"never": finding.is_final, "sentence": finding.sentence, "asOf": as_of, "complete": False}
    return document("Fit", {**fields, **told, "help": "" if finding.code is None else CODES[finding.code].help})


def fits_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return the document `Fit` (whether a Job would start now) as lines for a terminal."""
    name = f"{answer['metadata']['namespace']}/{answer['metadata']['name']}"
    if answer["code"] is None:
        return [f"{name} would start now in queue {answer['queue']}: {answer['sentence']}"]
    when = "never" if answer["never"] else "not now"
    return [
        f"{name} would wait in queue {answer['queue']}: {answer['code']}, {when}",
        f"why      {answer['sentence'].removeprefix(f'{when}: ')}",
        f"help     {answer['help']}; see docs/codes.md#{answer['code'].lower()}",
        f"as of    {answer['asOf']}, from the objects in the API server; nothing was written",
    ]


def explained_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return the scheduler's answer about a Job that does not exist yet, as lines for a terminal."""
    lines = explanation_lines(answer)
    if answer["code"] is None:
        return lines
    name = f"{answer['metadata']['namespace']}/{answer['metadata']['name']}"
    when = "never" if answer["never"] else "not now"
    return [f"{name} would wait in queue {answer['queue']}: {answer['code']}, {when}", *lines[1:]]
