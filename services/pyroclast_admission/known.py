"""What the webhooks know besides the request: other objects, and how they were set up."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from pyroclast.api.jobplugins import BUILT_IN
from pyroclast.api.schedulers import Schedulers
from pyroclast.rules.lookups import NOTHING_KNOWN, FlowKnowledge, FlowLookup, QueueLookup
from pyroclast.rules.queues import QueueLimits
from pyroclast.rules.resourcegroups import ResourceGroup

__all__ = ["Known", "NamespaceLookup", "Options"]


class NamespaceLookup(Protocol):
    """The namespaces of the cluster."""

    def annotations(self, name: str) -> Mapping[str, Any]:
        """The annotations of the namespace; none when it is not known."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """How the service was set up. `namespace` is where our own programs run."""

    scheduler_names: tuple[str, ...] = ("volcano",)
    queue_limits: QueueLimits = field(default_factory=QueueLimits)
    pod_level_resources: bool = True
    queue_gates: bool = False
    guard_flows: bool = True
    job_plugins: tuple[str, ...] = tuple(BUILT_IN)
    namespace: str = ""


class Known(msgspec.Struct, frozen=True):
    """Everything a webhook may look at. `resource_groups` is the current admission configuration.

    `schedulers` are those at work; None where that is not known.
    """

    queues: QueueLookup
    flows: FlowLookup
    namespaces: NamespaceLookup
    options: Options
    time_zones: Container[str] = frozenset()
    flow_knowledge: FlowKnowledge = NOTHING_KNOWN
    priority_classes: Container[str] | None = None
    resource_groups: tuple[ResourceGroup, ...] = ()
    schedulers: Schedulers | None = None
