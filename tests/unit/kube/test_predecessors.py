"""Programs whose work we do: nothing is done while one of them holds its Lease."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyroclast.api.types import Key
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.lease import LeaseLost
from pyroclast.runtime import leadership
from pyroclast.runtime.leadership import Predecessors
from tests.unit.kube.fault_server import FaultServer, answer, status

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
