"""An API server in memory, as far as the job controller sees one: for tests with virtual time, counted writes and faults.

The embedded API server is what behaviour is tested on; this one has no sockets, so that hours pass in milliseconds and every
answer can be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from pyroclast.api.types import JOBS, PODS, Key, ResourceType
from pyroclast.kube.basics.errors import AlreadyExists, ApiError, Conflict, ConnectionFailed, KubeError, NotFound
from pyroclast.kube.basics.observer import SILENT
from pyroclast.kube.http.client import PatchKind, encode
from pyroclast.lifecycle.times import format_time
from pyroclast_standalone.apiserver.documents.json_patch import merge

EPOCH = 1_700_000_000.0
LATENCY = 0.002


class MemoryServer:
    """Objects by kind and key, a history, and those who watch."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[Key, dict[str, Any]]] = {}
        self.kinds: dict[str, ResourceType] = {}
        self.version = 1
        self.writes: Counter[tuple[str, str]] = Counter()
        self.reads: Counter[tuple[str, str]] = Counter()
        self.watchers: list[tuple[str, str, asyncio.Queue[bytes | None]]] = []
        self.on_write: Callable[[str, str, dict[str, Any]], None] = lambda *_: None
        self.admit: Callable[[ResourceType, dict[str, Any]], dict[str, Any]] = lambda _, item: item
        """What webhooks make of an object that is to be created."""
        self.documents: dict[str, dict[str, Any]] = {}
        """What discovery answers, by path."""

    def now(self) -> float:
        return EPOCH + asyncio.get_running_loop().time()

    def of(self, kind: ResourceType) -> dict[Key, dict[str, Any]]:
        self.kinds[kind.qualified] = kind
        return self.objects.setdefault(kind.qualified, {})

    def create(self, kind: ResourceType, body: Mapping[str, Any]) -> dict[str, Any]:
        item = self.admit(kind, json.loads(encode(body)))
        meta = item["metadata"]
        key = Key(meta.get("namespace", ""), meta.get("name") or f"{meta['generateName']}{self.version}")
        if key in self.of(kind):
            raise AlreadyExists(409, "AlreadyExists", f"{key} already exists")
        uid = f"00000000-0000-4000-8000-{self.version:012d}"
        meta.update(name=key.name, uid=uid, creationTimestamp=format_time(self.now()), generation=1)
        if kind == PODS:
            item.setdefault("status", {"phase": "Pending"})
        return self._changed(kind, key, item, "ADDED")

    def patch(self, kind: ResourceType, key: Key, body: Any, how: PatchKind, subresource: str = "") -> dict[str, Any]:
        there = self.of(kind).get(key)
        if there is None:
            raise NotFound(404, "NotFound", f"{key} not found")
        body = json.loads(encode(body))
        if how is PatchKind.JSON:
            item = _json_patched(there, body)
        else:
            for field in ("uid", "resourceVersion"):
                wanted = (body.get("metadata") or {}).get(field)
                if wanted and wanted != there["metadata"][field]:
                    raise Conflict(409, "Conflict", f"{field} of {key} is {there['metadata'][field]}, not {wanted}")
            item = merge(there, {name: value for name, value in body.items() if name == "status"} if subresource else body)
        if item == there:
            return copy.deepcopy(there)
        if item.get("spec") != there.get("spec"):
            item["metadata"]["generation"] = there["metadata"].get("generation", 1) + 1
        return self._changed(kind, key, item, "MODIFIED")

    def delete(self, kind: ResourceType, key: Key, uid: str = "", grace: int | None = None) -> dict[str, Any]:
        there = self.of(kind).get(key)
        if there is None:
            raise NotFound(404, "NotFound", f"{key} not found")
        if uid and there["metadata"]["uid"] != uid:
            raise Conflict(409, "Conflict", f"{key} has another uid")
        if kind == PODS and grace is None and there.get("spec", {}).get("nodeName"):
            if "deletionTimestamp" in there["metadata"]:
                return copy.deepcopy(there)
            item = copy.deepcopy(there)
            item["metadata"].update(deletionTimestamp=format_time(self.now() + 30), deletionGracePeriodSeconds=30)
            return self._changed(kind, key, item, "MODIFIED")
        del self.of(kind)[key]
        self._tell(kind, there, "DELETED")
        if kind == JOBS:
            self._collect(there["metadata"]["uid"])
        return {"kind": "Status", "status": "Success"}

    def cut_watches(self) -> None:
        for _, _, lines in self.watchers:
            lines.put_nowait(None)

    def _collect(self, uid: str) -> None:
        for name, items in self.objects.items():
            for key, item in list(items.items()):
                if any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences") or ()):
                    self.delete(self.kinds[name], key, grace=0)

    def _changed(self, kind: ResourceType, key: Key, item: dict[str, Any], type_: str) -> dict[str, Any]:
        self.of(kind)[key] = item
        self._tell(kind, item, type_)
        return copy.deepcopy(item)

    def _tell(self, kind: ResourceType, item: dict[str, Any], type_: str) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        line = json.dumps({"type": type_, "object": item}).encode()
        for watched, selector, lines in self.watchers:
            if watched == kind.qualified and _selects(selector, item):
                lines.put_nowait(line)
        self.on_write(type_, kind.qualified, item)


class MemoryClient:
    """What the controller calls; `fault` may raise before a write is done, or, given its answer, after."""

    def __init__(self, server: MemoryServer) -> None:
        self.server, self.observer = server, SILENT
        self.fault: Callable[[bool], KubeError | None] = lambda _: None
        self.latency: Callable[[], float] = lambda: LATENCY
        self.outages = 0
        self.user_agent = "pyroclast-job-controller"

    def now(self) -> float:
        return self.server.now()

    async def request(self, verb: str, path: str) -> bytes:
        await asyncio.sleep(LATENCY)
        self.server.reads[verb, path] += 1
        if path not in self.server.documents:
            raise NotFound(404, "NotFound", f"{path} not found")
        return json.dumps(self.server.documents[path]).encode()

    async def get(self, kind: ResourceType, key: Key, **_: Any) -> dict[str, Any]:
        await asyncio.sleep(LATENCY)
        self.server.reads["get", kind.qualified] += 1
        there = self.server.of(kind).get(key)
        if there is None:
            raise NotFound(404, "NotFound", f"{key} not found")
        return copy.deepcopy(there)

    async def create(self, kind: ResourceType, body: Mapping[str, Any], *, dry_run: bool = False, **_: Any) -> dict[str, Any]:
        if dry_run:
            return await self._write("dry run", kind, lambda: self.server.admit(kind, json.loads(encode(body))))
        return await self._write("create", kind, lambda: self.server.create(kind, body))

    async def patch(self, kind: ResourceType, key: Key, body: Any, how: PatchKind, *, subresource: str = "", **_: Any) -> Any:
        return await self._write("patch", kind, lambda: self.server.patch(kind, key, body, how, subresource))

    async def delete(
        self, kind: ResourceType, key: Key, *, uid: str = "", grace_seconds: int | None = None, **_: Any
    ) -> dict[str, Any]:
        return await self._write("delete", kind, lambda: self.server.delete(kind, key, uid, grace_seconds))

    async def _write(self, verb: str, kind: ResourceType, do: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        await asyncio.sleep(self.latency())
        if error := self.fault(False):
            raise error
        self.server.writes[verb, kind.qualified] += 1
        answer = do()
        await asyncio.sleep(LATENCY)
        if error := self.fault(True):
            raise error
        return answer

    async def list(
        self, kind: ResourceType, namespace: str = "", *, field_selector: str = "", **_: Any
    ) -> tuple[list[dict[str, Any]], str]:
        await asyncio.sleep(LATENCY)
        self.server.reads["list", kind.qualified] += 1
        items = [item for key, item in self.server.of(kind).items() if namespace in ("", key.namespace)]
        if field_selector.startswith("metadata.name="):
            items = [item for item in items if item["metadata"]["name"] == field_selector.partition("=")[2]]
        return copy.deepcopy(items), str(self.server.version)

    async def list_page(self, kind: ResourceType, namespace: str, query: Mapping[str, str]) -> bytes:
        await asyncio.sleep(LATENCY)
        selector = query.get("labelSelector", "")
        items = [item for item in self.server.of(kind).values() if _selects(selector, item)]
        meta = {"resourceVersion": str(self.server.version)}
        return json.dumps({"kind": f"{kind.kind}List", "metadata": meta, "items": items}).encode()

    async def watch(
        self, kind: ResourceType, namespace: str, query: Mapping[str, str], *, silence: float
    ) -> AsyncGenerator[list[bytes]]:
        if "sendInitialEvents" in query:
            raise ApiError(400, "BadRequest", "lists are not streamed")
        if query.get("resourceVersion") != str(self.server.version):
            raise ApiError.from_status(410, {"reason": "Expired", "message": "too old"})
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        watcher = (kind.qualified, query.get("labelSelector", ""), lines)
        self.server.watchers.append(watcher)
        try:
            yield []
            while (line := await lines.get()) is not None:
                batch = [line]
                while not lines.empty() and (more := lines.get_nowait()) is not None:
                    batch.append(more)
                yield batch
            raise ConnectionFailed("cut")
        finally:
            with contextlib.suppress(ValueError):
                self.server.watchers.remove(watcher)


def _selects(selector: str, item: dict[str, Any]) -> bool:
    labels = item["metadata"].get("labels") or {}
    return selector[1:] not in labels if selector.startswith("!") else not selector or selector in labels


def _json_patched(old: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    result = copy.deepcopy(old)
    for operation in operations:
        *path, last = operation["path"].strip("/").split("/")
        place: Any = result
        for part in path:
            place = place[int(part)] if isinstance(place, list) else place[part]
        if operation["op"] == "test":
            if place[last] != operation["value"]:
                raise Conflict(409, "Conflict", f"{operation['path']} differs")
        elif isinstance(place, list):
            place[int(last)] = operation["value"]
        else:
            place[last] = operation["value"]
    return result
