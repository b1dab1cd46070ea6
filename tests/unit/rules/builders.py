"""Objects for the tests of rules, with defaults that are in order."""

from __future__ import annotations

from typing import Any

from pyroclast.rules.lookups import QueueView
from tests.bench.admission_server import FixedQueues

QUEUES = FixedQueues(
    QueueView("root", state="Open"),
    QueueView("default", "root", "Open"),
    QueueView("closed", "root", "Closed"),
    QueueView("fresh", "root", ""),
    QueueView("parent", "root", "Open"),
    QueueView("leaf", "parent", "Open"),
    QueueView("small", "root", "Open", capability={"cpu": "1"}),
)


def template(**container: Any) -> dict[str, Any]:
    """A pod template with one container."""
    return {"spec": {"containers": [{"name": "main", "image": "busybox", **container}]}}


def task(name: str = "task-1", replicas: int = 1, **more: Any) -> dict[str, Any]:
    """A task of a Job."""
    return {"name": name, "replicas": replicas, "template": template(), **more}


def job(*tasks: dict[str, Any], name: str = "job-1", **spec: Any) -> dict[str, Any]:
    """A Job; without tasks it has one of one pod."""
    tasks = tasks or (task(),)
    return {
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"minAvailable": 1, "queue": "default", "schedulerName": "volcano", "tasks": list(tasks), **spec},
    }
