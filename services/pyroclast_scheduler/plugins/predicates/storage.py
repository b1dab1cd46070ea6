"""The claims, volumes, storage classes and CSI drivers of a session, and the volume limits of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np

from pyroclast.api import records
from pyroclast.resources import quantity
from pyroclast.resources.quantity import ZERO, Quantity, QuantityError
from pyroclast.resources.selectors import is_empty, matches
from pyroclast_scheduler.model.claims import volume_claims
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.fit_errors import Refusal
from pyroclast_scheduler.model.node_columns import Bools, Rows
from pyroclast_scheduler.model.tasks import TaskFacts, TaskStatus
from pyroclast_scheduler.model.triggers import ObjectChange, Trigger
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move

_FULL: Final = "node(s) exceed max volume count"
_ENDLESS: Final = np.iinfo(np.int64).max
_Volume = tuple[str, str]  # driver and volume handle
_Sized = list[tuple[Quantity, records.PersistentVolume]]
NODE_SELECTED: Final = "volume.kubernetes.io/selected-node"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_ZONES: Final = (
    ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
)
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class VolumeLimits:
    """The volumes on nodes with limits. A volume counts once per node, however many pods of the node use it."""

    def __init__(self, session: PluginSession) -> None:
        self._session = session
        self._claims = session.told_objects(records.PersistentVolumeClaim)
        self._volumes = session.told_objects(records.PersistentVolume)
        self._classes = session.told_objects(records.StorageClass)
        self._counts: dict[str, Ints] = {}  # by driver, the volumes on each node
        self._users: dict[_Volume, Counter[int]] | None = None  # the number of pods on each node that use a volume

    @cached_property
    def _limits(self) -> dict[str, Ints]:
        """The number of volumes that each node accepts, by driver."""
        found: dict[str, Ints] = {}
        for node in self._session.objects(records.CsiNode).values():
            row = self._session.snapshot.rows.get(node.metadata.name)
            for driver in node.spec.drivers if row is not None else ():
                count = (driver.allocatable or {}).get("count")
                if isinstance(count, int):
                    found.setdefault(driver.name, self._column(_ENDLESS))[row] = count
        return found

    def refusal(self, task: TaskFacts) -> Refusal | None:
        """Return which nodes cannot attach the volumes of the pod; None if no limit applies."""
        wanted = self._of(task)
        if not wanted or not self._limits:
            return None
        users = self._counted()
        full = np.zeros(len(self._session.names), dtype=np.bool_)
        for driver in {name for name, _ in wanted} & self._limits.keys():
            more = self._column(0)
            for volume in (each for each in wanted if each[0] == driver):
                more += 1
                more[list(users.get(volume, ()))] -= 1
            full |= (more > 0) & (self._counts.get(driver, 0) + more > self._limits[driver])
        return Refusal(full, _FULL)

    def retry_when(self, task: TaskFacts) -> set[Trigger]:
        """Return the triggers, besides room, after which nodes may accept the volumes of a pod.

        The triggers are changes of volumes, since the volumes of pods on the nodes may turn out to differ.
        """
        found = self.refusal(task)
        if found is None or not found.nodes.any():
            return set()
        return {
            ObjectChange(records.PersistentVolumeClaim),
            ObjectChange(records.PersistentVolume),
            ObjectChange(records.StorageClass),
        }

    def moved(self, move: Move, sign: int) -> None:
        """Update the counts of volumes after a placement or an eviction."""
        if not move.plan.shape.has_claims or not self._limits:
            return
        users = self._counted()
        change = -sign if move.status is TaskStatus.RELEASING else sign
        for task, row in zip(move.tasks, move.rows.tolist(), strict=True):
            self._count(users, task.facts, row, change)

    def _counted(self) -> dict[_Volume, Counter[int]]:
        if self._users is None:
            self._users = {}
            for row in np.flatnonzero(np.minimum.reduce([*self._limits.values()]) < _ENDLESS).tolist():
                for resident in self._session.snapshot.residents[row]:
                    if resident.shape.has_claims:
                        self._count(self._users, resident, row, 1)
        return self._users

    def _count(self, users: dict[_Volume, Counter[int]], task: TaskFacts, row: int, change: int) -> None:
        for volume in self._of(task):
            of_volume = users.setdefault(volume, Counter())
            before = of_volume[row] > 0
            of_volume[row] += change
            is_there = of_volume[row] > 0
            if not is_there:
                del of_volume[row]
            if is_there != before:
                self._counts.setdefault(volume[0], self._column(0))[row] += 1 if is_there else -1

    def _column(self, value: int) -> Ints:
        return np.full(len(self._session.names), value, dtype=np.int64)

    def _of(self, task: TaskFacts) -> set[_Volume]:
        """Return the pod's volumes. A volume that does not exist yet is named after its claim."""
        found: set[_Volume] = set()
        for each in volume_claims(task.pod):
            claim = self._claims.get(each.key)
            if claim is None:
                continue
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is not None:
                if volume.spec.csi is not None:
                    found.add((volume.spec.csi.driver, volume.spec.csi.volume_handle))
                continue
            chosen = self._classes.get(claim.spec.storage_class_name or "")
            if chosen is not None and chosen.provisioner:
                found.add((chosen.provisioner, f"{chosen.provisioner}-{each.key}"))
        return found


def size_of(resources: Mapping[str, str | int] | None) -> Quantity | None:
    """Return the quantity of the resource `storage`; 0 if it is missing, None if it is malformed."""
    text = (resources or {}).get("storage")
    try:
        return ZERO if text is None else quantity.parse(text)
    except QuantityError:
        return None


def is_bound(claim: records.PersistentVolumeClaim) -> bool:
    """Whether claim and volume are bound to each other completely."""
    return bool(claim.spec.volume_name) and _COMPLETED in claim.metadata.annotations


def is_delayed(claim: records.PersistentVolumeClaim, chosen: records.StorageClass | None) -> bool:
    """Whether the claim gets its volume only after its pod has a node."""
    return not claim.spec.volume_name and chosen is not None and chosen.volume_binding_mode == "WaitForFirstConsumer"


class Storage:
    """The volumes, StorageClasses and free storage of a session. Each result is calculated only once."""

    def __init__(self, session: PluginSession) -> None:
        self._features: NodeFeatures = session.features
        self._nodes = session.snapshot.nodes
        self.claims = session.told_objects(records.PersistentVolumeClaim)
        self.volumes = session.told_objects(records.PersistentVolume)
        self._classes = session.told_objects(records.StorageClass)
        self._drivers = session.told_objects(records.CsiDriver)
        self._csi_nodes = session.told_objects(records.CsiNode)
        self._capacities = session.told_objects(records.CsiStorageCapacity)
        self._rows: dict[bytes, Rows] = {}
        self._by_value: dict[str, dict[str | None, Rows]] = {}

    @property
    def node_count(self) -> int:
        """The number of rows in the table of nodes, and so the length of each mask of nodes."""
        return len(self._nodes)

    def class_of(self, claim: records.PersistentVolumeClaim) -> records.StorageClass | None:
        """Return the storage class of `claim`; None if it has none."""
        return self._classes.get(_class_name(claim))

    def reach(self, volume: records.PersistentVolume) -> Rows | None:
        """Return a mask of the nodes that can use `volume`; None if all nodes can use it."""
        required = (volume.spec.node_affinity or {}).get("required")
        return None if required is None else self._matching(required.get("nodeSelectorTerms") or ())

    def mask(self, rows: Rows | None) -> Bools:
        """Return a mask of the nodes whose rows are `rows`."""
        if rows is None:
            return np.ones(self.node_count, dtype=np.bool_)
        mask = np.zeros(self.node_count, dtype=np.bool_)
        mask[rows] = True
        return mask

    def candidates(self, claim: records.PersistentVolumeClaim) -> list[records.PersistentVolume]:
        """Return the volumes that `claim` could use, smallest first; only the reserved one if that is large enough."""
        by_class, reserved = self._sorted
        size = size_of((claim.spec.resources or {}).get("requests"))
        if size is None:
            return []
        for room, volume in reserved.get((claim.metadata.namespace, claim.metadata.name), ()):
            if _may_keep(volume, claim) and room >= size:
                return [volume]
        return [
            volume
            for room, volume in by_class.get(_class_name(claim), ())
            if room >= size
            and volume.spec.volume_mode == claim.spec.volume_mode
            and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
            and (is_empty(claim.spec.selector) or matches(claim.spec.selector, volume.metadata.labels))
        ]

    def provisionable(self, claim: records.PersistentVolumeClaim) -> Bools | None:
        """Return the nodes for which the claim's class can provision a volume; None if it provisions none."""
        chosen = self.class_of(claim)
        if chosen is None or not chosen.provisioner or chosen.provisioner == NO_PROVISIONER:
            return None
        if not chosen.allowed_topologies:
            return self.mask(None)
        terms = [
            [_within(each.get("key", ""), each.get("values") or ()) for each in term.get("matchLabelExpressions") or ()]
            for term in chosen.allowed_topologies
        ]
        return self._features.matching([{"matchExpressions": term} for term in terms])

    def unknown_provisioner(self, claim: records.PersistentVolumeClaim) -> str:
        """Return the provisioner of the claim's class if nothing in the cluster shows that it works; empty otherwise.

        A CSIDriver, a node with the driver, or a volume of the provisioner shows it. Provisioners in the tree need none of these.
        """
        chosen = self.class_of(claim)
        name = "" if chosen is None else chosen.provisioner
        return "" if name.startswith("kubernetes.io/") or name in self._working else name

    @cached_property
    def _working(self) -> frozenset[str]:
        volumes = self.volumes.values()
        return frozenset(
            {
                *(each.metadata.name for each in self._drivers.values()),
                *(driver.name for node in self._csi_nodes.values() for driver in node.spec.drivers),
                *(each.spec.csi.driver for each in volumes if each.spec.csi is not None),
                *(each.metadata.annotations.get(_PROVISIONED_BY, "") for each in volumes),
            }
        )

    def roomy(self, claim: records.PersistentVolumeClaim) -> Bools:
        """Return the nodes with room for a new volume by the driver's reports; all nodes if the driver reports none."""
        chosen = self.class_of(claim)
        driver = self._drivers.get(chosen.provisioner) if chosen is not None else None
        if driver is None or not driver.spec.storage_capacity:
            return self.mask(None)
        size = size_of((claim.spec.resources or {}).get("requests"))
        found = self.mask(np.zeros(0, dtype=np.intp))
        for capacity in self._capacities.values():
            if capacity.storage_class_name == _class_name(claim) and capacity.node_topology is not None:
                limit = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
                room = None if limit is None else size_of({"storage": limit})
                if room is not None and size is not None and room >= size:
                    found |= self._selected(capacity.node_topology)
        return found

    def elsewhere(self, volume: records.PersistentVolume) -> Bools | None:
        """Return the nodes in other zones or regions than `volume`; None if the volume has no such labels."""
        refused: Bools | None = None
        has_any = np.logical_or.reduce([self._features.domains(name).has for names in _ZONES for name in names])
        for name, other in (pair for names in _ZONES for pair in (names, names[::-1])):
            values = volume.metadata.labels.get(name)
            if values is None:
                continue
            wanted = frozenset(values.split("__"))
            own, beside = self._features.label(name), self._features.label(other)
            fits = own.where(wanted.__contains__)
            fits |= own.where(lambda value: value is None) & beside.where(wanted.__contains__)
            refused = ~fits & has_any if refused is None else refused | (~fits & has_any)
        return refused

    @cached_property
    def _sorted(self) -> tuple[dict[str, _Sized], dict[tuple[str, str], _Sized]]:
        """The free volumes by class, and those that are reserved for a claim by its namespace and name, smallest first."""
        by_class: dict[str, _Sized] = {}
        reserved: dict[tuple[str, str], _Sized] = {}
        sized = ((size_of(volume.spec.capacity), volume) for volume in self.volumes.values())
        usable = [(room, volume) for room, volume in sized if room is not None and not volume.metadata.is_terminating]
        for room, volume in sorted(usable, key=lambda pair: (pair[0].nanos, pair[1].metadata.name)):
            reference, phase = volume.spec.claim_ref, volume.status.phase
            if reference is not None:
                if phase in {"Available", "Pending", "Bound", ""}:
                    reserved.setdefault((reference.namespace, reference.name), []).append((room, volume))
            elif phase == "Available":
                by_class.setdefault(volume.spec.storage_class_name, []).append((room, volume))
        return by_class, reserved

    def _matching(self, terms: Sequence[Mapping[str, Any]]) -> Rows:
        """Return the nodes that match one of the terms, with a faster lookup for a single label."""
        key = _ENCODER.encode(terms)
        rows = self._rows.get(key)
        if rows is None:
            single = _single(terms)
            if single is not None:
                label, values = single
                known = self._values_of(label)
                found = [known[value] for value in values if value in known]
                rows = np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.intp)
            else:
                rows = np.flatnonzero(self._features.matching(terms))
            self._rows[key] = rows
        return rows

    def _values_of(self, label: str) -> Mapping[str | None, Rows]:
        found = self._by_value.get(label)
        if found is None:
            column = self._features.label(label)
            order: Rows = np.argsort(column.codes, kind="stable")
            starts: Rows = np.searchsorted(column.codes[order], np.arange(len(column.values) + 1))
            found = self._by_value[label] = {
                value: order[starts[code] : starts[code + 1]] for code, value in enumerate(column.values) if value is not None
            }
        return found

    def _selected(self, selector: Mapping[str, Any]) -> Bools:
        expressions = [_within(key, [value]) for key, value in (selector.get("matchLabels") or {}).items()]
        expressions += selector.get("matchExpressions") or ()
        return self._features.matching([{"matchExpressions": expressions}]) if expressions else self.mask(None)


def _within(label: str, values: Sequence[str]) -> Mapping[str, Any]:
    return {"key": label, "operator": "In", "values": values}


def _single(terms: Sequence[Mapping[str, Any]]) -> tuple[str, Sequence[str]] | None:
    """Return label and values of a single term that only requires `label in values`; None for other terms."""
    term = next(iter(terms), None)
    expressions = [] if term is None else list(term.get("matchExpressions") or ())
    if term is None or len(terms) > 1 or term.get("matchFields") or len(expressions) != 1:
        return None
    (expression,) = expressions
    if expression.get("operator") != "In":
        return None
    return expression.get("key", ""), [str(each) for each in expression.get("values") or ()]


def _may_keep(volume: records.PersistentVolume, claim: records.PersistentVolumeClaim) -> bool:
    """Whether a volume whose claimRef names `claim` is reserved for this claim and has its class and mode."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and reference.uid in {"", claim.metadata.uid}
        and volume.spec.storage_class_name == _class_name(claim)
        and volume.spec.volume_mode == claim.spec.volume_mode
    )


def _class_name(claim: records.PersistentVolumeClaim) -> str:
    return claim.metadata.annotations.get(_BETA_CLASS) or claim.spec.storage_class_name or ""
