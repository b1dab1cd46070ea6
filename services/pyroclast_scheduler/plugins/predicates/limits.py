"""How many volumes of each driver nodes take, and how many they have. CSI only: other kinds of volumes are drivers by now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

import numpy as np

from pyroclast.api import records
from pyroclast_scheduler.model.claims import volume_claims
from pyroclast_scheduler.model.reasons import Refusal
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Move

__all__ = ["VolumeLimits"]

_FULL = "node(s) exceed max volume count"
_Volume = tuple[str, str]  # driver, and what it calls the volume


class VolumeLimits:
    """Volumes on nodes, each counted once however many pods of the node use it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._claims = session.objects(records.PersistentVolumeClaim)
        self._volumes = session.objects(records.PersistentVolume)
        self._classes = session.objects(records.StorageClass)
        self._attached: dict[int, Counter[_Volume]] | None = None

    @cached_property
    def _limits(self) -> dict[int, dict[str, int]]:
        found: dict[int, dict[str, int]] = {}
        for node in self._session.objects(records.CsiNode).values():
            row = self._session.snapshot.rows.get(node.metadata.name)
            counts = {driver.name: (driver.allocatable or {}).get("count") for driver in node.spec.drivers}
            limits = {driver: count for driver, count in counts.items() if isinstance(count, int)}
            if row is not None and limits:
                found[row] = limits
        return found

    def refusal(self, task: TaskFacts) -> Refusal | None:
        """Nodes that cannot take the pod's volumes too; None if none limits them."""
        wanted = self._of(task)
        if not wanted or not self._limits:
            return None
        full = np.zeros(len(self._session.names), dtype=np.bool_)
        attached = self._counted()
        for row, limits in self._limits.items():
            there = {volume for volume, count in attached[row].items() if count > 0}
            coming = wanted - there
            for driver, limit in limits.items():
                more = _of_driver(coming, driver)
                full[row] |= more > 0 and _of_driver(there, driver) + more > limit
        return Refusal(full, _FULL)

    def moved(self, move: Move, sign: int) -> None:
        """Keep the counts in step."""
        if not move.plan.shape.has_claims or not self._limits:
            return
        attached = self._counted()
        change = -sign if move.status is TaskStatus.RELEASING else sign
        for task, row in zip(move.tasks, move.rows.tolist(), strict=True):
            if row in attached:
                for volume in self._of(task.facts):
                    attached[row][volume] += change

    def _counted(self) -> dict[int, Counter[_Volume]]:
        if self._attached is None:
            self._attached = {row: Counter() for row in self._limits}
            for row, counts in self._attached.items():
                for resident in self._session.snapshot.residents[row]:
                    if resident.shape.has_claims:
                        counts.update(self._of(resident))
        return self._attached

    def _of(self, task: TaskFacts) -> set[_Volume]:
        """The pod's volumes; one that is still to be made goes by the name of its claim."""
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


def _of_driver(volumes: Iterable[_Volume], driver: str) -> int:
    return sum(name == driver for name, _ in volumes)
