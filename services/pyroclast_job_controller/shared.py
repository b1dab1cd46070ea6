"""What all controllers of this process have in common."""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.kube.lease.scheduler_leases import SchedulerLeases
from pyroclast.runtime.controllers import ControllerContext
from pyroclast_job_controller.caches import Caches
from pyroclast_job_controller.metrics import ControllerMetrics

__all__ = ["Shared"]


@dataclass(frozen=True, slots=True)
class Shared(ControllerContext):
    """With what they watch."""

    caches: Caches
    metrics: ControllerMetrics
    schedulers: SchedulerLeases
