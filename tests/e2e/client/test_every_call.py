"""Every way to call a task, on a local control plane."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

import pyroclast.client as pc
from pyroclast.api.types import QUEUES
from pyroclast_client.loops import run
from pyroclast_client.planes import LocalClient

pytestmark = pytest.mark.timeout(600)  # they start many processes


@pytest.fixture(scope="module")
def local() -> Iterator[LocalClient]:
    async def queue() -> None:
        kube = (await client.asynchronous.session()).kube
        kind = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind}
        await kube.create(QUEUES, {**kind, "metadata": {"name": "research"}, "spec": {"weight": 1}})

    with pc.local(nodes=4, gpus=8) as client:
        run(queue())
        yield client


@pc.task(image="py:3.11", cpu=4, memory="8Gi", gpus=8, gang=4, queue="research", retries=2, timeout="2h", checkpoint=None)
def train(lr: float) -> float:
    return lr * (1 + pc.rank()) / pc.world()


def test_task_runs_as_gang_sweep_map_and_local_call(local: LocalClient) -> None:
    assert {"default", "research", "root"} <= {each["metadata"]["name"] for each in local.queues()}
    job = train.run(1e-3)
    assert job.result() == 1e-3 / 4
    assert job.results() == [1e-3 * number / 4 for number in (1, 2, 3, 4)]
    spec = job.object()["spec"]
    assert (spec["queue"], spec["minAvailable"], spec["tasks"][0]["replicas"]) == ("research", 4, 4)
    one = train.using(gang=1, gpus=1, cpu=1)
    sweep = one.sweep(lr=[1.0, 2.0])
    assert (sweep.results(), sweep.failed) == ([0.5, 2.0], [])  # each pod has its rank and their number
    sweep.retry()
    assert len(sweep.jobs) == 1  # there was nothing to repeat
    assert sorted(one.map([1.0, 2.0], in_order=False)) == [0.5, 2.0]
    assert train(2.0) == 2.0  # here


def test_task_on_a_local_control_plane_runs_with_the_current_interpreter(local: LocalClient) -> None:
    @pc.task
    def version() -> tuple[str, str]:
        import os
        import sys

        return sys.executable, os.environ["CUDA_VISIBLE_DEVICES"]

    assert version.run().result() == (sys.executable, "")
