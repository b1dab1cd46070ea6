"""The data that webhooks use besides the request: other objects, and the options of the service."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from pyroclast.api.schedulers import Schedulers
from pyroclast.rules.lookups import NOTHING_KNOWN, FlowKnowledge, FlowLookup, JobOptions, QueueLookup
from pyroclast.rules.queue_access import WaitingLookup
from pyroclast.rules.queues import QueueLimits
from pyroclast.rules.resourcegroups import ResourceGroup


class NamespaceLookup(Protocol):
    """The namespaces of the cluster."""

    def annotations(self, name: str) -> Mapping[str, Any]:
        """Return the annotations of the namespace, empty when the namespace does not exist."""
        ...


class QuotaLookup(Protocol):
    """The ResourceQuotas of the cluster."""

    def forbidding(self, namespace: str, class_name: str) -> str:
        """Return the name of a quota that allows no pods of the PriorityClass; empty when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the service. `namespace` is the namespace of our own programs."""

    scheduler_names: tuple[str, ...] = ("volcano",)
    queue_limits: QueueLimits = field(default_factory=QueueLimits)
    jobs: JobOptions = field(default_factory=JobOptions)
    queue_gates: bool = False
    guard_flows: bool = True
    namespace: str = ""


class Known(msgspec.Struct, frozen=True):
    """All objects and options that a webhook may use. `schedulers`: those that are running; None when they are unknown."""

    queues: QueueLookup
    flows: FlowLookup
    namespaces: NamespaceLookup
    options: Options
    time_zones: Container[str] = frozenset()
    flow_knowledge: FlowKnowledge = NOTHING_KNOWN
    priority_classes: Container[str] | None = None
    quotas: QuotaLookup | None = None
    resource_groups: tuple[ResourceGroup, ...] = ()
    schedulers: Schedulers | None = None
    waiting: WaitingLookup | None = None
