"""Two schedulers beside each other: by their NodeShards, and as members of a hash ring."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.faults.test_faults import phases
from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, wait_until


@contextlib.contextmanager
def scheduler(cluster: Cluster, name: str, *flags: str, **environment: str) -> Iterator[None]:
    """One more scheduler while the block lasts."""
    command = [sys.executable, "-m", "pyroclast_scheduler", f"--kubeconfig={cluster.kubeconfig}"]
    command += ["--leader-elect-resource-namespace=pyroclast-system", *flags]
    log = cluster.data / f"scheduler-{name}-{time.monotonic_ns()}.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **environment}) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


@pytest.fixture
def alone(cluster: Cluster) -> Iterator[None]:
    """The schedulers of a test have the cluster for themselves."""
    with cluster.standing_aside("scheduler"):
        yield


@pytest.fixture
def shards(cluster: Cluster) -> Iterator[dict[str, list[str]]]:
    """A NodeShard with half of the nodes for each of two schedulers."""
    nodes = sorted(item["metadata"]["name"] for item in cluster.get("nodes")["items"])
    made = {"left": nodes[: len(nodes) // 2], "right": nodes[len(nodes) // 2 :]}
    for name, desired in made.items():
        body = {"apiVersion": "shard.volcano.sh/v1alpha1", "kind": "NodeShard", "metadata": {"name": name}}
        cluster.create(json.dumps({**body, "spec": {"nodesDesired": desired}}))
    yield made
    cluster.kubectl("delete", "nodeshard", *made)


def sharded(cluster: Cluster, name: str, mode: str) -> contextlib.AbstractContextManager[None]:
    """The scheduler of that name, which keeps to its NodeShard."""
    names = [f"--{flag}={name}" for flag in ("scheduler-name", "scheduler-sharding-name", "leader-elect-resource-name")]
    return scheduler(cluster, name, *names, f"--scheduler-sharding-mode={mode}")


def in_use(cluster: Cluster) -> dict[str, list[str]]:
    items = cluster.get("nodeshards")["items"]
    return {item["metadata"]["name"]: item.get("status", {}).get("nodesInUse") or [] for item in items}


def submit(cluster: Cluster, namespace: str, name: str, replicas: int, **spec: Any) -> None:
    cluster.create(job(name, command=["sleep", "1"], replicas=replicas, **spec), namespace)


def placed(cluster: Cluster, namespace: str) -> list[tuple[str, str, str]]:
    """Scheduler, Job and node of each pod."""
    return [
        (pod["spec"]["schedulerName"], pod["metadata"]["labels"]["volcano.sh/job-name"], pod["spec"].get("nodeName", ""))
        for pod in cluster.get("pods", "-n", namespace)["items"]
    ]


@pytest.mark.timeout(480)
@pytest.mark.usefixtures("alone")
def test_scheduler_in_hard_shard_mode_uses_only_nodes_of_its_shard(
    cluster: Cluster, namespace: str, shards: dict[str, list[str]]
) -> None:
    with sharded(cluster, "left", "hard"), sharded(cluster, "right", "hard"):
        wait_until(lambda: in_use(cluster) == shards, "both to say which nodes they use")
        for number in range(3):
            for name in shards:
                submit(cluster, namespace, f"{name}-{number}", 4, schedulerName=name)
        wait_until(lambda: phases(cluster, namespace) == {"Completed": 6}, "all Jobs to complete", seconds=90)
        pods = placed(cluster, namespace)
        assert len(pods) == 24
        assert [each for each in pods if each[2] not in shards[each[0]]] == []
        moved = shards["left"][0]
        rest, more = [node for node in shards["left"] if node != moved], sorted([*shards["right"], moved])
        for name, desired in (("left", rest), ("right", more)):
            patch = json.dumps({"spec": {"nodesDesired": desired}})
            cluster.kubectl("patch", "nodeshard", name, "--type=merge", "-p", patch)
        wait_until(lambda: in_use(cluster) == {"left": rest, "right": more}, "a node to change hands")
        amount = cluster.get("nodes")["items"][0]["status"]["allocatable"]["cpu"]
        manifest = json.loads(job("wide", command=["true"], replicas=len(more) + 1, schedulerName="right"))
        manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": amount}}
        cluster.create(json.dumps(manifest), namespace)
        said = f"{len(rest)} node isn't in scheduler node shard"
        wait_until(lambda: said in why(cluster, namespace, "wide"), "a gang of more pods than nodes to say why it waits")


def why(cluster: Cluster, namespace: str, name: str) -> str:
    groups = cluster.get("podgroups", "-n", namespace)["items"]
    conditions = [
        each
        for group in groups
        if group["metadata"]["name"].startswith(name)
        for each in group.get("status", {}).get("conditions", [])
    ]
    return " ".join(each.get("message", "") for each in conditions)


@pytest.mark.timeout(480)
@pytest.mark.usefixtures("alone")
def test_scheduler_in_soft_shard_mode_prefers_its_shard_and_uses_other_nodes_when_needed(
    cluster: Cluster, namespace: str, shards: dict[str, list[str]]
) -> None:
    with sharded(cluster, "left", "soft"):
        wait_until(lambda: in_use(cluster)["left"] == shards["left"], "the scheduler to say which nodes it uses")
        submit(cluster, namespace, "few", 2, schedulerName="left")
        wait_until(lambda: phases(cluster, namespace) == {"Completed": 1}, "the Job to complete")
        assert {node for _, _, node in placed(cluster, namespace)} <= set(shards["left"])
        amount = cluster.get("nodes")["items"][0]["status"]["allocatable"]["cpu"]
        count = sum(map(len, shards.values()))
        manifest = json.loads(job("all", command=["sleep", "1"], replicas=count, schedulerName="left"))
        manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": amount}}
        cluster.create(json.dumps(manifest), namespace)
        wait_until(lambda: phases(cluster, namespace) == {"Completed": 2}, "a gang as large as the cluster to complete")
