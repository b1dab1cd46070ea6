"""Distributes nodes among schedulers, and decides whether a NodeShard must be written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.enums import PodPhase
from pyroclast.api.records import Node, NodeShard, Pod
from pyroclast.resources import quantity
from pyroclast.resources.quantity import QuantityError
from pyroclast_job_controller.core.sharding.configuration import LIMIT, RATE, WARMUP, Policy, SchedulerShare

MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of static pods, which the kubelet of their node manages."""
_FEW: Final = 10
"""A NodeShard is written when one in this many desired nodes is new."""


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """A node, the requested fraction of its CPU (0 to 1), and its labels."""

    name: str
    rate: float
    labels: Mapping[str, str] = field(default_factory=dict)


def load_of(node: Node, pods: Iterable[Pod]) -> NodeLoad:
    """Return the load of `node` from the pods on it."""
    capacity = _millis(node.status.capacity.get("cpu"))
    asked = sum(
        _millis(container.resources.requests.get("cpu"))
        for pod in pods
        if pod.status.phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED) and MIRROR not in pod.metadata.annotations
        for container in pod.spec.containers
    )
    rate = min(1.0, asked / capacity) if capacity > 0 else 0.0
    return NodeLoad(node.metadata.name, rate, node.metadata.labels)


def choose(shares: Sequence[SchedulerShare], nodes: Iterable[NodeLoad]) -> dict[str, tuple[str, ...]]:
    """Return the names of each scheduler's nodes. One scheduler after another chooses from the nodes that are left."""
    left = sorted(nodes, key=lambda node: node.name)
    chosen: dict[str, tuple[str, ...]] = {}
    for share in shares:
        fitting = [node for node in left if all(_accepts(policy, node) for policy in share.policies)]
        fitting.sort(key=lambda node: -sum(policy.weight * _points(policy, node) for policy in share.policies))
        for policy in share.policies:
            if policy.name == LIMIT and "maxNodes" in policy.arguments:
                fitting = fitting[: int(policy.arguments["maxNodes"])]
        chosen[share.name] = tuple(node.name for node in fitting)
        taken = set(chosen[share.name])
        left = [node for node in left if node.name not in taken]
    return chosen


def is_due(shard: NodeShard, desired: Sequence[str]) -> bool:
    """Return whether the difference needs a write: the number of nodes differs, or a tenth of the nodes (at least one) is new."""
    new = set(desired) - set(shard.spec.nodes_desired)
    return len(desired) != len(shard.spec.nodes_desired) or len(new) >= max(1, len(desired) // _FEW)


def status(shard: NodeShard, desired: Sequence[str]) -> dict[str, Any]:
    """Return the nodes that the scheduler will start and stop using, by its own report of the nodes in use.

    Empty when the status has these nodes already.
    """
    used = shard.status.nodes_in_use
    add = sorted(set(desired) - set(used))
    remove = sorted(set(used) - set(desired))
    if (tuple(add), tuple(remove)) == (shard.status.nodes_to_add, shard.status.nodes_to_remove):
        return {}
    return {"nodesToAdd": add, "nodesToRemove": remove}


def _accepts(policy: Policy, node: NodeLoad) -> bool:
    if policy.name != RATE:
        return True
    low, high = _limits(policy)
    return low <= round(node.rate, 2) <= high


def _points(policy: Policy, node: NodeLoad) -> float:
    if policy.name == RATE:
        low, high = _limits(policy)
        return (round(node.rate, 2) - low) / (high - low) if high > low else 1.0
    if policy.name == WARMUP:
        key = str(policy.arguments.get("labelKey") or keys.NODE_WARMUP)
        return float(node.labels.get(key) == str(policy.arguments.get("labelValue") or "true"))
    return 0.0


def _limits(policy: Policy) -> tuple[float, float]:
    return float(policy.arguments.get("minCPUUtil", 0.0)), float(policy.arguments.get("maxCPUUtil", 1.0))


def _millis(text: str | int | None) -> int:
    try:
        return quantity.parse(text).millis if text is not None else 0
    except QuantityError:
        return 0
