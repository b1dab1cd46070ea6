"""Volume limits: how many volumes of each CSI driver a node accepts and has. Other types of volumes are CSI drivers by now."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Final

import numpy as np

from pyroclast.api import records
from pyroclast_scheduler.model.claims import volume_claims
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.fit_errors import Refusal
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.model.triggers import ObjectChange, Trigger
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Move

_FULL: Final = "node(s) exceed max volume count"
_ENDLESS: Final = np.iinfo(np.int64).max
_Volume = tuple[str, str]  # driver and volume handle


class VolumeLimits:
    """The volumes on nodes with limits. A volume counts once per node, however many pods of the node use it."""

    def __init__(self, session: Session) -> None:
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
