"""Reports faults of objects: once as an Event on the object, and as a metric by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

import structlog

from pyroclast.api.types import NODES, POD_GROUPS, PODS, QUEUES
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast_scheduler.model.faults import Fault
from pyroclast_scheduler.shell.metrics import SchedulerMetrics

log = structlog.get_logger()

_LEFT_OUT: Final = "LeftOut"
_ALWAYS: Final = frozenset(kind.kind for kind in (NODES, PODS, POD_GROUPS, QUEUES))  # exported even if the number is 0


class FaultReports:
    """Reports each fault of an invalid object once, for as long as the object stays invalid."""

    def __init__(self, recorder: EventRecorder, metrics: SchedulerMetrics) -> None:
        self._recorder = recorder
        self._metrics = metrics
        self._reported: frozenset[Fault] = frozenset()
        self._kinds = _ALWAYS

    def take(self, faults: frozenset[Fault], *, told: Collection[str] = ()) -> None:
        """Report `faults`, which are all present faults.

        `told`: keys of groups whose fault is reported as their cause of waiting.
        """
        for fault in faults - self._reported:
            log.warning("object.invalid", kind=fault.kind.kind, namespace=fault.namespace, name=fault.name, reason=fault.reason)
            if fault.group in told and fault.event == _LEFT_OUT:
                continue
            reference = Reference(fault.kind.api_version, fault.kind.kind, fault.namespace, fault.name, fault.uid)
            self._recorder.event(reference, "Warning", fault.event, fault.reason)
        self._reported = faults
        counts = Counter(kind for kind, _, _ in {(fault.kind.kind, fault.namespace, fault.name) for fault in faults})
        self._kinds |= counts.keys()
        for kind in self._kinds:
            self._metrics.problems.labels(kind).set(counts[kind])
