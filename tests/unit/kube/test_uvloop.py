"""What services run on by default: the same, on uvloop."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop

from pyroclast.api.records.pods import Pod
from pyroclast.api.types import PODS
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import ConnectionFailed
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.workqueue.queue import WorkQueue, run_workers
from tests.unit.ending import ended
from tests.unit.kube.fault_server import FaultServer, Watch, answer, cut


async def delays_and_retries() -> None:
    queue: WorkQueue[str] = WorkQueue(first_delay=0.01)
    done: list[str] = []

    async def reconcile(key: str) -> None:
        done.append(key)
        if done.count(key) < 3:
            queue.add_rate_limited(key)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        working = group.create_task(run_workers(queue, reconcile, 2))
        queue.add_after("later", 0.05)
        queue.add_after("soon", 0.02)
        queue.add("now")
        while len(done) < 9:
            await asyncio.sleep(0.01)
        queue.add_after("never", 0.01)
        queue.close()
        await working
    assert done[0] == "now"
    assert sorted(done) == ["later"] * 3 + ["now"] * 3 + ["soon"] * 3


async def list_and_watch() -> None:
    item = {"metadata": {"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "6"}}
    async with FaultServer() as server, server.client() as client:
        server.on("GET /api/v1/pods", cut, answer(200, {"metadata": {"resourceVersion": "5"}, "items": []}))
        server.on("WATCH /api/v1/pods", Watch().cut(), Watch({"type": "ADDED", "object": item}))
        await informed(client)


async def informed(client: Client) -> None:
    informer = Informer(client, PODS, Pod)
    running = asyncio.ensure_future(informer.run())
    async with asyncio.timeout(60):
        while not len(informer):
            await asyncio.sleep(0.01)
    await ended(running)


async def connecting_while_the_number_of_the_socket_is_taken() -> None:
    """Under load sockets were seen to be closed twice: then a new one gets a number that another transport still has."""
    async with FaultServer() as server, server.client() as client:
        server.on("GET /version", answer(200, {}))
        _, other = await asyncio.open_connection("127.0.0.1", server.port)
        with next_socket_has(other.get_extra_info("socket").fileno()), pytest.raises(ConnectionFailed):
            await client.request("GET", "/version", once=True)
        assert await client.request("GET", "/version", deadline=Deadline.after(5.0)) == b"{}"
        other.close()


@contextlib.contextmanager
def next_socket_has(number: int) -> Iterator[None]:
    """Close what has that number, without telling who uses it; it is as it was afterwards."""
    kept, below = os.dup(number), []
    while below[-1:] < [number]:
        below.append(os.dup(kept))
    for each in (number, *(each for each in below if each > number)):
        os.close(each)
    try:
        yield
    finally:
        os.dup2(kept, number)
        for each in (kept, *(each for each in below if each < number)):
            os.close(each)


@pytest.mark.parametrize("scenario", [delays_and_retries, list_and_watch, connecting_while_the_number_of_the_socket_is_taken])
def test_work_queue_informer_and_client_work_on_uvloop(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    uvloop.run(scenario())
