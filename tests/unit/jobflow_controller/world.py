"""An API server, a job controller and users, in memory and under virtual time, around the real controllers of flows.

What the controllers ask for is answered as kube-apiserver does (uid and resourceVersion count, watches lag behind, answers get
lost), and kept as JSON, so that what they write is what they read.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from pyroclast.api.records import Job, JobFlow, JobTemplate
from pyroclast.api.types import COMMANDS, JOB_FLOWS, JOB_TEMPLATES, JOBS, Key, ResourceType
from pyroclast.kube.basics.errors import ApiError, Conflict, ConnectionFailed, NotFound
from pyroclast.kube.basics.observer import SILENT
from pyroclast.kube.http.client import PatchKind, encode
from pyroclast.kube.lease.shards import Shards
from pyroclast.lifecycle.times import format_time
from pyroclast.runtime.controllers import work
from pyroclast.runtime.traces import Traces
from pyroclast_jobflow_controller.app import build, make_reach
from pyroclast_jobflow_controller.caches import Caches, FlowMetrics, Shared
from pyroclast_jobflow_controller.settings import JobFlowSettings
from pyroclast_standalone.apiserver.documents.json_patch import merge
from tests.unit.ending import ended

NS = "n"
EPOCH = 1_700_000_000.0
RECORDS: dict[ResourceType, type[Any]] = {JOB_FLOWS: JobFlow, JOB_TEMPLATES: JobTemplate, JOBS: Job}
SPEC = {"tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]}


def now() -> float:
    return EPOCH + asyncio.get_running_loop().time()


class Events:
    """A recorder that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    def event(self, _: object, type_: str, reason: str, message: str) -> None:
        self.said.append((type_, reason, message))


class World:
    """The server's objects, and who watches. `faults` is the share of requests that fail, half of them after their work."""

    def __init__(self, rng: random.Random, *, faults: float = 0.0, lag: float = 0.05, collector: str = "") -> None:
        self.traces = Traces("jobflow", collector)
        self.rng, self.faults, self.lag = rng, faults, lag
        self.objects: dict[tuple[ResourceType, Key], dict[str, Any]] = {}
        self.pods: dict[str, list[dict[str, Any]]] = {}
        self.created: list[str] = []
        self.on_job: Callable[[str], None] = lambda _: None
        self.commands: list[dict[str, Any]] = []
        """Commands that were given: nobody keeps them."""
        self.status_writes = 0
        self.events = Events()
        self.user_agent = "pyroclast-jobflow-controller"
        self.settings = JobFlowSettings(probe_period="2s")
        self._versions, self._uids = itertools.count(1), itertools.count(1)
        self._caches: list[Caches] = []

    # what a client does

    async def create(self, kind: ResourceType, body: Mapping[str, Any], **_: object) -> dict[str, Any]:
        body = _plain(body)
        return await self._request(lambda: self._create(kind, body))

    async def get(self, kind: ResourceType, key: Key, **_: object) -> dict[str, Any]:
        return await self._request(lambda: self._found(kind, key))

    async def list(self, _: ResourceType, __: str = "", *, label_selector: str = "", **___: object) -> tuple[list[Any], str]:
        return self.pods.get(label_selector.partition("=")[2], []), "1"

    async def patch(
        self, kind: ResourceType, key: Key, body: Any, how: PatchKind, *, subresource: str = "", **_: object
    ) -> dict[str, Any]:
        assert how is PatchKind.MERGE
        body = _plain(body)
        if subresource == "status" and kind is JOB_FLOWS:
            self.status_writes += 1
        return await self._request(lambda: self._patch(kind, key, body, subresource))

    async def delete(self, kind: ResourceType, key: Key, *, uid: str = "", **_: object) -> dict[str, Any]:
        return await self._request(lambda: self.remove(kind, key, uid))

    async def _request(self, do: Any) -> dict[str, Any]:
        await asyncio.sleep(self.rng.random() * 0.01)
        fate = self.rng.random()
        if fate < self.faults / 2:
            raise ApiError.from_status(503, {"reason": "ServiceUnavailable", "message": "not now"})
        answer: dict[str, Any] = do()
        if fate < self.faults:
            raise ConnectionFailed("the answer was lost")
        return msgspec.json.decode(msgspec.json.encode(answer))  # type: ignore[no-any-return]

    # what the server does

    def put(self, kind: ResourceType, name: str, **parts: Any) -> None:
        """A user creates an object."""
        meta = {"name": name, "namespace": NS, **parts.pop("metadata", {})}
        self._create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **parts})

    def put_flow(self, *entries: dict[str, Any], template: Mapping[str, Any] = SPEC, **parts: Any) -> None:
        """A user creates the flow `f`, after a template for each of its entries that makes a Job."""
        for entry in entries:
            if "switch" not in entry:
                self.put(JOB_TEMPLATES, entry["name"], spec=template)
        self.put(JOB_FLOWS, "f", spec={"flows": list(entries)}, **parts)

    def change(self, kind: ResourceType, name: str, patch: dict[str, Any]) -> None:
        """Somebody changes an object."""
        self._patch(kind, Key(NS, name), patch, "status" if set(patch) == {"status"} else "")

    def remove(self, kind: ResourceType, key: Key, uid: str = "") -> dict[str, Any]:
        """Delete an object; it stays while it has finalizers."""
        body = self._found(kind, key)
        if uid and body["metadata"]["uid"] != uid:
            raise Conflict(409, "Conflict", "another uid")
        if body["metadata"].get("finalizers"):
            body["metadata"].setdefault("deletionTimestamp", format_time(now()))
            self._store(kind, key, body)
            return body
        del self.objects[kind, key]
        self._tell(kind, key, None)
        if kind is JOB_FLOWS:
            self._collect(body["metadata"]["uid"])
        return {"kind": "Status"}

    def job(self, name: str) -> dict[str, Any] | None:
        return self.objects.get((JOBS, Key(NS, name)))

    def flow(self, name: str = "f") -> dict[str, Any]:
        return self.objects[JOB_FLOWS, Key(NS, name)]

    def enter(self, name: str, phase: str, **status: Any) -> None:
        """The job controller moves a Job into a phase."""
        job = self.job(name)
        assert job is not None
        at = format_time(now())
        before = [each for each in (job.get("status") or {}).get("conditions", ()) if each["status"] != phase]
        state = {"phase": phase, "lastTransitionTime": at}
        conditions = [*before, {"status": phase, "lastTransitionTime": at}]
        self.change(JOBS, name, {"status": {"state": state, "conditions": conditions, **status}})

    def _create(self, kind: ResourceType, body: dict[str, Any]) -> dict[str, Any]:
        key = Key(NS, body["metadata"]["name"])
        if (kind, key) in self.objects:
            raise ApiError.from_status(409, {"reason": "AlreadyExists", "message": f"{key} is there"})
        if kind is COMMANDS:
            self.commands.append(body)
            return body
        body["metadata"] |= {"uid": f"u{next(self._uids)}", "creationTimestamp": format_time(now()), "generation": 1}
        if kind is JOBS:
            self.created.append(key.name)
            self.on_job(key.name)
        return self._store(kind, key, body)

    def _found(self, kind: ResourceType, key: Key) -> dict[str, Any]:
        try:
            return self.objects[kind, key]
        except KeyError:
            raise NotFound(404, "NotFound", f"{key} is not there") from None

    def _patch(self, kind: ResourceType, key: Key, patch: dict[str, Any], subresource: str) -> dict[str, Any]:
        body = self._found(kind, key)
        meta = patch.get("metadata", {})
        for field in ("uid", "resourceVersion"):
            if field in meta and meta[field] != body["metadata"][field]:
                raise Conflict(409, "Conflict", f"another {field}")
        parts = ("status",) if subresource else ("metadata", "spec")
        for part in parts:
            if part in patch:
                body = {**body, part: merge(body.get(part) or {}, patch[part])}
        if body["metadata"].get("deletionTimestamp") and not body["metadata"].get("finalizers"):
            self.objects[kind, key] = body
            body["metadata"]["finalizers"] = []
            return self.remove(kind, key)
        return self._store(kind, key, body)

    def _store(self, kind: ResourceType, key: Key, body: dict[str, Any]) -> dict[str, Any]:
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(next(self._versions))}}
        self.objects[kind, key] = body
        self._tell(kind, key, body)
        return body

    def _collect(self, owner: str) -> None:
        """The garbage collector."""
        for kind, key in [at for at, body in self.objects.items() if _is_owned(body, owner)]:
            self.remove(kind, key)

    def _tell(self, kind: ResourceType, key: Key, body: dict[str, Any] | None) -> None:
        for caches in self._caches:
            self._deliver(caches, kind, key, body)

    def _deliver(self, caches: Caches, kind: ResourceType, key: Key, body: dict[str, Any] | None) -> None:
        store = _store_of(caches, kind)
        encoded = encode(body) if body is not None else None

        def arrive() -> None:
            if encoded is None:
                store.drop(key)
            else:
                store.put(msgspec.json.decode(encoded, type=RECORDS[kind]))

        loop = asyncio.get_running_loop()
        times = caches.__dict__.setdefault("arrivals", {})
        times[kind] = max(times.get(kind, 0.0) + 1e-5, loop.time() + self.rng.random() * self.lag)  # in order within a kind
        loop.call_at(times[kind], arrive)

    # the controllers

    @asynccontextmanager
    async def controller(self) -> AsyncIterator[None]:
        """The controllers of one process, from their first list to the moment at which they are killed."""
        loop = asyncio.get_running_loop()
        caches = Caches(self, loop.time)  # type: ignore[arg-type]
        for (kind, _), body in self.objects.items():
            _store_of(caches, kind).put(msgspec.json.decode(encode(body), type=RECORDS[kind]))
        self._caches.append(caches)
        registry = CollectorRegistry()
        shared = Shared(self, self.events, Shards(), now, loop.time, caches, FlowMetrics(registry))  # type: ignore[arg-type]
        async with make_reach(self.settings) as reach:
            controllers = build(_Service(self.traces), self.settings, shared, reach)  # type: ignore[arg-type]
            task = loop.create_task(work(shared, controllers, 0))
            try:
                yield
                if task.done():
                    task.result()
            finally:
                self._caches.remove(caches)
                await ended(task)


class _Service:
    observer = SILENT

    def __init__(self, traces: Traces) -> None:
        self.traces = traces


def _store_of(caches: Caches, kind: ResourceType) -> Any:
    informer = {JOB_FLOWS: caches.flows.informer, JOB_TEMPLATES: caches.templates, JOBS: caches.jobs.informer}[kind]
    return informer._store


def _is_owned(body: Mapping[str, Any], owner: str) -> bool:
    return any(each["uid"] == owner for each in body["metadata"].get("ownerReferences", ()))


def _plain(body: Any) -> Any:
    return msgspec.json.decode(encode(body))
