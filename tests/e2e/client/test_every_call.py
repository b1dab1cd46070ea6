"""The whole interface of the client, call by call, as a person meets it who reads what it promises from the top."""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import pyroclast.client as pc
from pyroclast.api.jobs import Job as Model
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


def manifest(seconds: int = 600) -> dict[str, Any]:
    container = {"name": "main", "image": "any", "command": ["sh", "-c", f"echo hello; sleep {seconds}"]}
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}
    metadata = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"generateName": "any-"}}
    return {**metadata, "spec": {"tasks": [{"name": "main", "replicas": 1, "template": template}]}}


def test_every_client_and_handle_method_works_on_a_job(local: LocalClient, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(manifest(0)))
    with pc.Client(context=None, namespace="default", queue=None, image=None, store=None, kubeconfig=local.kubeconfig) as c:
        for anything in (
            Model.model_validate(manifest(0)),
            manifest(0),
            tmp_path / "job.yaml",
            (tmp_path / "job.yaml").read_text(),
        ):
            assert c.submit(anything, dry_run=True).name.startswith("any-")
        assert not [job for job in c.jobs() if job.name.startswith("any-")]
        job = c.submit(manifest())
        job.wait(timeout=100, until="placed")
        job.wait(timeout=100, until="running")
        assert (job.status.running, job.phase, job.reason) == (1, "Running", job.status.reason)
        lines = job.logs(follow=True, index=0, task="main", timestamps=False)
        assert next(lines).text == "hello"
        assert job.logs(index=None, task=None, tail=1, timestamps=False) == "hello"
        assert job.logs(timestamps=True).endswith("Z hello")
        assert "does not wait" in str(job.explain())
        job.suspend()
        assert job.wait(100, check=False).phase == "Aborted"
        job.resume()
        job.scale(8)
        deadline = time.monotonic() + 100
        while job.status.running != 8:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        job.cancel()
        assert [event.reason for event in job.events() if event.kind == "phase"][-1] == "Terminated"
        assert job.name in [each.name for each in c.jobs(queue="default", mine=True)]
        assert c.job(job.name).uid == job.uid
        assert pickle.loads(pickle.dumps(job)).uid == job.uid
        assert {"default", "research", "root"} <= {each["metadata"]["name"] for each in c.queues()}
        assert c.fits(manifest())
        job.delete()


@pc.task(image="py:3.11", cpu=4, memory="8Gi", gpus=8, gang=4, queue="research", retries=2, timeout="2h", checkpoint=None)
def train(lr: float) -> float:
    return lr * (1 + pc.rank()) / pc.world()


def test_task_runs_as_gang_sweep_map_and_local_call(local: LocalClient) -> None:
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
