"""How many pods a Job has, and how many of them its gang needs."""

from __future__ import annotations

from pyroclast.api.records import JobSpec, Task

__all__ = ["min_available", "needed_pods", "total_replicas"]


def needed_pods(task: Task) -> int:
    """How many pods of `task` the gang needs: `minAvailable`, or all of them."""
    return task.replicas if task.min_available is None else task.min_available


def min_available(spec: JobSpec) -> int:
    """The size of the gang; what the tasks need together when the Job does not say (admission fills it in)."""
    return sum(map(needed_pods, spec.tasks)) if spec.min_available is None else spec.min_available


def total_replicas(spec: JobSpec) -> int:
    """How many pods the Job should have."""
    return sum(task.replicas for task in spec.tasks)
