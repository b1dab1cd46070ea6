"""The data that webhooks use besides the request: other objects, and the options of the service."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pyroclast.api.schedulers import Schedulers
from pyroclast.rules.lookups import NOTHING_KNOWN, FlowKnowledge, FlowLookup, JobOptions, QueueLookup
from pyroclast.rules.queue_access import WaitingLookup
from pyroclast.rules.queues import QueueLimits
from pyroclast.rules.resourcegroups import ResourceGroup


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
    """All objects and options that a webhook may use. `schedulers`: those that are running; None when they are unknown.

    `annotations_of`: the annotations of a namespace, empty when it does not exist. `forbidding`: the name of a quota in a
    namespace that allows no pods of a PriorityClass, empty when there is none.
    """

    queues: QueueLookup
    flows: FlowLookup
    annotations_of: Callable[[str], Mapping[str, Any]]
    options: Options
    time_zones: Container[str] = frozenset()
    flow_knowledge: FlowKnowledge = NOTHING_KNOWN
    priority_classes: Container[str] | None = None
    forbidding: Callable[[str, str], str] | None = None
    resource_groups: tuple[ResourceGroup, ...] = ()
    schedulers: Schedulers | None = None
    waiting: WaitingLookup | None = None
