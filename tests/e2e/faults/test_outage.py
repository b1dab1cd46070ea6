"""The API server goes away, forgets its history, or loses its store for a while: nothing is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pyroclast.api.types import CONFIG_MAPS
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from tests.e2e.faults.test_churn import pods_created_twice_in_one_life
from tests.e2e.faults.test_faults import phases, submit
from tests.e2e.support.cluster import Cluster, services_of, wait_until

WRITERS = 8
JOBS = 20
DOWN_SECONDS = 5.0
LEADERS = {"job-controller", "jobflow-controller", "recorder", "scheduler"}
RENEWED_WITHIN_SECONDS = 8.0  # the deadline of a renewal, less the time since the last one


async def write_until(stop: threading.Event, kubeconfig: str, namespace: str) -> list[str]:
    """Create ConfigMaps as fast as `WRITERS` can; the names that the server acknowledged."""
    acknowledged: list[str] = []

    async def write(client: Client, writer: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            name = f"w{writer}-{number}"
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"number": str(number)}}
            try:
                await client.create(CONFIG_MAPS, body, namespace=namespace, deadline=Deadline.after(1.0))
            except KubeError:
                await asyncio.sleep(0.05)
            else:
                acknowledged.append(name)

    async with Client(load_config(kubeconfig)) as client, asyncio.TaskGroup() as group:
        for writer in range(WRITERS):
            group.create_task(write(client, writer))
    return acknowledged


@pytest.mark.timeout(600)
def test_acknowledged_writes_survive_api_server_outages(cluster: Cluster, namespace: str) -> None:
    stop = threading.Event()
    acknowledged: list[str] = []
    work = threading.Thread(
        target=lambda: acknowledged.extend(asyncio.run(write_until(stop, str(cluster.kubeconfig), namespace)))
    )
    work.start()
    try:
        for _ in range(3):
            threading.Event().wait(1.0)
            cluster.outage(1.0)
    finally:
        stop.set()
        work.join()
    stored = {name.removeprefix("configmap/") for name in cluster.kubectl("get", "cm", "-n", namespace, "-o", "name").split()}
    assert len(acknowledged) > 100
    assert set(acknowledged) - stored == set()


@pytest.mark.timeout(600)
def test_jobs_complete_and_services_keep_running_over_an_api_server_outage(cluster: Cluster, namespace: str) -> None:
    submit(cluster, namespace, JOBS)
    wait_until(lambda: phases(cluster, namespace)["Running"] + phases(cluster, namespace)["Completed"] >= 3, "some Jobs to run")
    before = dict(cluster.pids)
    away = cluster.outage(DOWN_SECONDS)
    wait_until(lambda: phases(cluster, namespace) == {"Completed": JOBS}, "all Jobs to complete", seconds=180)
    # a gang whose pods could not all be created while their places were kept starts again
    assert pods_created_twice_in_one_life(cluster, namespace) == []
    ended = {name for name in services_of(cluster) if cluster.pids[name] != before[name]}
    # Who leads ends when its Lease may be another's: on a machine that takes that long to start an API server they may.
    may_end = LEADERS if away > RENEWED_WITHIN_SECONDS else set()
    assert ended <= may_end, "\n\n".join(f"{name} ended because the API server did:\n{cluster.log(name)}" for name in ended)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", ["compaction", "etcd restart"])
def test_jobs_complete_without_duplicate_pods_after_etcd_compaction_or_restart(
    cluster: Cluster, namespace: str, fault: str
) -> None:
    if cluster.server is None:
        pytest.skip("the embedded API server has no etcd")
    plane = cluster.server.plane
    submit(cluster, namespace, JOBS)
    wait_until(lambda: phases(cluster, namespace)["Running"] + phases(cluster, namespace)["Completed"] >= 3, "some Jobs to run")
    if fault == "compaction":
        cluster.server.do(plane.compact())
        cluster.server.do(plane.outage())  # its watch cache is gone too: old versions are 410 now
    else:
        cluster.server.do(plane.etcd.restart(down_seconds=DOWN_SECONDS, kill=True))
    wait_until(lambda: phases(cluster, namespace) == {"Completed": JOBS}, "all Jobs to complete", seconds=180)
    # a gang whose pods could not all be created while their places were kept starts again
    assert pods_created_twice_in_one_life(cluster, namespace) == []
