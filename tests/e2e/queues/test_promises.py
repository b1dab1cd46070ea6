"""Room is kept for gangs that can start, and for no others, with the default configuration."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.jobs.test_first_light import job, phase_of
from tests.e2e.support.cluster import Cluster, wait_until


def submit(cluster: Cluster, namespace: str, name: str, *, pods: int, cpu: int, priority: str = "", **spec: Any) -> None:
    important: dict[str, Any] = {"priorityClassName": priority} if priority else {}
    manifest = json.loads(job(name, command=["sleep", "600"], replicas=pods, cpu=str(cpu), **important))
    manifest["spec"]["tasks"][0]["template"]["spec"] |= {**spec, **important}
    cluster.create(json.dumps(manifest), namespace)


def group_phases(cluster: Cluster, namespace: str) -> list[str]:
    return [each.get("status", {}).get("phase", "") for each in cluster.get("podgroups", "-n", namespace)["items"]]


def nodes(cluster: Cluster) -> list[tuple[str, int]]:
    items = cluster.get("nodes")["items"]
    return [(node["metadata"]["name"], int(node["status"]["allocatable"]["cpu"])) for node in items]


def test_a_gang_that_no_node_accepts_keeps_no_room_from_the_next_one(cluster: Cluster, namespace: str) -> None:
    capacity = sum(cpu for _, cpu in nodes(cluster))
    try:
        submit(cluster, namespace, "stuck", pods=capacity // 4, cpu=4, nodeSelector={"disk": "tape"})
        wait_until(lambda: "Inqueue" in group_phases(cluster, namespace), "the first gang to be let in")
        submit(cluster, namespace, "next", pods=capacity // 4, cpu=4)
        wait_until(lambda: phase_of(cluster, namespace, "next") == "Running", "the next gang to run", seconds=60)
    finally:
        cluster.kubectl("delete", "vcjob", "-n", namespace, "--all")


def test_unimportant_jobs_for_one_node_keep_an_important_one_from_no_other_node(cluster: Cluster, namespace: str) -> None:
    (busy, _), (free, _) = nodes(cluster)[:2]
    classes = {name: f"{name}-{namespace}" for name in ("low", "high")}
    for name, value in (("low", 10), ("high", 100)):
        cluster.kubectl("create", "priorityclass", classes[name], f"--value={value}")
    try:
        for number in range(20):
            where = {"kubernetes.io/hostname": busy}
            submit(cluster, namespace, f"low-{number}", pods=1, cpu=4, priority=classes["low"], nodeSelector=where)
        wait_until(lambda: group_phases(cluster, namespace).count("Inqueue") >= 4, "the unimportant Jobs to be let in")
        where = {"kubernetes.io/hostname": free}
        submit(cluster, namespace, "high", pods=1, cpu=8, priority=classes["high"], nodeSelector=where)
        wait_until(lambda: phase_of(cluster, namespace, "high") == "Running", "the important Job to run", seconds=60)
    finally:
        cluster.kubectl("delete", "vcjob", "-n", namespace, "--all")
        for name in classes.values():
            cluster.kubectl("delete", "priorityclass", name)
