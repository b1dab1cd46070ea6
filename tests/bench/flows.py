"""What flows cost: `python -m tests.bench.flows`.

The jobflow controller runs as a process of its own against the embedded API server; this program takes the part of the job
controller and moves each Job through Pending and Running to Completed. Told are the controller's CPU time per started Job, the
writes of statuses of flows per change of a Job's phase, and a fixed loop of Python in between: the pace of a machine varies.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.records import Job
from pyroclast.api.types import CRDS, JOB_FLOWS, JOB_TEMPLATES, JOBS, Key
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.watch.informer import Informer
from pyroclast.lifecycle.times import format_time
from tests.unit.running import RunningServer, running_server

from .usage import cpu_seconds, fixed_loop

NS = "default"
LAYERS, WIDTH = 10, 50
FLOWS, ENTRIES = 200, 10
KINDS = {kind.qualified for kind in (JOBS, JOB_FLOWS, JOB_TEMPLATES)}
PHASES = ("Pending", "Running", "Completed")
SPEC = {"tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]}


def layered() -> list[dict[str, Any]]:
    """One flow of many entries in layers; each waits for three of the layer before."""
    entries: list[dict[str, Any]] = []
    for layer in range(LAYERS):
        for place in range(WIDTH):
            before = [f"e{layer - 1}-{(place + step) % WIDTH}" for step in range(3)] if layer else []
            entries.append({"name": f"e{layer}-{place}", **({"dependsOn": {"targets": before}} if before else {})})
    return [flow("f", entries)]


def many() -> list[dict[str, Any]]:
    """Many flows of few entries, one after the other."""
    chain = [{"name": f"s{at}", **({"dependsOn": {"targets": [f"s{at - 1}"]}} if at else {})} for at in range(ENTRIES)]
    return [flow(f"f{number}", chain) for number in range(FLOWS)]


def flow(name: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """A JobFlow."""
    meta = {"name": name, "namespace": NS}
    return {"apiVersion": JOB_FLOWS.api_version, "kind": "JobFlow", "metadata": meta, "spec": {"flows": entries}}


class Driver:
    """Moves Jobs through their phases, some at a time."""

    def __init__(self, client: Client, group: asyncio.TaskGroup) -> None:
        self._client, self._group = client, group
        self._slots = asyncio.Semaphore(24)
        self._seen: set[str] = set()
        self.transitions = 0

    def changed(self, _: Job | None, new: Job | None) -> None:
        """A Job was made."""
        if new is not None and new.metadata.uid not in self._seen:
            self._seen.add(new.metadata.uid)
            self._group.create_task(self._live(new.key))

    async def _live(self, key: Key) -> None:
        done: list[dict[str, str]] = []
        for phase in PHASES:
            async with self._slots:
                at = format_time(time.time())
                done.append({"status": phase, "lastTransitionTime": at})
                status = {"state": {"phase": phase, "lastTransitionTime": at}, "conditions": done}
                await self._client.patch(JOBS, key, {"status": status}, PatchKind.MERGE, subresource="status")
            self.transitions += 1
            await asyncio.sleep(0.3)


async def measure(title: str, flows: list[dict[str, Any]]) -> None:
    """Run `flows` to their end and tell what that cost the controller."""
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        for crd in custom_resource_definitions():
            if crd["metadata"]["name"] in KINDS:
                await client.create(CRDS, crd)
        await server.settle()
        names = {entry["name"] for body in flows for entry in body["spec"]["flows"]}
        for name in names:
            meta = {"name": name, "namespace": NS}
            body = {"apiVersion": JOB_TEMPLATES.api_version, "kind": "JobTemplate", "metadata": meta, "spec": SPEC}
            await created(client, JOB_TEMPLATES, body)
        flags = (f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", "--log-level=error", "--enable-metrics=false")
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "pyroclast_jobflow_controller", *flags)
        try:
            await asyncio.sleep(6)
            await run(title, flows, server, client, process.pid)
        finally:
            process.terminate()
            await process.wait()


async def run(title: str, flows: list[dict[str, Any]], server: RunningServer, client: Client, pid: int) -> None:
    """The measured part."""
    jobs = sum(len(body["spec"]["flows"]) for body in flows)
    before, began = cpu_seconds(pid), time.monotonic()
    server.forget_requests()
    async with asyncio.TaskGroup() as group:
        driver = Driver(client, group)
        informer = Informer(client, JOBS, Job)
        informer.on_change(driver.changed)
        watching = group.create_task(informer.run())
        for body in flows:
            await created(client, JOB_FLOWS, body)
        while True:
            items, _ = await client.list(JOB_FLOWS, NS)
            if all((item.get("status") or {}).get("state", {}).get("phase") == "Succeed" for item in items):
                break
            await asyncio.sleep(1)
        watching.cancel()
    used = cpu_seconds(pid) - before
    patched = [(info.resource, info.subresource) for info in server._seen if info.verb == "patch"]
    writes = patched.count(("jobflows", "status"))
    print(
        f"{title}: {jobs} Jobs in {time.monotonic() - began:.1f} s, controller {used * 1000 / jobs:.2f} ms CPU per Job, "
        f"{writes} writes of flow statuses for {driver.transitions} changes of phase ({writes / driver.transitions:.2f})"
    )


async def created(client: Client, kind: Any, body: dict[str, Any]) -> None:
    """Create an object of a kind that may not be served yet."""
    for _ in range(100):
        try:
            await client.create(kind, body)
        except NotFound:
            await asyncio.sleep(0.05)
        else:
            return


def main() -> None:
    """Measure both shapes."""
    print(f"fixed loop {fixed_loop(3_000_000):.3f} s")
    for title, flows in (("one flow in layers", layered()), ("many flows", many())):
        asyncio.run(measure(title, flows))
        print(f"fixed loop {fixed_loop(3_000_000):.3f} s")


if __name__ == "__main__":
    main()
