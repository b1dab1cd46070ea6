"""What is read from the API server: what is there now, and nothing that was remembered where the cache knows better."""

from __future__ import annotations

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.records import Queue
from pyroclast.api.types import CRDS, QUEUES, Key
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.rules.lookups import QueueView
from pyroclast.runtime.in_process.queues import QueueCache
from pyroclast_admission.lookup import REMEMBERED_SECONDS, Fetcher
from tests.unit.running import running_server

CHILD = (QUEUES, Key("", "child"))
MANIFEST = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "child"}, "spec": {"parent": "above"}}


async def test_only_the_absence_of_an_uncached_queue_is_remembered() -> None:
    now = [0.0]
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        for definition in custom_resource_definitions():
            if definition["spec"]["names"]["kind"] == "Queue":
                await client.create(CRDS, definition)
        await server.settle()
        cache = QueueCache(Informer(client, QUEUES, Queue))
        fetcher = Fetcher(client, cache, clock=lambda: now[0])
        view = QueueView("child", "above")
        assert await fetcher.fetch(CHILD) is None
        await client.create(QUEUES, MANIFEST)
        assert await fetcher.fetch(CHILD) is None, "it was asked for a moment ago"
        now[0] = REMEMBERED_SECONDS
        assert await fetcher.fetch(CHILD) == view
        cache.put(view)
        await client.delete(QUEUES, CHILD[1])
        assert await fetcher.fetch(CHILD) is None
        await client.create(QUEUES, MANIFEST)
        assert await fetcher.fetch(CHILD) == view, "what the cache has is read each time"
