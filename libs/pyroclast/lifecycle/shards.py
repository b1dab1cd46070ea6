"""Distributes nodes among schedulers, and decides whether a NodeShard must be written.

The configuration of the shares is read and checked here too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.enums import PodPhase
from pyroclast.api.records import Node, NodeShard, Pod
from pyroclast.resources import durations, quantity
from pyroclast.resources.quantity import QuantityError

KEY: Final = "sharding.yaml"
SHORT_FIELDS: Final = ("cpuUtilizationMin", "cpuUtilizationMax", "minNodes", "maxNodes", "preferWarmupNodes")
"""The fields of a share that stand for policies, in their short form."""
DEFAULT: Final = ("volcano:volcano:0.0:0.6:false:2:100", "agent-scheduler:agent:0.7:1.0:true:2:100")
"""The value of `--scheduler-configs` when the flag is not given."""
RATE: Final = "allocation-rate"
WARMUP: Final = "warmup"
LIMIT: Final = "node-limit"
_PARTS: Final = 7
_PERIOD: Final = 120.0
_MOST_NODES: Final = (1 << 31) - 1


class ShardingError(ValueError):
    """The configuration is invalid. The message names the faulty part."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A step of the selection of nodes: it filters, scores, or limits the number of nodes."""

    name: str
    weight: float = 1.0
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SchedulerShare:
    """A scheduler, and the policies that select its nodes."""

    name: str
    type: str = ""
    policies: tuple[Policy, ...] = ()


@dataclass(frozen=True, slots=True)
class Sharding:
    """The shares of all schedulers, in the order in which they choose. `period`: the seconds between two distributions.

    `on_events`: whether changes of nodes and pods also cause a distribution.
    """

    shares: tuple[SchedulerShare, ...]
    period: float
    on_events: bool = True


def from_flags(texts: Sequence[str], *, period: float, on_events: bool) -> Sharding:
    """Parse `--scheduler-configs`. Each value is `name:type:minUtil:maxUtil:preferWarmup:minNodes:maxNodes`.

    Raises ShardingError: a value is invalid.
    """
    shares = []
    for text in texts or DEFAULT:
        parts = text.split(":")
        if len(parts) != _PARTS:
            raise ShardingError(f"--scheduler-configs {text}: {_PARTS} parts are expected, there are {len(parts)}")
        name, kind, low, high, warm, fewest, most = parts
        try:
            policies = _chain(float(low), float(high), int(fewest), int(most), prefer_warm=warm.lower() == "true")
        except ValueError:
            raise ShardingError(f"--scheduler-configs {text}: utilisation and numbers of nodes must be numbers") from None
        shares.append(_checked(SchedulerShare(name, kind, policies), f"--scheduler-configs {text}"))
    return Sharding(_distinct(shares, "--scheduler-configs"), period if period > 0 else _PERIOD, on_events)


def read(data: Mapping[str, str], flags: Sharding) -> Sharding:
    """Parse the configuration in a ConfigMap. Missing fields have the values of `flags`.

    Raises ShardingError: the configuration is invalid.
    """
    import yaml  # noqa: PLC0415 - most installations have no such configuration

    try:
        document = yaml.safe_load(data.get(KEY, ""))
    except yaml.YAMLError as error:
        raise ShardingError(f"{KEY} is not YAML: {error}") from None
    if document is None:
        return flags
    entries = document.get("schedulerConfigs") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries:
        raise ShardingError(f"{KEY}: schedulerConfigs must list at least one scheduler")
    shares = [_read_share(entry, f"{KEY}: schedulerConfigs[{place}]") for place, entry in enumerate(entries)]
    period = document.get("shardSyncPeriod")
    try:
        seconds = flags.period if period is None else durations.nanoseconds(str(period)) / 1e9
    except durations.DurationError:
        raise ShardingError(f"{KEY}: shardSyncPeriod: {period} is not a duration such as 60s") from None
    on_events = document.get("enableNodeEventTrigger", flags.on_events) is True
    return Sharding(_distinct(shares, f"{KEY}: schedulerConfigs"), seconds if seconds > 0 else _PERIOD, on_events)


def _read_share(entry: object, where: str) -> SchedulerShare:
    if not isinstance(entry, dict):
        raise ShardingError(f"{where} must have name, type and policies")
    try:
        policies = tuple(
            Policy(str(each.get("name") or ""), float(each.get("weight", 1.0)), dict(each.get("arguments") or {}))
            for each in entry.get("policies") or ()
        ) or _chain(
            float(entry.get("cpuUtilizationMin", 0.0)),
            float(entry.get("cpuUtilizationMax", 1.0)),
            int(entry.get("minNodes", 0)),
            int(entry.get("maxNodes", 0)) if "maxNodes" in entry else None,
            prefer_warm=entry.get("preferWarmupNodes") is True,
        )
    except (TypeError, ValueError, AttributeError, OverflowError):
        raise ShardingError(f"{where}: weights, utilisation and numbers of nodes must be numbers") from None
    return _checked(SchedulerShare(str(entry.get("name") or ""), str(entry.get("type") or ""), policies), where)


def _chain(low: float, high: float, fewest: int, most: int | None, *, prefer_warm: bool) -> tuple[Policy, ...]:
    """Return the policies that are equivalent to the older form of a configuration."""
    limit = {"minNodes": fewest, **({"maxNodes": most} if most is not None else {})}
    warm = (Policy(WARMUP),) if prefer_warm else ()
    return (Policy(RATE, 1.0, {"minCPUUtil": low, "maxCPUUtil": high}), *warm, Policy(LIMIT, 1.0, limit))


def _distinct(shares: Sequence[SchedulerShare], where: str) -> tuple[SchedulerShare, ...]:
    """Return `shares` if their schedulers are distinct, because each scheduler has one NodeShard."""
    names = [share.name for share in shares]
    for name in names:
        if names.count(name) > 1:
            raise ShardingError(f"{where}: scheduler {name} is there twice")
    return tuple(shares)


def _checked(share: SchedulerShare, where: str) -> SchedulerShare:
    if not share.name:
        raise ShardingError(f"{where}: a scheduler must have a name")
    for policy in share.policies:
        given = policy.arguments
        if policy.name not in (RATE, WARMUP, LIMIT):
            raise ShardingError(f"{where}: there is no policy {policy.name}; {RATE}, {WARMUP} and {LIMIT} are known")
        if not 0 <= policy.weight < math.inf:
            raise ShardingError(f"{where}: weight of {policy.name} must not be negative, nor without end")
        if policy.name != LIMIT and {"minNodes", "maxNodes"} & given.keys():
            raise ShardingError(f"{where}: minNodes and maxNodes are arguments of {LIMIT} alone, not of {policy.name}")
        if not _is_range(given.get("minCPUUtil", 0.0), given.get("maxCPUUtil", 1.0), most=1.0):
            raise ShardingError(f"{where}: utilisation must be within 0 and 1, its minimum not above its maximum")
        if not _is_range(given.get("minNodes", 0), given.get("maxNodes", _MOST_NODES), most=_MOST_NODES):
            raise ShardingError(f"{where}: minNodes must not be negative, nor above maxNodes, nor that above {_MOST_NODES}")
    return share


def _is_range(low: object, high: object, *, most: float) -> bool:
    numbers = isinstance(low, int | float) and isinstance(high, int | float)
    return numbers and 0 <= low <= high <= most  # type: ignore[operator]


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
        ranges = [_limits(policy) for policy in share.policies if policy.name == RATE]
        fitting = [node for node in left if all(low <= round(node.rate, 2) <= high for low, high in ranges)]
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
