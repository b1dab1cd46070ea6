"""The extensions of predicates: filters by node, volumes, devices, and other pods (inter-pod affinity and topology spread)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from pyroclast.api import records
from pyroclast.api.types import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
)
from pyroclast_scheduler.model.fit_errors import Code, DomainLimit, Refusal
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.model.pod_columns import named_values
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.model.triggers import AnyChange, Labelled, Neighbours, ObjectChange, Trigger
from pyroclast_scheduler.placement import affinity
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.plugins.predicates.devices import Devices
from pyroclast_scheduler.plugins.predicates.nodes import NodeFilter
from pyroclast_scheduler.plugins.predicates.storage import VolumeLimits
from pyroclast_scheduler.plugins.predicates.volumes import Volumes
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.outcome import Preparation
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move

_SWITCHES: Final = {
    "predicate.NodeAffinityEnable": "NodeAffinity",
    "predicate.NodePortsEnable": "NodePorts",
    "predicate.TaintTolerationEnable": "TaintToleration",
    "predicate.PodAffinityEnable": "InterPodAffinity",
    "predicate.NodeVolumeLimitsEnable": "NodeVolumeLimits",
    "predicate.VolumeZoneEnable": "VolumeZone",
    "predicate.PodTopologySpreadEnable": "PodTopologySpread",
    "predicate.VolumeBindingEnable": "VolumeBinding",
}
FILTERS: Final = ("NodeUnschedulable", *_SWITCHES.values())
_WITHOUT_EFFECT: Final = {
    "predicate.CacheEnable": "filters are worked out once per shape of pod anyway",
    "predicate.DynamicResourceAllocationEnable": "claims on devices are always heeded",
    "volumebinding.weight": "free storage is not scored",
    "volumebinding.shape": "free storage is not scored",
    "dynamicresources.filterTimeoutSeconds": "the search for devices is bounded by steps, not by time",
}
_ZONE: Final = "node(s) had no available volume zone"


def coupled(session: PluginSession, task: Task, filters: Collection[str]) -> list[Refusal] | None:
    """Return the refusals that depend on other pods; None if no filter applies."""
    facts, census, features = task.facts, session.term_counts, session.features
    found: list[Refusal] = []
    has_affinity = "InterPodAffinity" in filters and affinity.is_concerned(facts, census)
    if has_affinity:
        far = affinity.misses_required_affinity(facts, census, features)
        if far is not None:
            why = "node(s) didn't match pod affinity rules"
            found.append(Refusal(far[0], why, Code.UNRESOLVABLE, is_steady=far[1]))
        foes = affinity.violates_anti_affinity(facts, census, features)
        if foes is not None:
            found += _limited(foes[0], "node(s) didn't match pod anti-affinity rules", foes[1])
        minding = affinity.violates_anti_affinity_of_residents(facts, census, features)
        if minding is not None:
            found.append(Refusal(minding, "node(s) didn't satisfy existing pods anti-affinity rules", is_steady=True))
    crowding = affinity.too_crowded(facts, census, features, session.nodes.usable) if "PodTopologySpread" in filters else None
    if crowding is not None:
        reason = "node(s) didn't match pod topology spread constraints"
        found.append(Refusal(crowding[0], f"{reason} (missing required label)", Code.UNRESOLVABLE, is_steady=True))
        found += _limited(crowding[1], reason, crowding[2])
    return found if has_affinity or crowding is not None else None


def coupled_to(session: PluginSession, task: Task, filters: Collection[str]) -> set[Trigger] | None:
    """Return the triggers by pods that the task's terms select or whose terms select the task; None if no filter applies."""
    if coupled(session, task, filters) is None:
        return None
    shape, found = task.facts.shape, set[Trigger]({Neighbours()})
    own = (*shape.required("podAffinity"), *shape.required("podAntiAffinity"), *shape.spread)
    for term in session.term_counts.terms(task.facts, own):
        named = named_values(term.selector)
        if not named:
            return {AnyChange()}  # the selector matches pods with any labels
        key, values = named[0]
        found |= {Labelled(key, value) for value in values}
    return found


def _limited(nodes: Bools, reason: str, limits: Sequence[DomainLimit]) -> list[Refusal]:
    """Return one refusal per limit. The first one refuses the nodes, and the others only have a limit."""
    first, others = (limits[0], limits[1:]) if limits else (None, ())
    nothing = np.zeros_like(nodes)
    return [
        Refusal(nodes, reason, is_steady=True, limit=first),
        *(Refusal(nothing, reason, is_steady=True, limit=each) for each in others),
    ]


class Predicates:
    """Arguments: `predicate.<Name>Enable` (true) switches a filter off.

    `volumebinding.bindTimeoutSeconds` (600): how long a pod may wait for its volumes after it got a node.
    """

    watches = (
        Watch(PERSISTENT_VOLUME_CLAIMS, records.PersistentVolumeClaim),
        Watch(PERSISTENT_VOLUMES, records.PersistentVolume),
        Watch(STORAGE_CLASSES, records.StorageClass),
        Watch(NAMESPACES, records.Namespace),
        Watch(RESOURCE_CLAIMS, records.ResourceClaim, is_optional=True),
        Watch(RESOURCE_SLICES, records.ResourceSlice, is_optional=True),
        Watch(DEVICE_CLASSES, records.DeviceClass, is_optional=True),
        Watch(DEVICE_TAINT_RULES, records.DeviceTaintRule, is_optional=True),
        Watch(CSI_NODES, records.CsiNode, is_of_node=True),
        Watch(CSI_DRIVERS, records.CsiDriver),
        Watch(CSI_STORAGE_CAPACITIES, records.CsiStorageCapacity),
    )

    def __init__(self, arguments: Arguments) -> None:
        off = {name for key, name in _SWITCHES.items() if not arguments.boolean(key, default=True)}
        self.filters = tuple(name for name in FILTERS if name not in off)
        self._patience = arguments.integer("volumebinding.bindTimeoutSeconds", 600)
        if self._patience <= 0:
            arguments.warnings.append(f"argument volumebinding.bindTimeoutSeconds: {self._patience} is not positive; using 600")
            self._patience = 600
        for key, why in _WITHOUT_EFFECT.items():
            arguments.known.add(key)
            if key in arguments:
                arguments.warnings.append(f"argument {key} has no effect: {why}")

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        nodes = NodeFilter(session, frozenset(self.filters))
        others = _PodFilters(session, frozenset(self.filters), float(self._patience))

        def moved(move: Move, sign: int) -> None:
            nodes.moved(move, sign)
            others.moved(move, sign)

        return Extensions(
            predicate=nodes,
            moved=moved,
            pre_predicate=others.absent,
            coupled_predicate=others.refusals,
            retry_when=others.retry_when,
            pre_bind=others.pre_bind,
        )


class _PodFilters:
    """The filters that examine each pod: inter-pod affinity, topology spread, volumes and device claims."""

    def __init__(self, session: PluginSession, filters: frozenset[str], patience: float) -> None:
        self._session = session
        self._filters = filters
        self._is_coupled = session.snapshot.is_coupled and bool({"InterPodAffinity", "PodTopologySpread"} & filters)
        self._volumes = Volumes(session, patience=patience)
        self._limits = VolumeLimits(session)
        self._devices = Devices(session)

    def absent(self, task: Task, plan: PlacementPlan) -> str | None:
        if not plan.shape.has_claims:
            return self._devices.unserved(plan.shape)
        why = self._volumes.absent(task.facts) if "VolumeBinding" in self._filters else None
        why = why or self._devices.unserved(plan.shape)
        return why or (self._devices.absent(task.facts) if task.facts.pod.spec.resource_claims else None)

    def refusals(self, task: Task, plan: PlacementPlan) -> list[Refusal] | None:
        found = coupled(self._session, task, self._filters) if self._is_coupled else None
        if not plan.shape.has_claims:
            return found
        refusals = found or []
        facts = task.facts
        limit = self._limits.refusal(facts) if "NodeVolumeLimits" in self._filters else None
        if limit is not None:
            refusals.append(limit)
        elsewhere = self._volumes.elsewhere(facts) if "VolumeZone" in self._filters else None
        if elsewhere is not None:
            refusals.append(Refusal(elsewhere, _ZONE, Code.UNRESOLVABLE))
        if "VolumeBinding" in self._filters:
            in_use = self._volumes.in_use(facts)
            refusals += [] if in_use is None else [in_use]
            refusals += self._volumes.refusals(facts)
        if facts.pod.spec.resource_claims:
            refusals += self._devices.lacking(facts, plan.mask)
        return refusals

    def retry_when(self, task: Task, plan: PlacementPlan) -> Collection[Trigger] | None:
        """Return the triggers after which other nodes may be feasible for the pod, by its claims and by other pods."""
        found = coupled_to(self._session, task, self._filters) if self._is_coupled else None
        if self._devices.unserved(plan.shape) is not None:
            found = (found or set()) | {ObjectChange(records.DeviceClass)}
        if not plan.shape.has_claims:
            return found
        by_claims = self._devices.retry_when(task.facts)
        if "NodeVolumeLimits" in self._filters:
            by_claims |= self._limits.retry_when(task.facts)
        if "VolumeBinding" in self._filters or "VolumeZone" in self._filters:
            by_claims |= self._volumes.retry_when(task.facts)
        return by_claims | (found or set())

    def moved(self, move: Move, sign: int) -> None:
        if move.plan.shape.has_claims:
            self._limits.moved(move, sign)
            self._devices.moved(move, sign)
            if "VolumeBinding" in self._filters:
                self._volumes.moved(move, sign)

    def pre_bind(self, task: Task, row: int) -> Preparation | None:
        if not task.facts.shape.has_claims:
            return None
        volumes = self._volumes.pre_bind(task, row) if "VolumeBinding" in self._filters else None
        devices = self._devices.pre_bind(task)
        if volumes is None or devices is None:
            return volumes or devices
        return Preparation(writes=(*devices.writes, *volumes.writes), awaits=volumes.awaits)
