"""What the controllers of this process have in common."""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.runtime.controllers import ControllerContext
from pyroclast_jobflow_controller.caches import Caches
from pyroclast_jobflow_controller.metrics import FlowMetrics

__all__ = ["Shared"]


@dataclass(frozen=True, slots=True)
class Shared(ControllerContext):
    """With what they watch."""

    caches: Caches
    metrics: FlowMetrics
