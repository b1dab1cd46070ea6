"""The real Dask, whose workers are pods."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from distributed import Client

import pyroclast.client as pc
from pyroclast_client.integrations.dask import PyroclastCluster

Wait = Callable[[Callable[[], object]], None]


def test_the_example_of_the_guide_runs(client: pc.Client, example: Callable[[str], str]) -> None:
    exec(example("Dask").replace("PyroclastCluster(", 'PyroclastCluster(host="127.0.0.1", '))
    assert client.jobs() == []


def workers_of(dask: Client) -> dict[int, str]:
    return {worker["name"]: address for address, worker in dask.scheduler_info(n_workers=-1)["workers"].items()}


def test_a_cluster_grows_computes_shrinks_and_leaves_nothing(client: pc.Client, wait_until: Wait) -> None:
    with PyroclastCluster(1, memory="256MiB", host="127.0.0.1") as cluster, Client(cluster) as dask:
        dask.wait_for_workers(1, 60)
        cluster.scale(4)
        dask.wait_for_workers(4, 60)
        assert sum(dask.gather(dask.map(abs, range(1001)))) == 500500
        with pytest.raises(ZeroDivisionError):
            dask.submit(divmod, 1, 0).result()
        assert len(client.jobs()) == len(cluster.jobs()) == 4
        cluster.scale(1)
        wait_until(lambda: len(client.jobs()) == len(workers_of(dask)) == 1)
    wait_until(lambda: not client.jobs())


def test_the_first_workers_are_a_gang_and_one_that_is_evicted_comes_back(
    client: pc.Client, wait_until: Wait, delete_pod: Callable[[str], None]
) -> None:
    with PyroclastCluster(minimum=2, worker_extra_args=["--no-nanny"], host="127.0.0.1") as cluster, Client(cluster) as dask:
        dask.wait_for_workers(2, 60)
        (job,) = client.jobs()
        assert job.object()["spec"]["minAvailable"] == 2
        before = workers_of(dask)
        assert set(before) == {0, 1}

        def came_back() -> bool:
            now = workers_of(dask)
            return now.keys() == before.keys() and now[1] != before[1]

        delete_pod(f"{job.name}-worker-1-0")
        wait_until(came_back)
        assert workers_of(dask)[0] == before[0]


def test_a_member_of_the_gang_that_is_closed_stays_away(client: pc.Client, wait_until: Wait) -> None:
    with PyroclastCluster(minimum=2, memory="256MiB", host="127.0.0.1") as cluster, Client(cluster) as dask:
        cluster.scale(3)
        dask.wait_for_workers(3, 60)
        cluster.scale(1)
        wait_until(lambda: len(client.jobs()) == 1 and client.jobs()[0].status.running == 1)
        assert workers_of(dask).keys() == {0}
        assert dask.submit(abs, -1).result(60) == 1


def test_an_adaptive_cluster_keeps_what_is_asked_for(client: pc.Client, wait_until: Wait) -> None:
    with PyroclastCluster(host="127.0.0.1") as cluster, Client(cluster) as dask:
        cluster.adapt(minimum=0, maximum=2, interval="200ms", wait_count=2)
        assert dask.submit(abs, -1).result(60) == 1
        wait_until(lambda: not client.jobs())


def test_a_cluster_in_a_queue_that_does_not_exist_says_so(client: pc.Client) -> None:
    with pytest.raises(pc.errors.Rejected, match="nowhere"), PyroclastCluster(1, queue="nowhere", host="127.0.0.1"):
        pytest.fail("it must not start")
    assert client.jobs() == []
