"""The free resources of nodes, and why pods are kept off a node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from pyroclast.api import keys
from pyroclast.resources import quantity
from pyroclast.resources.pods import effective
from pyroclast.resources.quantity import Quantity
from pyroclast.views.contract import Row, document
from pyroclast.views.readable import added, amount, as_text, ranges_of

ENDED: Final = frozenset({"Succeeded", "Failed"})
SHOWN: Final = ("cpu", "memory")
NO_VALUE: Final = "<none>"


def node_rows(
    nodes: Iterable[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]],
    groups: Mapping[str, Sequence[str]] | None = None,
    reserved: Mapping[str, str] | None = None,
) -> list[Row]:
    """Return a row for each group of nodes and state, with the free resources of the whole group and of one node.

    `groups`: those of each node, by its name. If None, a group consists of equal nodes: the same state, the same free resources,
    the same number of pods and the same reservation. `reserved`: the Job for which a node is reserved, by name of the node.
    """
    on_node: dict[str, list[Mapping[str, Any]]] = {}
    for pod in pods:
        name = (pod.get("spec") or {}).get("nodeName")
        if name and (pod.get("status") or {}).get("phase") not in ENDED:
            on_node.setdefault(name, []).append(pod)
    members_of: dict[tuple[Any, ...], list[_Node]] = {}
    for node in nodes:
        name = node["metadata"]["name"]
        own = on_node.get(name, [])
        one = _Node(name, state_of(node), _free(node, own), len(own), (reserved or {}).get(name, ""))
        for group in groups.get(name, ()) if groups is not None else (one.likeness,):
            members_of.setdefault((group, one.state), []).append(one)
    rows = [_row("" if groups is None else group, members) for (group, _), members in members_of.items()]
    return sorted(rows, key=lambda row: (row["group"], row["state"]))


def label_groups(nodes: Iterable[Mapping[str, Any]], label: str) -> dict[str, list[str]]:
    """Return the value of a label of each node, by name of the node."""
    return {node["metadata"]["name"]: [(node["metadata"].get("labels") or {}).get(label, NO_VALUE)] for node in nodes}


def reservations_of(groups: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the Job for which each node is reserved, by name of the node, as the scheduler writes it on PodGroups."""
    holder_of: dict[str, str] = {}
    for group in groups:
        text = (group["metadata"].get("annotations") or {}).get(keys.RESERVATION)
        try:
            reservation = orjson.loads(text) if text else {}
        except orjson.JSONDecodeError:
            continue
        locks = reservation.get("locks") if isinstance(reservation, dict) else None
        owner: Mapping[str, Any] = next(iter(group["metadata"].get("ownerReferences") or ()), {})
        holder = f"{group['metadata']['namespace']}/{owner.get('name') or group['metadata']['name']}"
        names = (lock.get("node") for lock in locks if isinstance(lock, dict)) if isinstance(locks, list) else ()
        holder_of |= dict.fromkeys(map(str, names), holder)
    return holder_of


@dataclass(frozen=True, slots=True)
class _Node:
    """The shown values of one node."""

    name: str
    state: str
    free: Mapping[str, Quantity]
    pods: int
    reserved_for: str

    @property
    def likeness(self) -> tuple[Any, ...]:
        """A value that is equal for nodes that share a row."""
        free = tuple(sorted((name, value) for name, value in self.free.items() if name in SHOWN or "/" in name))
        return (free, self.pods, self.reserved_for)


def _row(group: str, members: Sequence[_Node]) -> Row:
    free = added(each.free for each in members)
    names = (*_devices(free), *SHOWN)
    best = max((each.free for each in members), key=lambda each: tuple(each.get(name, quantity.ZERO) for name in names))
    shown = group or ranges_of(each.name for each in members)
    return {
        "group": shown,
        "name": shown,
        "state": members[0].state,
        "nodes": len(members),
        "cpuFree": free.get("cpu", "0"),
        "memoryFree": free.get("memory", "0"),
        "devicesFree": {name: free[name] for name in _devices(free)},
        "largestFree": {name: str(best[name]) for name in (*_devices(best), *SHOWN) if name in best},
        "pods": sum(each.pods for each in members),
        "reservedFor": sorted({each.reserved_for for each in members if each.reserved_for}),
        "names": sorted(each.name for each in members),
    }


def _free(node: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> dict[str, Quantity]:
    free = {name: amount(value) for name, value in ((node.get("status") or {}).get("allocatable") or {}).items()}
    for pod in pods:
        for name, asked in effective(pod["spec"], "requests").items():
            if name in free:
                free[name] -= asked
    return free


def _devices(amounts: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in amounts if "/" in name)


def state_of(node: Mapping[str, Any]) -> str:
    """Return `Ready` or `NotReady`, or `Cordoned` for a ready node that is unschedulable."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    if not is_ready:
        return "NotReady"
    return "Cordoned" if (node.get("spec") or {}).get("unschedulable") else "Ready"


Steps = Sequence[tuple[float, Quantity]]
"""The free amount of a node from each time on, in seconds from now; the first time is 0."""


def free_steps(free: Quantity, releases: Iterable[tuple[float | None, Quantity]], now: float) -> list[tuple[float, Quantity]]:
    """Return the free amount of a node over time. `releases`: when each of its pods ends, and its amount; None: not known."""
    steps = [(0.0, free)]
    for until, held in sorted((each for each in releases if each[0] is not None), key=lambda each: each[0] or 0.0):
        at = max(1.0, (until or 0.0) - now)
        free += held
        if steps[-1][0] == at:
            steps.pop()
        steps.append((at, free))
    return steps


def first_hole(nodes: Iterable[Steps], count: int, wanted: Quantity) -> float | None:
    """Return in how many seconds `count` nodes have the amount `wanted` free at once; None if not by the known ends."""
    reached = sorted(at for at in (next((at for at, free in steps if free >= wanted), None) for steps in nodes) if at is not None)
    return reached[count - 1] if 0 < count <= len(reached) else None


HOLE: Final = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,8}(?:[KMGT]i)?)", re.ASCII)


def read_hole(text: str) -> tuple[int, Quantity] | None:
    """Return the number of nodes and the amount on each of a text such as `4x8`; None for another text."""
    found = HOLE.fullmatch(text)
    return (int(found[1]), quantity.parse(found[2])) if found else None


def explain_node(
    node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], reserved: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the document `NodeExplanation`: why pods are kept off the node, its free resources, and the Jobs of its `pods`."""
    (row,) = node_rows([node], pods, None, reserved)
    spec = node.get("spec") or {}
    taints = [f"{each.get('key')}={each.get('value', '')}:{each.get('effect')}" for each in spec.get("taints") or ()]
    holders: dict[str, list[Mapping[str, str]]] = {}
    for pod in pods:
        metadata = pod["metadata"]
        name = (metadata.get("labels") or {}).get(keys.JOB_NAME) or metadata["name"]
        asked = {resource: str(value) for resource, value in effective(pod["spec"], "requests").items()}
        holders.setdefault(f"{metadata['namespace']}/{name}", []).append(asked)
    fields = {
        "metadata": {"name": node["metadata"]["name"]},
        "state": state_of(node),
        "taints": taints,
        "allocatable": {name: str(value) for name, value in ((node.get("status") or {}).get("allocatable") or {}).items()},
        "free": row["largestFree"],
        "reservedFor": row["reservedFor"],
        "holders": [{"name": name, "pods": len(asks), "asks": added(asks)} for name, asks in sorted(holders.items())],
    }
    return document("NodeExplanation", fields)


def node_lines(answer: Row) -> list[str]:
    """Return the explanation of a node as lines for a terminal."""
    lines = [f"node {answer['metadata']['name']} is {answer['state']}"]
    if answer["taints"]:
        lines.append(f"taints   {', '.join(answer['taints'])}: only pods that tolerate them come here")
    lines.append(f"free     {as_text(answer['free']) or 'nothing'}")
    if answer["reservedFor"]:
        lines.append(f"kept     for {', '.join(answer['reservedFor'])}")
    lines += [f"holds    {each['name']}: {each['pods']} pods, {as_text(each['asks']) or 'nothing'}" for each in answer["holders"]]
    return lines
