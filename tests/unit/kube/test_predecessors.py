"""Programs whose work we do: nothing is done while one of them holds its Lease."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api.types import DEPLOYMENTS, Key
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.lease.lease import LeaseLost
from pyroclast.lifecycle.times import parse_time
from pyroclast.runtime import leadership
from pyroclast.runtime.leadership import ForeignWrites, Predecessors
from tests.unit.kube.fault_server import FaultServer, answer, status
from tests.unit.running import running_server

LEASE = Key("volcano-system", "volcano")
PATH = "GET /apis/coordination.k8s.io/v1/namespaces/volcano-system/leases/volcano"


def lease(version: int, *, holder: str = "vc-scheduler_1", renewed: str = "2999-01-01T00:00:00.000000Z") -> Any:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 1, "renewTime": renewed}
    return answer(200, {"metadata": {"name": "volcano", "resourceVersion": str(version)}, "spec": spec})


@pytest.fixture
async def client(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setattr(leadership, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(leadership, "FREE_SECONDS", 0.1)
    async with server.client() as client:
        yield client


@pytest.mark.parametrize(
    "reply",
    [
        status(404, "NotFound"),
        status(403, "Forbidden"),
        lease(1, holder=""),
        lease(1, renewed="2020-01-01T00:00:00.000000Z"),
    ],
    ids=["no Lease", "no right to read it", "nobody holds it", "renewed long ago"],
)
async def test_a_missing_unreadable_free_or_old_predecessor_lease_is_not_waited_for(
    server: FaultServer, client: Client, reply: Any
) -> None:
    server.on(PATH, reply)
    async with asyncio.timeout(60):
        await Predecessors(client, [LEASE]).gone()
    assert len(server.seen(PATH)) == 1


async def test_a_renewed_predecessor_lease_is_waited_for_until_its_renewals_stop(server: FaultServer, client: Client) -> None:
    server.on(PATH, *map(lease, range(1, 11)), *[lease(10)] * 200)
    async with asyncio.timeout(60):
        await Predecessors(client, [LEASE]).gone()
    assert len(server.seen(PATH)) > 10


async def test_a_predecessor_that_holds_the_lease_again_raises_lease_lost(server: FaultServer, client: Client) -> None:
    server.on(PATH, lease(1, holder=""), lease(1, holder=""), lease(2))
    watched = Predecessors(client, [LEASE])
    async with asyncio.timeout(60):
        await watched.gone()
        with pytest.raises(LeaseLost, match="lease volcano-system/volcano is held by vc-scheduler_1"):
            await watched.back()


def deployment(replicas: int) -> dict[str, Any]:
    labels = {"app": "volcano-scheduler"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "theirs", "labels": labels}, "spec": spec}


async def test_a_deployment_with_replicas_is_waited_for_although_nobody_holds_a_lease() -> None:
    """Volcano's chart switches leader election off by default. Our own Deployments have the same label and do not count."""
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        ours = deployment(2)
        ours["metadata"] = {"name": "ours", "labels": {**ours["metadata"]["labels"], "app.kubernetes.io/name": "pyroclast"}}
        for each in (ours, deployment(1)):
            await client.create(DEPLOYMENTS, each, namespace="default")
        registry, key = CollectorRegistry(), Key("default", "theirs")
        async with asyncio.timeout(60), Predecessors(client, [], app="volcano-scheduler", metrics=registry) as watched:
            waiting = asyncio.create_task(watched.gone())
            while registry.get_sample_value("pyroclast_stands_aside") != 1:
                await asyncio.sleep(0.01)
            assert not waiting.done()
            await client.patch(DEPLOYMENTS, key, {"spec": {"replicas": 0}}, PatchKind.MERGE)
            await waiting
            assert registry.get_sample_value("pyroclast_stands_aside") == 0
            back = asyncio.create_task(watched.back())
            await client.patch(DEPLOYMENTS, key, {"spec": {"replicas": 3}}, PatchKind.MERGE)
            with pytest.raises(LeaseLost, match="Deployment default/theirs has 3 replicas; scale it to 0"):
                await back


def fields(manager: str, written: str, subresource: str = "status") -> dict[str, Any]:
    entry = {"manager": manager, "operation": "Update", "subresource": subresource, "time": written}
    own = {"manager": "job-controller", "operation": "Update", "subresource": "status", "time": "2026-01-01T00:05:00Z"}
    return {"managedFields": [own, entry]}


@pytest.mark.parametrize(
    ("metadata", "is_sign"),
    [
        (fields("vc-controller-manager", "2026-01-01T00:02:00Z"), True),
        (fields("vc-controller-manager", "2026-01-01T00:00:30Z"), False),
        (fields("vc-controller-manager", "2026-01-01T00:02:00Z", ""), False),
        (fields("kubectl", "2026-01-01T00:02:00Z"), False),
        ({}, False),
    ],
    ids=["while we lead", "before it was stopped", "a field that users write", "somebody else", "a server without them"],
)
def test_a_status_that_volcano_wrote_while_we_lead_shows_that_it_works(metadata: dict[str, Any], is_sign: bool) -> None:
    foreign = ForeignWrites(lambda: parse_time("2026-01-01T00:00:00Z"))
    foreign.begin()
    assert bool(foreign.notice("Job a/b", metadata)) is is_sign


async def test_writes_of_another_program_are_waited_for_until_a_minute_after_the_last(client: Client) -> None:
    now = parse_time("2026-01-01T00:00:00Z")
    foreign = ForeignWrites(lambda: now)
    async with asyncio.timeout(60), Predecessors(client, [], foreign=foreign) as watched:
        await watched.gone()
        foreign.begin()
        back = asyncio.create_task(watched.back())
        await asyncio.sleep(0)
        assert "vc-controller-manager wrote the status of Job a/b" in foreign.notice(
            "Job a/b", fields("vc-controller-manager", "2026-01-01T00:02:00Z")
        )
        with pytest.raises(LeaseLost, match="another program does our work: vc-controller-manager wrote"):
            await back
        waiting = asyncio.create_task(watched.gone())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        now += 61
        await waiting
