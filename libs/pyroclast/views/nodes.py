"""What is free on the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast.resources.pods import effective
from pyroclast.resources.quantity import Quantity
from pyroclast.views.amounts import added, amount
from pyroclast.views.documents import Row

__all__ = ["node_rows", "state_of"]

ENDED: Final = frozenset({"Succeeded", "Failed"})
SHOWN: Final = ("cpu", "memory")


def node_rows(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]], label: str) -> list[Row]:
    """A row per value of `label` (or per node where it is empty) and state, with what is free in all and on one node."""
    on_node: dict[str, list[Mapping[str, Any]]] = {}
    for pod in pods:
        name = (pod.get("spec") or {}).get("nodeName")
        if name and (pod.get("status") or {}).get("phase") not in ENDED:
            on_node.setdefault(name, []).append(pod)
    groups: dict[tuple[str, str], list[tuple[str, Mapping[str, Quantity], int]]] = {}
    for node in nodes:
        metadata = node["metadata"]
        group = (metadata.get("labels") or {}).get(label, "<none>") if label else metadata["name"]
        own = on_node.get(metadata["name"], [])
        groups.setdefault((group, state_of(node)), []).append((metadata["name"], _free(node, own), len(own)))
    return [_row(group, state, found) for (group, state), found in sorted(groups.items())]


def _row(group: str, state: str, found: Sequence[tuple[str, Mapping[str, Quantity], int]]) -> Row:
    free = added([free for _, free, _ in found])
    names = (*_devices(free), *SHOWN)
    best = max((each for _, each, _ in found), key=lambda each: tuple(each.get(name, quantity.ZERO) for name in names))
    return {
        "group": group,
        "name": group,
        "state": state,
        "nodes": len(found),
        "cpuFree": free.get("cpu", "0"),
        "memoryFree": free.get("memory", "0"),
        "devicesFree": {name: free[name] for name in _devices(free)},
        "largestFree": {name: str(best[name]) for name in (*_devices(best), *SHOWN) if name in best},
        "pods": sum(count for _, _, count in found),
        "names": sorted(name for name, _, _ in found),
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
    """`Ready`, `NotReady`, and `Cordoned` where it takes no new pods."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    if not is_ready:
        return "NotReady"
    return "Cordoned" if (node.get("spec") or {}).get("unschedulable") else "Ready"
