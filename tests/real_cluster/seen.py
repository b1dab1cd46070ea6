"""What tests ask a real cluster: waits, and the states of Jobs and pods."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.real_cluster.cluster import Access

__all__ = ["ROOT", "gang", "phase_of", "pods_of", "wait_for", "wait_for_phase"]

ROOT = Path(__file__).parents[2]


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
    """Ask `condition` every 0.5 s until it holds, and return its answer.

    Raises:
        TimeoutError: it does not hold after `seconds`.
    """
    end = time.monotonic() + seconds
    while True:
        if answer := condition():
            return answer
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.5)


def phase_of(cluster: Access, name: str) -> str:
    """The phase of a Job."""
    return cluster.kubectl("get", "vcjob", name, "--output=jsonpath={.status.state.phase}")


def wait_for_phase(cluster: Access, name: str, phase: str, seconds: float = 90.0) -> None:
    """Wait until a Job is in `phase`."""

    def reached() -> bool:
        return phase_of(cluster, name) == phase

    try:
        wait_for(reached, "", seconds)
    except TimeoutError:
        told = cluster.kubectl("describe", "vcjob,podgroup,pods", check=False)[-6000:]
        raise TimeoutError(f"Job {name} is not {phase} after {seconds:.0f} s: {phase_of(cluster, name)}\n{told}") from None


def pods_of(cluster: Access, job: str) -> list[dict[str, Any]]:
    """The pods of a Job."""
    return cluster.get("pods", f"--selector=volcano.sh/job-name={job}")


def gang(name: str, *, pods: int, cpu: str, command: str, **spec: Any) -> dict[str, Any]:
    """A Job of equal pods that start together."""
    container = {
        "name": "c",
        "image": "busybox:1.37",
        "command": ["sh", "-c", command],
        "resources": {"requests": {"cpu": cpu, "memory": "32Mi"}},
    }
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    task = {"name": "worker", "replicas": pods, "template": {"spec": pod}}
    body = {"minAvailable": pods, "schedulerName": "volcano", "queue": "default", "tasks": [task], **spec}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": body,
    }
