"""The number of pods of a Job, and the number that its gang needs."""

from __future__ import annotations

from pyroclast.api.records import JobSpec, Task


def needed_pods(task: Task) -> int:
    """Return how many pods of `task` the gang needs: `minAvailable`, or all pods when that is not set."""
    return task.replicas if task.min_available is None else task.min_available


def min_available(spec: JobSpec) -> int:
    """Return the size of the gang: `minAvailable` of the Job, or the sum over its tasks when that is not set (admission
    sets it).
    """
    return sum(map(needed_pods, spec.tasks)) if spec.min_available is None else spec.min_available


def total_replicas(spec: JobSpec) -> int:
    """Return the desired number of pods of the Job."""
    return sum(task.replicas for task in spec.tasks)
