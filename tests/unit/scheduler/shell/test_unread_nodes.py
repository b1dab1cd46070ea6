"""What the scheduler says about nodes that its watch cannot read as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyroclast.kube.watch.informer import Informer
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.settings import SchedulerSettings
from pyroclast_scheduler.shell.watches import watch
from tests.unit.kube.fault_server import FaultServer, Watch, answer

EMPTY = answer(200, {"metadata": {"resourceVersion": "5"}, "items": []})
KINDS = (
    "/apis/scheduling.volcano.sh/v1beta1/queues",
    "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/api/v1/pods",
)


class Service:
    """Runs informers as the process shell does."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.informers: list[Informer[Any]] = []

    def watch(self, informer: Informer[Any]) -> None:
        self.informers.append(informer)
        self.tasks.append(asyncio.ensure_future(informer.run()))


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    async with FaultServer() as server:
        for path in KINDS:
            server.on(f"GET {path}", EMPTY).on(f"WATCH {path}", Watch())
        yield server


async def test_a_node_with_null_image_names_is_a_node_and_an_unreadable_field_is_known(server: FaultServer) -> None:
    status = {"allocatable": {"cpu": "4", "pods": "10"}, "images": [{"names": None, "sizeBytes": 5}]}
    null = {"metadata": {"name": "null", "uid": "1", "resourceVersion": "1"}, "status": status}
    odd = {"metadata": {"name": "odd", "uid": "2", "resourceVersion": "2"}, "spec": {"unschedulable": "no"}, "status": status}
    server.on("GET /api/v1/nodes", answer(200, {"metadata": {"resourceVersion": "5"}, "items": [null, odd]}))
    server.on("WATCH /api/v1/nodes", Watch())
    cache, service = Cache(), Service()
    async with server.client() as client:
        watch(service, cache, cache, SchedulerSettings(), client, watched=lambda *_: None)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(60):
                while len(cache.nodes.rows) < 2:
                    await asyncio.sleep(0.01)
                snapshot = cache.snapshot()
                assert snapshot.is_ready.tolist() == [True, True]
                while not cache.snapshot().unread_nodes:
                    await asyncio.sleep(0.01)
                assert cache.snapshot().unread_nodes == {"odd": "spec.unschedulable: Expected `bool`, got `str`"}
        finally:
            for task in service.tasks:
                task.cancel()
            await asyncio.gather(*service.tasks, return_exceptions=True)
