"""Default topology spread for pods without constraints: over nodes and zones, among pods of the same service or workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.api import records
from pyroclast.resources.selectors import is_empty, matches
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.session.session import Session

_CONSTRAINTS: Final = (("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5))


class DefaultSpread:
    """The selectors of services and workloads in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sets: Mapping[str, Mapping[str, records.ReplicaSet | records.StatefulSet]] = {
            "ReplicaSet": session.objects(records.ReplicaSet),
            "StatefulSet": session.objects(records.StatefulSet),
        }

    def constraints(self, task: TaskFacts) -> Sequence[Mapping[str, Any]]:
        """Return the default soft constraints of a pod; empty if it belongs to no service or workload."""
        meta = task.pod.metadata
        labels: dict[str, str] = {}
        for service in self._session.objects_in(records.Service, task.namespace):
            selector = service.spec.selector
            if selector and matches({"matchLabels": selector}, meta.labels):
                labels |= selector
        expressions: list[Mapping[str, Any]] = []
        owner = meta.controller
        workload = self._sets.get(owner.kind, {}).get(f"{task.namespace}/{owner.name}") if owner is not None else None
        if workload is not None and workload.metadata.uid == (owner.uid if owner is not None else ""):
            own = workload.spec.selector or {}
            labels |= own.get("matchLabels") or {}
            expressions = list(own.get("matchExpressions") or ())
        found = {"matchLabels": labels, "matchExpressions": expressions}
        if is_empty(found):
            return ()
        return [
            {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": found}
            for key, skew in _CONSTRAINTS
        ]
