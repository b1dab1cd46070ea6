"""What our controllers write for the largest Jobs and HyperJobs is taken and stored by the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.records import HyperJob, Job
from pyroclast.api.types import CRDS, HYPER_JOBS, JOBS, Key
from pyroclast.kube.basics.errors import Conflict, NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.http.response_records import record_of
from pyroclast.lifecycle import hyperjobs
from pyroclast.lifecycle.hyperjobs import Problem
from pyroclast.lifecycle.plugins.ssh import SshPlugin
from pyroclast.lifecycle.plugins.svc import SvcPlugin
from pyroclast_job_controller.plugins.registry import body_of
from tests.control_plane import build
from tests.control_plane.real import real_control_plane
from tests.unit.running import running_server

pytestmark = pytest.mark.timeout(480)
NS, NOW = "default", 1_741_687_200.0
SPEC = {"minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": []}}}]}


@pytest.fixture
async def client(control_plane: str, tmp_path: Path) -> AsyncIterator[Client]:
    """An API server with the definitions of Jobs and HyperJobs, and no program of ours."""
    if control_plane != "real":
        async with running_server() as server, Client(load_config(str(server.kubeconfig))) as embedded:
            yield await installed(embedded)
        return
    if build.missing(["etcd", "kube-apiserver", "kube-controller-manager"]):
        pytest.skip("the real control plane is not built: `make control-plane` needs Go")
    async with real_control_plane(tmp_path / "plane", fsync=False) as plane, Client(load_config(str(plane.kubeconfig))) as real:
        yield await installed(real)


async def installed(client: Client) -> Client:
    for crd in custom_resource_definitions():
        if crd["spec"]["names"]["kind"] in ("Job", "HyperJob"):
            await client.create(CRDS, crd)
    async with asyncio.timeout(60):
        for kind in (JOBS, HYPER_JOBS):
            while not await is_served(client, kind):
                await asyncio.sleep(0.1)
    return client


async def is_served(client: Client, kind: Any) -> bool:
    try:
        await client.list(kind, NS)
    except NotFound:
        return False
    return True


def running(name: str, phase: str = "Running") -> Job:
    state = {"phase": phase, "reason": "MinAvailableReached", "message": "1 of the 1 pods needed have started"}
    status = {"state": {**state, "lastTransitionTime": "2025-03-11T10:00:00Z"}, "running": 1}
    return msgspec.convert({"metadata": {"name": name, "namespace": NS}, "status": status}, Job)


async def test_hyperjob_of_10000_jobs_is_stored_and_one_job_change_needs_a_small_patch(client: Client) -> None:
    entry = {"name": "a-name-as-long-as-such-names-are", "replicas": 10_000, "templateSpec": SPEC}
    body = {"apiVersion": HYPER_JOBS.api_version, "kind": "HyperJob", "metadata": {"name": "h", "namespace": NS}}
    first = record_of(await client.create(HYPER_JOBS, {**body, "spec": {"replicatedJobs": [entry]}}), HyperJob)
    parts = hyperjobs.split(first)
    assert not isinstance(parts, Problem)
    jobs = {part.name: running(part.name) for part in parts}
    whole = hyperjobs.status(first, jobs, None, now=NOW)
    assert hyperjobs.status_patch(first, whole["status"]) is None
    stored = record_of(await client.patch(HYPER_JOBS, first.key, whole, PatchKind.MERGE, subresource="status"), HyperJob)

    jobs[parts[7].name] = running(parts[7].name, "Completed")
    change = hyperjobs.status_patch(stored, hyperjobs.status(stored, jobs, None, now=NOW)["status"])
    assert change is not None
    assert len(msgspec.json.encode(change)) < 5000
    later = record_of(await client.patch(HYPER_JOBS, first.key, change, PatchKind.JSON, subresource="status"), HyperJob)
    assert hyperjobs.status(later, jobs, None, now=NOW) == {}
    with pytest.raises(Conflict):
        await client.patch(HYPER_JOBS, first.key, change, PatchKind.JSON, subresource="status")


@pytest.mark.parametrize("replicas", [10_000, 50_000, 200_000])
async def test_plugin_objects_of_huge_jobs_are_accepted_by_the_api_server(client: Client, replicas: int) -> None:
    task = {"name": "a-worker-with-a-name", "replicas": replicas, "minAvailable": 1, "template": {}}
    job = msgspec.json.decode(
        msgspec.json.encode({"metadata": {"name": "train", "namespace": NS, "uid": "u"}, "spec": {"tasks": [task]}}), type=Job
    )
    for item in [*SvcPlugin(["--disable-network-policy"]).objects(job), *SshPlugin([]).objects(job)]:
        body = {"apiVersion": item.kind.api_version, "kind": item.kind.kind, "metadata": {"name": item.name, "namespace": NS}}
        content = await asyncio.to_thread(body_of, item)
        if item.kind.kind == "Service":
            content = {"spec": {**content["spec"], "ports": []}}
        made = await client.create(item.kind, {**body, **content})
        assert made["metadata"]["name"] == item.name


async def test_retry_backoff_spec_and_restart_time_status_are_stored(client: Client) -> None:
    retry = {"backoff": "10s", "maxBackoff": "1m", "resetAfter": "24h"}
    body = {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": {"name": "j", "namespace": NS}}
    made = await client.create(JOBS, {**body, "spec": {**SPEC, "retry": retry}})
    assert made["spec"]["retry"] == retry
    status = {"status": {"retryCount": 2, "restartTime": "2025-03-11T10:00:00Z", "state": {"phase": "Restarting"}}}
    told = await client.patch(JOBS, Key(NS, "j"), status, PatchKind.MERGE, subresource="status")
    assert told["status"] == status["status"]
