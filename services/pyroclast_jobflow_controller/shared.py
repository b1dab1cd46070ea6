"""Clients, caches, clock and metrics that all controllers of this process use."""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.runtime.controllers import ControllerContext
from pyroclast_jobflow_controller.caches import Caches
from pyroclast_jobflow_controller.metrics import FlowMetrics


@dataclass(frozen=True, slots=True)
class Shared(ControllerContext):
    """The shared objects of the jobflow controller, with its caches and metrics."""

    caches: Caches
    metrics: FlowMetrics
