"""A board around an embedded API server, with objects as the other services write them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from pyroclast.api import crds, keys
from pyroclast.api.types import (
    CLUSTER_ROLE_BINDINGS,
    CRDS,
    JOB_FLOWS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Key,
    ResourceType,
)
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.runtime.listener import Listener
from pyroclast.runtime.service import Service
from pyroclast_board.app import run
from pyroclast_board.settings import BoardSettings
from pyroclast_standalone.processes import free_port
from tests.unit.running import RunningServer, running_server

RBAC = "rbac.authorization.k8s.io"
FULL = "4 cpu asked for; QueueFull: not now: research may use 8 cpu and uses 7; this gang asks for 4 cpu"
POD = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}


class Board:
    """The running board, and the API server that it looks at."""

    def __init__(self, server: RunningServer, client: Client, url: str) -> None:
        self.server, self.client, self.url = server, client, url
        self.session: aiohttp.ClientSession | None = None

    async def put(self, kind: ResourceType, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object with its status."""
        made = await self.client.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **body})
        if (status := body.get("status")) and kind is not POD_GROUPS:  # which have no such subresource
            key = Key(made["metadata"].get("namespace", ""), made["metadata"]["name"])
            await self.client.patch(kind, key, {"status": status}, PatchKind.MERGE, subresource="status")
        return made

    async def job(self, namespace: str, name: str, *, code: str = "", phase: str = "Pending", **more: Any) -> str:
        """A Job with its PodGroup; the uid."""
        metadata = {"namespace": namespace, "name": name, **more.pop("metadata", {})}
        message = f"waits: {code}" if code else ""
        task = {"name": "worker", "replicas": 2, "template": {"spec": POD}}
        spec = {"schedulerName": "volcano", "queue": "research", "minAvailable": 2, "tasks": [task], **more}
        made = await self.put(
            JOBS, {"metadata": metadata, "spec": spec, "status": {"state": {"phase": phase, "message": message}}}
        )
        uid = made["metadata"]["uid"]
        owner = {"apiVersion": JOBS.api_version, "kind": "Job", "name": name, "uid": uid, "controller": True}
        group_phase = {"Running": "Running", "Failed": "Completed"}.get(phase, "Pending")
        group = {"metadata": {"namespace": namespace, "name": f"{name}-{uid[:8]}", "ownerReferences": [owner]}}
        group_spec = {"queue": spec["queue"], "minMember": 2, "minResources": {"cpu": "4"}}
        await self.put(POD_GROUPS, {**group, "spec": group_spec, "status": {"phase": group_phase}})
        return str(uid)

    async def token(self, name: str, *namespaces: str, everywhere: bool = False) -> str:
        """The token of an account that may list Jobs in some namespaces, or everywhere."""
        await self.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name, "namespace": "default"}})
        made = await self.client.create(SERVICE_ACCOUNTS, {"spec": {}}, namespace="default", name=name, subresource="token")
        rule = {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["list"]}
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]
        for namespace in namespaces:
            await self.client.create(ROLES, {"metadata": {"name": name, "namespace": namespace}, "rules": [rule]})
            reference = {"apiGroup": RBAC, "kind": "Role", "name": name}
            binding = {"metadata": {"name": name, "namespace": namespace}, "roleRef": reference, "subjects": subjects}
            await self.client.create(ROLE_BINDINGS, binding)
        if everywhere:
            reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
            await self.client.create(
                CLUSTER_ROLE_BINDINGS, {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
            )
        await self.server.settle()
        return str(made["status"]["token"])

    async def get(self, path: str, status: int = 200, token: str = "", **headers: str) -> str:
        """The text of a page."""
        given = {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}
        assert self.session is not None
        async with self.session.get(f"{self.url}{path}", headers=given) as answer:
            text = await answer.text()
            assert answer.status == status, text
            return text

    async def until(self, path: str, *words: str, token: str = "", seconds: float = 60.0) -> str:
        """The page once it has all of these words."""
        async with asyncio.timeout(seconds):
            while True:
                with contextlib.suppress(AssertionError):  # not there yet
                    text = await self.get(path, token=token)
                    if all(word in text for word in words):
                        return text
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def prepared_server() -> AsyncIterator[tuple[RunningServer, Client]]:
    """An API server with our kinds, two namespaces, and a scheduler that leads."""
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        for crd in crds.custom_resource_definitions():
            await client.create(CRDS, crd)
        await server.settle()
        for name in ("team", "other"):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        spec = {"holderIdentity": "scheduler", "leaseDurationSeconds": 15, "renewTime": "2099-01-01T00:00:00.000000Z"}
        await client.create(LEASES, {"metadata": {"name": "volcano", "namespace": "default"}, "spec": spec})
        yield server, client


@contextlib.asynccontextmanager
async def running_board(**settings: Any) -> AsyncIterator[Board]:
    """A board on a free port; `login` is local unless it is given."""
    async with prepared_server() as (server, client):
        port = free_port()
        given = {"kubeconfig": str(server.kubeconfig), "page_address": f"127.0.0.1:{port}", "login": "local", "kube_api_qps": 0.0}
        wanted = BoardSettings(**{**given, **settings})
        board = Board(server, client, f"{'https' if wanted.page_cert_file else 'http'}://127.0.0.1:{port}")
        task = asyncio.create_task(Service("pyroclast-board", wanted).run(lambda service: run(service, wanted)))
        try:
            async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session, asyncio.timeout(60):
                board.session = session
                while not task.done():
                    with contextlib.suppress(aiohttp.ClientConnectionError):
                        async with session.get(f"{board.url}/static/board.css", ssl=False):
                            break
                    await asyncio.sleep(0.02)
                yield board
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@contextlib.asynccontextmanager
async def answering(answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """The URL of a scheduler of which each request is answered so."""
    scheduler = Listener(answer)
    await scheduler.start("127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{scheduler.port}"
    finally:
        await scheduler.stop()


@pytest.fixture
async def board() -> AsyncIterator[Board]:
    """A board that shows this machine everything."""
    async with running_board() as found:
        yield found


async def fill(board: Board) -> dict[str, str]:
    """A cluster that is worth looking at; the uids of its Jobs and flows by name."""
    await board.put(QUEUES, {"metadata": {"name": "root"}, "spec": {"weight": 1}, "status": {"state": "Open"}})
    spec = {
        "weight": 1,
        "parent": "root",
        "deserved": {"cpu": "4"},
        "capability": {"cpu": "8"},
        "guarantee": {"resource": {"cpu": "2"}},
    }
    await board.put(
        QUEUES, {"metadata": {"name": "research"}, "spec": spec, "status": {"state": "Open", "allocated": {"cpu": "7"}}}
    )
    for number in range(3):
        metadata = {"name": f"node-{number}", "labels": {"rack": f"r{number % 2}"}}
        status = {
            "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await board.put(NODES, {"metadata": metadata, "status": status})
    uids = {
        "big": await board.job("team", "big", phase="Running"),
        "train": await board.job(
            "team",
            "train",
            code=FULL.partition("; ")[2],
            metadata={"labels": {"project": "llm"}, "annotations": {keys.SUBMITTED_BY: "ann"}},
        ),
        "secret": await board.job("other", "hidden-job", code=FULL.partition("; ")[2]),
        "lost": await board.job("team", "lost", phase="Failed"),
    }
    owner = {"apiVersion": JOBS.api_version, "kind": "Job", "name": "big", "uid": uids["big"], "controller": True}
    metadata = {"namespace": "team", "name": "big-worker-0", "labels": {keys.JOB_NAME: "big"}, "ownerReferences": [owner]}
    metadata["annotations"] = {keys.TASK_SPEC: "worker"}
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
    await board.put(
        PODS,
        {"metadata": metadata, "spec": {**POD, "nodeName": "node-0"}, "status": {"phase": "Running", "conditions": [bound]}},
    )
    entries = [{"name": "fetch"}, {"name": "train", "dependsOn": {"targets": ["fetch"]}}, {"name": "bad"}]
    ran = {"createTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:10:00Z"}
    flow = await board.put(
        JOB_FLOWS,
        {
            "metadata": {"namespace": "team", "name": "etl"},
            "spec": {"flows": entries, "jobRetainPolicy": "retain"},
            "status": {
                "state": {"phase": "Failed"},
                "completedJobs": ["etl-fetch"],
                "failedJobs": ["etl-bad"],
                "conditions": {
                    f"etl-{name}": {"phase": phase, **ran} for name, phase in (("fetch", "Completed"), ("bad", "Failed"))
                },
            },
        },
    )
    return {**uids, "etl": str(flow["metadata"]["uid"])}
