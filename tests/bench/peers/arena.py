"""One control plane on which two sides take turns, and what a run on it costs.

While kube-scheduler places pods, our services are paused; while ours do, kube-scheduler is stopped. The simulated nodes serve
both. An idle Kueue stays, and so does our admission, which is asked only about objects of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from pyroclast.api.records import Pod
from pyroclast.api.types import BATCH_JOBS, JOBS, NAMESPACES, PODS, Key, ResourceType
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from tests.bench.throughput import WRITES, delete_all, each, used_since
from tests.bench.usage import cpu_seconds, memory
from tests.e2e.support.cluster import Cluster

Side = Literal["ours", "theirs"]
Reached = Literal["bound", "ended"]
OURS: Side = "ours"
THEIRS: Side = "theirs"
SCHEDULERS = {OURS: "volcano", THEIRS: "default-scheduler"}
LOAD = "peers/object"
"""Label of pods: the name of the object of the load that they belong to."""
PATIENCE = 900.0
POLL_SECONDS = 0.05
REST_SECONDS = 5.0  # what is written after the last pod belongs to the run
_SERVING_BOTH = ("nodes", "admission")
_NOT_COUNTED = ("kubernetes-admin", "pyroclast-nodes")
"""Whose writes belong to neither side: this client and the kubelets."""


@dataclass(frozen=True, slots=True)
class Item:
    """An object of a load, and how many seconds after the first it is created. `group` names it where waits are told apart."""

    kind: ResourceType
    body: dict[str, Any]
    after: float = 0.0
    group: str = ""

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Task:
    """What a run does: create `items` and wait until `count` pods of theirs are bound or ended.

    Before that, `placed` pods of `before` are bound. They are no part of what is measured.
    """

    items: Sequence[Item]
    count: int
    reached: Reached = "bound"
    before: Sequence[Item] = ()
    placed: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """CPU seconds and resident MB by program, writes by user, and the mean seconds until all pods of an object were bound."""

    seconds: float
    cpu: dict[str, float]
    memory: dict[str, float]
    writes: Counter[str]
    waits: dict[str, float]


@dataclass(slots=True)
class Progress:
    """What the pods of certain objects have reached, and when the last of each object was bound."""

    objects: set[str]
    bound: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    last_bind: dict[str, float] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or (name := pod.metadata.labels.get(LOAD, "")) not in self.objects:
            return
        uid = pod.metadata.uid
        if new is None:
            self.bound.discard(uid)
        elif pod.spec.node_name and uid not in self.bound:
            self.bound.add(uid)
            self.last_bind[name] = time.monotonic()
        if new is not None and pod.status.phase == "Succeeded":
            self.ended.add(uid)
        self.changed.set()

    async def until(self, reached: Reached, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.bound if reached == "bound" else self.ended) < count:
                self.changed.clear()
                await self.changed.wait()


class Arena:
    """Runs loads for one side or the other, each in a namespace of its own that is empty again afterwards."""

    def __init__(self, cluster: Cluster, client: Client, further: dict[str, int]) -> None:
        self.cluster, self.client = cluster, client
        self._further = further
        self._numbers = itertools.count()

    @contextlib.asynccontextmanager
    async def only(self, side: Side) -> AsyncIterator[None]:
        """Let only this side place pods, and wait until it has placed one."""
        assert self.cluster.server is not None
        server, rival = self.cluster.server, self.cluster.server.plane.scheduler
        with contextlib.ExitStack() as stack:
            if side == THEIRS:
                paused = [name for name in self.cluster.pids if name not in _SERVING_BOTH]
                stack.enter_context(self.cluster.standing_aside(*paused))
            elif rival is not None:
                server.do(rival.stop())
                stack.callback(lambda: server.do(rival.start()))
            container = {"name": "c", "image": "busybox:1.37", "command": ["sleep", "1"]}
            spec = {"schedulerName": SCHEDULERS[side], "restartPolicy": "Never", "containers": [container]}
            await self.run(Task([Item(PODS, {"metadata": {"name": "first", "labels": {LOAD: "first"}}, "spec": spec})], 1))
            yield

    async def run(self, task: Task) -> Outcome:
        """Do `task` in a namespace of its own, and tell what it took."""
        async with self._after(task.before, task.placed) as namespace:
            earlier = sum(1 for _ in self.cluster.audit.events())
            async with self._watched(namespace, task.items) as progress:
                used, began = self._cpu(), time.monotonic()
                made = await self.create(namespace, task.items)
                await progress.until(task.reached, task.count)
                seconds = time.monotonic() - began
                await asyncio.sleep(REST_SECONDS)
            cpu = used_since(used, self._cpu())
            held = {program: memory(pid) for program, pid in self._pids().items()}
            return Outcome(seconds, cpu, held, self._writes(earlier), _means(task.items, made, progress.last_bind))

    async def one_by_one(self, task: Task, is_done: Callable[[str, dict[str, Any]], Awaitable[bool]]) -> float:
        """Mean seconds from the creation of each of the items until it `is_done`. It is deleted before the next one comes."""
        seconds = []
        async with self._after(task.before, task.placed) as namespace:
            for item in task.items:
                began = time.monotonic()
                body = {"apiVersion": item.kind.api_version, "kind": item.kind.kind, **item.body}
                made = await self.client.create(item.kind, body, namespace=namespace)
                async with asyncio.timeout(PATIENCE):
                    while not await is_done(namespace, made):
                        await asyncio.sleep(POLL_SECONDS)
                seconds.append(time.monotonic() - began)
                await self.client.delete(item.kind, Key(namespace, item.name))
                await asyncio.sleep(REST_SECONDS)
        return sum(seconds) / len(seconds)

    @contextlib.asynccontextmanager
    async def _after(self, before: Sequence[Item], placed: int) -> AsyncIterator[str]:
        """A namespace in which `placed` pods of `before` are bound; nothing is left in it afterwards."""
        name = f"run-{next(self._numbers)}"
        await self.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        try:
            if before:
                async with self._watched(name, before) as progress:
                    await self.create(name, before)
                    await progress.until("bound", placed)
                await asyncio.sleep(REST_SECONDS)
            yield name
        finally:
            await self._clear(name)

    @contextlib.asynccontextmanager
    async def _watched(self, namespace: str, items: Sequence[Item]) -> AsyncIterator[Progress]:
        progress = Progress({item.name for item in items})
        pods: Informer[Pod] = Informer(self.client, PODS, Pod, namespace=namespace)
        pods.on_change(progress.note)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(pods.run())
            await pods.synced()
            yield progress
            watching.cancel()

    async def create(self, namespace: str, items: Sequence[Item]) -> dict[str, float]:
        """Create all, each at its time; when each was, by name."""
        made: dict[str, float] = {}
        began = time.monotonic()

        async def create(item: Item) -> None:
            await asyncio.sleep(began + item.after - time.monotonic())
            made[item.name] = time.monotonic()
            body = {"apiVersion": item.kind.api_version, "kind": item.kind.kind, **item.body}
            await self.client.create(item.kind, body, namespace=namespace if item.kind.namespaced else "")

        await each(sorted(items, key=lambda item: item.after), create)
        return made

    async def _clear(self, namespace: str) -> None:
        for kind in (JOBS, BATCH_JOBS):
            keys = [Key(namespace, found["metadata"]["name"]) for found in (await self.client.list(kind, namespace))[0]]
            await each(keys, lambda key, kind=kind: self.client.delete(kind, key))
        while (await self.client.list(PODS, namespace))[0]:
            await delete_all(self.client, namespace)
        await self.client.delete(NAMESPACES, Key("", namespace))
        with contextlib.suppress(NotFound):
            while await self.client.get(NAMESPACES, Key("", namespace)):
                await asyncio.sleep(POLL_SECONDS)

    def _pids(self) -> dict[str, int]:
        assert self.cluster.server is not None
        parts = {part.name: part.pid for part in self.cluster.server.plane.parts if part.pid is not None}
        return self.cluster.pids | parts | self._further

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self._pids().items()}

    def _writes(self, earlier: int) -> Counter[str]:
        """Of the programs of both sides, in the events after the first `earlier`; renewals of Leases are not counted."""
        return Counter(
            user
            for event in islice(self.cluster.audit.events(), earlier, None)
            if event["verb"] in WRITES
            and (user := event["user"]["username"].rpartition(":")[2]) not in _NOT_COUNTED
            and event.get("objectRef", {}).get("resource") != "leases"
        )


def _means(items: Sequence[Item], made: dict[str, float], last_bind: dict[str, float]) -> dict[str, float]:
    waits: dict[str, list[float]] = {}
    for item in items:
        if item.group and item.name in last_bind:
            waits.setdefault(item.group, []).append(last_bind[item.name] - made[item.name])
    return {group: sum(seconds) / len(seconds) for group, seconds in waits.items()}
