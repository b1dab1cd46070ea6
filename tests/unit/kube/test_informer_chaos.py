"""Whatever happens between server and informer, the copy ends as the original, and handlers saw a history that leads there."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from pyroclast.api.records.pods import Pod
from pyroclast.api.types import PODS, Key
from pyroclast.kube.watch.follower import Timing
from pyroclast.kube.watch.informer import Informer
from tests.unit.ending import ended
from tests.unit.kube.fault_server import FaultServer, Got, Observed, answer, cut, reset, status

TIMING = Timing(watch=(1.0, 1.0), slack=0.1, first_pause=0.005, longest_pause=0.02, settled=0.1)


@dataclass
class History:
    """The pods of an API server: what is, and what happened since the last compaction."""

    rng: random.Random
    revision: int = 10
    compacted: int = 10
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def change(self) -> None:
        """One random write."""
        self.revision += 1
        name = f"p{self.rng.randrange(12)}"
        if name not in self.objects:
            kind, self.objects[name] = "ADDED", self._pod(name, uid=f"uid-{self.revision}")
        elif self.rng.random() < 0.3:
            kind = "DELETED"
        else:
            kind, self.objects[name] = "MODIFIED", self._pod(name, uid=self.objects[name]["metadata"]["uid"])
        item = self.objects[name]
        if kind == "DELETED":
            gone = self.objects.pop(name)
            item = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.revision)}}
        self.events.append({"type": kind, "object": item})
        async with self.changed:
            self.changed.notify_all()

    def _pod(self, name: str, uid: str) -> dict[str, Any]:
        spec: Any = {"nodeName": f"n{self.revision}"} if self.rng.random() > 0.05 else "does not decode"
        return {"metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(self.revision)}, "spec": spec}

    def compact(self) -> None:
        """Forget what happened so far."""
        self.compacted, self.events = self.revision, []

    def after(self, revision: int) -> list[dict[str, Any]]:
        return [event for event in self.events if int(event["object"]["metadata"]["resourceVersion"]) > revision]


class Chaotic:
    """List and watch of a history, with faults."""

    def __init__(self, history: History, rng: random.Random) -> None:
        self.history = history
        self.rng = rng
        self.calm = False

    def _unlucky(self, chance: float) -> bool:
        return not self.calm and self.rng.random() < chance

    async def list(self, got: Got) -> None:
        if self._unlucky(0.3):
            await self.rng.choice([cut, reset, status(500, "InternalError"), status(429, "TooManyRequests", Retry_After="0")])(
                got
            )
            return
        history = self.history
        items = sorted(history.objects.values(), key=lambda item: item["metadata"]["name"])
        if got.query.get("limit") == "1":
            items = items[:1]
        await answer(200, {"metadata": {"resourceVersion": str(history.revision)}, "items": items})(got)

    async def watch(self, got: Got) -> None:
        import json

        revision = int(got.query["resourceVersion"])
        if revision < self.history.compacted:
            await status(410, "Expired")(got)
            return
        got.start(200, {"Transfer-Encoding": "chunked"})
        sent: list[bytes] = []

        async def send(data: bytes) -> None:
            got.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await got.writer.drain()

        while True:
            if revision < self.history.compacted:
                expired = {
                    "type": "ERROR",
                    "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "compacted"},
                }
                await send(json.dumps(expired).encode() + b"\n")
                break
            for event in self.history.after(revision):
                line = json.dumps(event).encode() + b"\n"
                if self._unlucky(0.03):
                    await send(line[: len(line) // 2])
                    got.writer.close()
                    return
                if self._unlucky(0.03):
                    await reset(got)
                    return
                if sent and self._unlucky(0.1):
                    await send(self.rng.choice(sent))  # again, or late
                await send(line)
                sent.append(line)
                revision = int(event["object"]["metadata"]["resourceVersion"])
            if self._unlucky(0.1):
                bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(revision)}}}
                await send(json.dumps(bookmark).encode() + b"\n")
            if self._unlucky(0.05):
                break
            async with self.history.changed:
                await self.history.changed.wait()
        got.writer.write(b"0\r\n\r\n")


@pytest.mark.parametrize("seed", range(6))
async def test_informer_cache_converges_to_the_server_state_despite_faults(server: FaultServer, seed: int) -> None:
    rng = random.Random(seed)
    history = History(rng)
    chaotic = Chaotic(history, rng)
    server.on("GET /api/v1/pods", chaotic.list).on("WATCH /api/v1/pods", chaotic.watch)
    mirror: dict[Key, Pod] = {}

    def follow(old: Pod | None, new: Pod | None) -> None:
        about = new or old
        assert about is not None
        before = mirror.pop(about.key, None)
        assert (before is None) == (old is None), "an addition of what is there, or a change of what is not"
        if old is not None and new is not None:
            assert before is old
            assert old.metadata.uid == new.metadata.uid
            assert int(old.metadata.resource_version) < int(new.metadata.resource_version)
        if new is not None:
            mirror[about.key] = new

    observed = Observed()
    async with server.client(observer=observed) as client:
        informer = Informer(client, PODS, Pod, timing=TIMING, indexers={"node": lambda pod: [pod.spec.node_name]})
        informer.on_change(follow)
        running = asyncio.ensure_future(informer.run())
        async with asyncio.timeout(60):
            await informer.synced()
        for step in range(400):
            await history.change()
            if rng.random() < 0.02:
                history.compact()
            if step % 4 == 0:
                await asyncio.sleep(rng.uniform(0, 0.005))
        chaotic.calm = True
        await history.change()
        original = {item["metadata"]["resourceVersion"] for item in history.objects.values() if isinstance(item["spec"], dict)}
        async with asyncio.timeout(60):
            while {pod.metadata.resource_version for pod in informer.values()} != original:
                await asyncio.sleep(0.01)
                assert not running.done()
        await ended(running)
    assert mirror == {pod.key: pod for pod in informer.values()}
    assert "handler_error" not in observed.incidents
    assert observed.incidents
    for pod in informer.values():
        assert informer.by_index("node", pod.spec.node_name) == [pod]
