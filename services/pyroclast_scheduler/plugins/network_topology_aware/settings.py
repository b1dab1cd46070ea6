"""The arguments of network-topology-aware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyroclast_scheduler.session.arguments import Arguments

_PREFIX = "hypernode.binpack"


@dataclass(frozen=True, slots=True)
class TopologySettings:
    """The arguments of the plugin.

    Attributes:
        weight: the weight of all scores.
        resources: the weights of resources by name, including cpu and memory.
        scores_normal_pods: whether pods without a topology get scores.
        fading: the weight of a tier relative to that of the tier below it.
        most_evict_hyper_nodes: how many hypernodes are examined for evictions.
    """

    weight: int = 1
    resources: Mapping[str, int] = field(default_factory=lambda: {"cpu": 1, "memory": 1})
    scores_normal_pods: bool = True
    fading: float = 0.8
    most_evict_hyper_nodes: int = 8

    @classmethod
    def of(cls, arguments: Arguments) -> TopologySettings:
        """Return the settings that the arguments of the plugin define."""
        listed = filter(None, map(str.strip, arguments.text(f"{_PREFIX}.resources", "").split(",")))
        weights = {name: arguments.integer(f"{_PREFIX}.resources.{name}", 1, least=0) for name in listed}
        weights["cpu"] = arguments.integer(f"{_PREFIX}.cpu", 1, least=0)
        weights["memory"] = arguments.integer(f"{_PREFIX}.memory", 1, least=0)
        return cls(
            arguments.integer("weight", 1, least=0),
            weights,
            arguments.boolean(f"{_PREFIX}.normal-pod.enable", default=True),
            arguments.number(f"{_PREFIX}.normal-pod.fading", 0.8, least=0),
            arguments.integer("hypernode.gradient.evict.max-hypernodes", 8, least=1),
        )
