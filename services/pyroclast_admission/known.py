"""What the webhooks know besides the request: other objects, and how they were set up."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from pyroclast.rules.lookups import FlowLookup, QueueLookup
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
    """How the service was set up."""

    scheduler_names: tuple[str, ...] = ("volcano",)
    queue_limits: QueueLimits = field(default_factory=QueueLimits)
    pod_level_resources: bool = True
    queue_gates: bool = False
    guard_flows: bool = True


class Known(msgspec.Struct, frozen=True):
    """Everything a webhook may look at. `resource_groups` is the current admission configuration."""

    queues: QueueLookup
    flows: FlowLookup
    namespaces: NamespaceLookup
    options: Options
    time_zones: Container[str] = frozenset()
    resource_groups: tuple[ResourceGroup, ...] = ()
