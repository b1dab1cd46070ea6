"""Clients, caches, clock and metrics that all controllers of this process use."""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.kube.lease.scheduler_leases import SchedulerLeases
from pyroclast.runtime.controllers import ControllerContext
from pyroclast_job_controller.caches import Caches
from pyroclast_job_controller.metrics import ControllerMetrics


@dataclass(frozen=True, slots=True)
class Shared(ControllerContext):
    """The shared objects of the job controller, with its caches, metrics and scheduler Leases."""

    caches: Caches
    metrics: ControllerMetrics
    schedulers: SchedulerLeases
