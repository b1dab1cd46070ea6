"""What a watcher of a Job sees while its lifecycle goes on, with the real controller in virtual time, and what may happen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pyroclast.api.types import COMMANDS, JOBS, PODS, Key
from pyroclast.kube.http.client import PatchKind

from .cluster import NS, authorized
from .memory_cluster import MemoryCluster, key_of

STEP = 0.05
GRACE = 0.5
QUIET = 3.0
"""Seconds after which nothing more is to be expected: longer than any pace and settling."""


class Watched:
    """A cluster whose nodes run and release pods, and whose watcher notes the phases of the Job `j`; a star: with pods going."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster, self.trace = cluster, [""]
        self.held: set[str] = set()
        cluster.server.on_write = self._seen

    def _seen(self, _: str, kind: str, item: dict[str, Any]) -> None:
        if kind != JOBS.qualified:
            return
        status = item.get("status") or {}
        phase = status.get("state", {}).get("phase", "")
        if self.trace[-1].rstrip("*") != phase:
            self.trace.append(phase)
        if status.get("terminating") and phase.endswith("ing") and phase not in ("Pending", "Running"):
            self.trace[-1] = f"{phase}*"

    async def nodes(self) -> None:
        """Let gangs in, run pods, and let those go that are deleted."""
        since: dict[str, float] = {}
        while True:
            now = asyncio.get_running_loop().time()
            self.cluster.admit()
            self.cluster.bind()
            for pod in self.cluster.pods():
                uid, meta = pod["metadata"]["uid"], pod["metadata"]
                if "deletionTimestamp" in meta:
                    if now - since.setdefault(uid, now) >= GRACE:
                        self.cluster.server.delete(PODS, key_of(pod), grace=0)
                elif pod["status"]["phase"] == "Pending" and meta["name"] not in self.held:
                    self.cluster.set_phase(pod, "Running")
            await asyncio.sleep(STEP)

    async def reaches(self, phase: str) -> None:
        await self.cluster.until(lambda: self.cluster.phase("j") == phase)
        await asyncio.sleep(QUIET)

    def pod(self, name: str) -> dict[str, Any]:
        return self.cluster.server.of(PODS)[Key(NS, f"j-{name}")]

    def order(self, action: str) -> None:
        uid = self.cluster.server.of(JOBS)[Key(NS, "j")]["metadata"]["uid"]
        target = {"apiVersion": JOBS.api_version, "kind": "Job", "name": "j", "uid": uid, "controller": True}
        self.cluster.server.create(COMMANDS, authorized(action, target, generateName="order-"))


PhaseWork = Callable[[Watched], object]


def fails(name: str, code: int = 1) -> PhaseWork:
    return lambda watched: watched.cluster.set_phase(watched.pod(name), "Failed", code)


def succeeds(*names: str) -> PhaseWork:
    def work(watched: Watched) -> None:
        for name in names:
            watched.cluster.set_phase(watched.pod(name), "Succeeded")

    return work


def is_evicted(name: str) -> PhaseWork:
    return lambda watched: watched.cluster.server.delete(PODS, key_of(watched.pod(name)))


def is_ordered(action: str) -> PhaseWork:
    return lambda watched: watched.order(action)


def restarts(name: str, times: int) -> PhaseWork:
    """A container of a pod is restarted so often."""

    def work(watched: Watched) -> None:
        container = {"name": "c", "ready": True, "restartCount": times, "state": {"running": {}}}
        status = {"status": {"phase": "Running", "containerStatuses": [container]}}
        watched.cluster.server.patch(PODS, key_of(watched.pod(name)), status, PatchKind.MERGE, "status")

    return work
