"""Two writers never: Leases are renewed whatever else is under way, and a Lease in doubt stops every write."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from pyroclast.api.types import PODS, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import ConnectionFailed
from pyroclast.kube.basics.retry import TokenBucket
from pyroclast.kube.http.caller import closed_because, fenced
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.lease import LeaseLost
from pyroclast.runtime.leadership import lead
from pyroclast.runtime.settings import LeaderElectionSettings
from tests.unit.ending import ended
from tests.unit.kube.fault_server import FaultServer, Got, answer, hang

LEASES = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
PODS_PATH = "/api/v1/namespaces/ns/pods"


def pod(number: int) -> dict[str, object]:
    return {"metadata": {"namespace": "ns", "name": f"p{number}"}}


def settings() -> LeaderElectionSettings:
    return LeaderElectionSettings(
        lock_object_namespace="ns",
        leader_elect_resource_name="lock",
        leader_elect_lease_duration=timedelta(seconds=3),
        leader_elect_renew_deadline=timedelta(seconds=1.5),
        leader_elect_retry_period=timedelta(seconds=0.2),
    )


class Lease:
    """The scripts of one Lease that can be created and renewed; `stuck`: no answer comes any more."""

    def __init__(self, server: FaultServer) -> None:
        self.version = 0
        self.stuck = False
        server.on(f"POST {LEASES}", self.write)
        server.on(f"PUT {LEASES}/lock", self.write)

    async def write(self, got: Got) -> None:
        if self.stuck:
            await hang(got)
        self.version += 1
        body = got.json
        body["metadata"]["resourceVersion"] = str(self.version)
        await answer(200, body)(got)


@pytest.mark.parametrize("options", [{"max_in_flight": 4}, {"qps": 5.0, "burst": 1}], ids=["slots", "limit"])
async def test_lease_renewals_do_not_wait_behind_other_requests(server: FaultServer, options: dict[str, float]) -> None:
    lease = Lease(server)
    server.on(f"POST {PODS_PATH}", hang if "max_in_flight" in options else answer(201, pod(0)))

    async def work(_shard: int) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(300):
                group.create_task(client.create(PODS, pod(number)))

    async with server.client(**options) as client:
        leading = asyncio.ensure_future(lead(client, settings(), work))
        while lease.version <= 5:  # or the lease is lost
            assert not leading.done(), leading.exception()
            await asyncio.sleep(0.02)
        leading.cancel()
        with suppress(asyncio.CancelledError):
            await leading


async def test_no_write_is_sent_after_the_lease_is_lost(server: FaultServer, client: Client) -> None:
    lease = Lease(server)
    server.on(f"POST {PODS_PATH}", answer(201, pod(0)))
    refused = []

    async def work(_shard: int) -> None:
        try:
            await client.create(PODS, pod(1))
            lease.stuck = True
            await asyncio.Event().wait()
        finally:
            try:
                await client.create(PODS, pod(2), deadline=Deadline.after(0.3))
            except ConnectionFailed as error:
                refused.append(str(error))

    with pytest.raises(LeaseLost, match=r"not renewed for 1.5 s"):
        await lead(client, settings(), work)
    assert [got.json["metadata"]["name"] for got in server.seen(f"POST {PODS_PATH}")] == ["p1"]
    assert refused == [f"POST {PODS_PATH}: not sent: lease ns/lock was not renewed for 1.5 s, another may lead"]


async def test_a_closed_fence_stops_writes_of_all_tasks_started_under_it_and_no_reads(
    server: FaultServer, client: Client
) -> None:
    server.on(f"POST {PODS_PATH}", answer(201, pod(0))).on(f"GET {PODS_PATH}/p0", answer(200, pod(0)))
    with fenced(lambda: "the gate is closed"):
        write = asyncio.ensure_future(client.create(PODS, pod(0), deadline=Deadline.after(0.2)))
        assert await client.get(PODS, Key("ns", "p0")) == pod(0)
    with pytest.raises(ConnectionFailed, match="not sent: the gate is closed") as caught:
        await write
    assert not caught.value.sent
    assert server.seen(f"POST {PODS_PATH}") == []
    assert closed_because() is None
    await client.create(PODS, pod(0))


async def test_a_write_blocked_by_a_closed_fence_is_sent_when_the_fence_opens(server: FaultServer, client: Client) -> None:
    server.on(f"POST {PODS_PATH}", answer(201, pod(0)))
    reasons = ["the gate is closed"]
    with fenced(lambda: next(iter(reasons), None)):
        write = asyncio.ensure_future(client.create(PODS, pod(0)))
        await asyncio.sleep(0.3)
        assert server.seen(f"POST {PODS_PATH}") == []
        reasons.clear()
        assert await write == pod(0)


async def test_waiting_for_a_request_slot_counts_towards_the_deadline(server: FaultServer) -> None:
    server.on(f"POST {PODS_PATH}", hang)
    async with server.client(max_in_flight=1) as client:
        first = asyncio.ensure_future(client.create(PODS, pod(0)))
        await asyncio.sleep(0.1)
        with pytest.raises(ConnectionFailed, match="not sent: 1 requests were under way and none ended in time") as caught:
            async with asyncio.timeout(5.0):
                await client.create(PODS, pod(1), deadline=Deadline.after(0.3))
        assert not caught.value.sent
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first


async def test_waiting_for_the_rate_limit_counts_towards_the_deadline(server: FaultServer) -> None:
    server.on(f"POST {PODS_PATH}", answer(201, pod(0)))
    async with server.client(qps=0.1, burst=1) as client:
        await client.create(PODS, pod(0))
        with pytest.raises(ConnectionFailed, match=r"not sent: the limit of 0\.1 requests per second") as caught:
            async with asyncio.timeout(5.0):
                await client.create(PODS, pod(1), deadline=Deadline.after(0.3))
        assert not caught.value.sent
    assert len(server.seen(f"POST {PODS_PATH}")) == 1


@pytest.mark.looptime
async def test_cancelled_waits_leave_the_token_of_a_bucket_to_the_next_wait() -> None:
    bucket = TokenBucket(rate=1.0, burst=1)
    assert await bucket.wait()
    impatient = [asyncio.ensure_future(bucket.wait()) for _ in range(1000)]
    await asyncio.sleep(0.5)
    await ended(*impatient)
    assert not await bucket.wait(0.1)
    async with asyncio.timeout(1.0):
        assert await bucket.wait(10.0)
