"""A cluster under contention, for which reservation is switched on and off, and what it says of its reservations."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.support import configuration
from tests.e2e.support.cluster import Cluster, KubectlError, running

NODES = 60
HALF = NODES // 2
PERIOD = 1.0  # seconds, of the scheduler
NAMED = {"scheduling.volcano.sh/reservation-target": "true"}
RESERVATION = "scheduling.volcano.sh/reservation"
_CONFIGURATION = """
actions: "enqueue, %sallocate, backfill%s"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}%s]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""


def _text(arguments: str | None) -> str:
    if arguments is None:
        return _CONFIGURATION % ("", "", "")
    return _CONFIGURATION % ("elect, ", ", reserve", f", {{name: reservation, arguments: {{{arguments}}}}}")


@contextlib.contextmanager
def contended(control_plane: str, folder: Path, *, nodes: int = NODES) -> Iterator[Cluster]:
    """A control plane of the test's own, since its nodes are to be full; nobody reserves yet."""
    with running(control_plane, folder / control_plane, nodes=nodes, scheduler=_text(None)) as cluster:
        yield cluster


def configure(cluster: Cluster, arguments: str | None) -> None:
    """Let the scheduler reserve with `arguments` of the plugin; None: without the actions and the plugin."""
    configuration.configure(cluster, _text(arguments))


def group_of(cluster: Cluster, job: str) -> str:
    """The name of the PodGroup of `job`."""
    return f"{job}-{cluster.get('vcjob', job, '-n', 'default')['metadata']['uid']}"


def reservation(cluster: Cluster, group: str) -> dict[str, Any]:
    """What stands at a PodGroup; empty if nothing is kept for it."""
    try:
        found = cluster.get("podgroups.scheduling.volcano.sh", group, "-n", "default")
    except KubectlError as error:
        if "NotFound" not in error.stderr:
            raise
        return {}  # it goes with the end of its Job
    return dict(json.loads(found["metadata"].get("annotations", {}).get(RESERVATION, "{}")))


def events(cluster: Cluster, group: str, reason: str) -> list[str]:
    """The messages of the events of `reason` on a PodGroup."""
    found = cluster.get("events", "-n", "default", "--field-selector", f"reason={reason},involvedObject.name={group}")["items"]
    return [event["message"] for event in found]


def tells_why(cluster: Cluster, group: str) -> bool:
    """Whether a pod says that it waits for the nodes that are kept for `group`."""
    pods = cluster.get("pods", "-n", "default", "--field-selector", "status.phase=Pending")["items"]
    said = [condition.get("message", "") for pod in pods for condition in pod.get("status", {}).get("conditions", [])]
    return any(f"waiting for nodes reserved for job default/{group}" in text for text in said)
