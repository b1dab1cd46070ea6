"""The real Prefect with its own server: flow runs of a work pool are Jobs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect import flow, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from prefect.exceptions import InfrastructureNotFound
from prefect.testing.utilities import prefect_test_harness

import pyroclast.client as pc
from pyroclast_client.integrations.prefect import PyroclastConfiguration, PyroclastWorker

pytestmark = pytest.mark.filterwarnings("ignore")  # Prefect's own
SECONDS = 150


@pytest.fixture(scope="module")
def pool() -> Iterator[str]:
    """A work pool on a server of the test's own, whose address pods can reach: they run on this machine."""
    with prefect_test_harness(server_startup_timeout=120), get_client(sync_client=True) as server:
        template = PyroclastWorker.get_default_base_job_template()
        server.create_work_pool(WorkPoolCreate(name="pool", type=PyroclastWorker.type, base_job_template=template))
        yield "pool"


def deployed(pool: str, folder: Path, entrypoint: str, client: pc.Client, **parameters: Any) -> UUID:
    """A flow run that waits for a worker."""
    variables = {"image": "local", "namespace": client.namespace, "command": f"{sys.executable} -m prefect flow-run execute"}
    variables |= {"env": {"PYTHONPATH": "", "HOME": str(folder)}}
    found = flow.from_source(source=str(folder), entrypoint=entrypoint)
    name = entrypoint.partition(":")[2]
    identity = found.deploy(
        name=name, work_pool_name=pool, job_variables=variables, build=False, push=False, print_next_steps=False
    )
    return run_deployment(identity, parameters=parameters, timeout=0).id


async def worked(pool: str, run: UUID) -> FlowRun:
    """The flow run at its end."""
    async with get_client() as server, asyncio.timeout(SECONDS), PyroclastWorker(work_pool_name=pool) as worker:
        await worker.get_and_submit_flow_runs()
        while (found := await server.read_flow_run(run)).state is None or not found.state.is_final():
            await asyncio.sleep(0.5)
        return found


def test_a_flow_run_is_a_job(pool: str, client: pc.Client, tmp_path: Path, example: Callable[[str], str]) -> None:
    (tmp_path / "flows.py").write_text(example("Prefect"))
    before = {job.uid for job in client.jobs()}
    run = asyncio.run(worked(pool, deployed(pool, tmp_path, "flows.py:double", client, number=4)))
    (job,) = [job for job in client.jobs() if job.uid not in before]
    assert run.state is not None
    assert run.state.is_completed(), f"{run.state}\n{job.logs()}"
    assert run.infrastructure_pid == f"{client.namespace}/{job.name}"
    assert job.wait(60).phase == "Completed"


def test_a_flow_run_whose_job_ends_otherwise_is_crashed(pool: str, client: pc.Client, tmp_path: Path) -> None:
    (tmp_path / "flows.py").write_text("import os\nfrom prefect import flow\n\n\n@flow\ndef broken():\n    os._exit(7)\n")
    run = asyncio.run(worked(pool, deployed(pool, tmp_path, "flows.py:broken", client)))
    assert run.state is not None
    assert run.state.is_crashed(), run.state


def test_a_job_is_ended_for_a_flow_run_that_is_cancelled(pool: str, client: pc.Client, wait_until: Callable[..., None]) -> None:
    container = {"name": "main", "image": "any", "command": ["sleep", "600"]}
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}
    job = client.submit({"spec": {"tasks": [{"name": "main", "replicas": 1, "template": template}]}}).wait(60, "running")

    async def kill(name: str) -> None:
        worker = PyroclastWorker(work_pool_name=pool)
        await worker.kill_infrastructure(name, PyroclastConfiguration(namespace=client.namespace))

    asyncio.run(kill(f"{client.namespace}/{job.name}"))
    wait_until(lambda: job.phase == "Terminated")
    with pytest.raises(InfrastructureNotFound):
        asyncio.run(kill(f"{client.namespace}/nothing"))
