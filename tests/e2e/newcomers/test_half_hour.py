"""The first half hour of a new user: what people bring from the original, by `pyroclast run`.

Each manifest ends as its author meant, or is refused, or warned of, in words.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli.test_command import follow
from tests.e2e.flows.test_flows import entry, flow, task, template
from tests.e2e.support.cluster import Cluster, wait_until

BATCH = "batch.volcano.sh/v1alpha1"
QUEUES = "scheduling.volcano.sh/v1beta1"
CLUSTER_WIDE = ("Queue", "PriorityClass", "HyperNode")


def job(name: str, *tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"apiVersion": BATCH, "kind": "Job", "metadata": {"name": name}, "spec": {"tasks": list(tasks), **spec}}


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": QUEUES, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def of(found: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A task with more fields."""
    return {**found, **more}


COMPLETES = [{"event": "TaskCompleted", "action": "CompleteJob"}]
RESTARTS = [{"event": "PodEvicted", "action": "RestartJob"}]

ENDS_WELL: dict[str, list[dict[str, Any]]] = {
    "a job of one pod": [job("one", task("t", "true"))],
    "a job of a few replicas": [job("few", task("t", "sleep 0.2", 6), minAvailable=3)],
    "a server and a client": [job("web", task("server", "sleep 600"), of(task("client", "sleep 0.2"), policies=COMPLETES))],
    "policies for the whole job": [job("policies", task("t", "sleep 0.2", 2), policies=[*RESTARTS, *COMPLETES])],
    "a failed task that is tried again": [
        job("retry", of(task("t", "sleep 0.2"), maxRetry=3, policies=[{"exitCode": 3, "action": "RestartTask"}]), maxRetry=3)
    ],
    "ssh and svc, as for mpi": [
        job(
            "mpi",
            of(task("mpimaster", "sleep 0.2"), policies=COMPLETES),
            task("mpiworker", "sleep 600", 2),
            plugins={"ssh": [], "svc": []},
            minAvailable=3,
        )
    ],
    "workers before their master": [
        job(
            "ordered",
            of(task("master", "sleep 0.2"), dependsOn={"name": ["worker"]}, policies=COMPLETES),
            task("worker", "sleep 600", 2),
            plugins={"svc": ["--publish-not-ready-addresses=true"]},
            minAvailable=1,
        )
    ],
    "horovod": [
        job(
            "horovod",
            of(task("master", "sleep 0.2"), policies=COMPLETES),
            task("worker", "sleep 600", 3),
            plugins={"ssh": [], "svc": []},
        )
    ],
    "parameter servers": [
        job(
            "ps",
            task("ps", "sleep 600"),
            of(task("worker", "sleep 0.2", 2), policies=COMPLETES),
            plugins={"tensorflow": ["--ps=ps", "--worker=worker", "--port=2222"]},
        )
    ],
    "environment and services, as for paddle and mindspore": [
        job(
            "env",
            task("pserver", "sleep 0.2", 2),
            task("trainer", "sleep 0.2", 2),
            plugins={"env": [], "svc": ["--disable-network-policy"]},
        )
    ],
    "a ranking for accelerators": [
        job(
            "ranked",
            task("master", "sleep 0.2"),
            task("worker", "sleep 0.2", 2),
            plugins={"hcclrank": ["--master=master"], "svc": []},
        )
    ],
    "a topology of numa nodes that is wished for": [job("numa", of(task("t", "sleep 0.2"), topologyPolicy="none"))],
    "a topology of the network that is wished for": [
        job("topology", task("t", "sleep 0.2", 2), networkTopology={"mode": "soft", "highestTierAllowed": 2})
    ],
    "a job in a tree of queues": [
        queue("half-hour"),
        queue("half-hour-leaf", parent="half-hour"),
        job("leaf", task("t", "true"), queue="half-hour-leaf"),
    ],
    "a queue with all its limits": [
        queue(
            "half-hour-limits", weight=3, capability={"cpu": "4"}, guarantee={"resource": {"cpu": "100m"}}, deserved={"cpu": "1"}
        ),
        job("limits", task("t", "true"), queue="half-hour-limits"),
    ],
    "a flow of five, joined": [
        *(template(name) for name in "abcde"),
        flow(entry("a"), entry("b", "a"), entry("c", "b"), entry("d", "b"), entry("e", "c", "d"), jobRetainPolicy="delete"),
    ],
    "a hyper node": [
        {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": "half-hour"},
            "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "node-0"}}}]},
        }
    ],
}


def clean_up(cluster: Cluster, objects: list[dict[str, Any]]) -> None:
    """Delete what no namespace takes with it, children first."""
    for each in reversed([each for each in objects if each["kind"] in CLUSTER_WIDE]):
        wait_until(partial(_deleted, cluster, each), f"{each['metadata']['name']} to go")


def _deleted(cluster: Cluster, each: dict[str, Any]) -> bool:
    kind = f"{each['kind'].lower()}.{each['apiVersion'].partition('/')[0]}"
    cluster.kubectl("delete", kind, each["metadata"]["name"], "--ignore-not-found", "--wait=false")
    return not cluster.kubectl("get", kind, each["metadata"]["name"], "--ignore-not-found")


@pytest.mark.parametrize("name", ENDS_WELL)
def test_typical_volcano_manifest_completes_with_pyroclast_run(
    cluster: Cluster, namespace: str, tmp_path: Path, name: str
) -> None:
    done = follow(cluster, namespace, tmp_path, *ENDS_WELL[name])
    assert done.returncode == 0, done.stdout + done.stderr
    cluster.kubectl("delete", "vcjob", "--all", "-n", namespace)
    clean_up(cluster, ENDS_WELL[name])
