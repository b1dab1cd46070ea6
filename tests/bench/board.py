"""What the web page costs: `python -m tests.bench.board [--jobs 10000] [--changes 200] [--viewers 50] [--seconds 20]`.

An embedded API server and the board run as processes. Told are the times of pages, filters and orders, their bytes, and the
memory of the board. Then Jobs change while viewers follow lists with different filters. Told are the time from a change to its
message, the processor time of the board, and the times of pages in the meantime. In the end somebody filters and orders the list
in Chromium, if it is there, while Jobs change.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp

from pyroclast.api import crds
from pyroclast.api.schedulers import SCHEDULER_NAMES
from pyroclast.api.types import CRDS, JOBS, LEASES, NAMESPACES, POD_GROUPS, Key
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast_standalone.processes import free_port
from tests.unit.board.browser import running_browser

from .usage import cpu_seconds, memory

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}]}}
FULL = "waits: QueueFull: not now: it asks for 16 cpu; queue research may have at most 16 cpu, it has 14"
QUEUES, SPACES, AT_ONCE = 20, 50, 32
PAGES = {
    "overview": "/",
    "queues": "/queues",
    "jobs": "/jobs",
    "filter": "/jobs?state=waiting&queue=q-7&text=job-1",
    "sort": "/jobs?sort=-name",
    "group": "/jobs?group=namespace",
    "csv": "/jobs.csv",
}


ENTER, BACKSPACE = "\ue007", "\ue003"
OBSERVE: Final = """
window.figures = { tasks: [], interactions: [], changes: 0 };
new PerformanceObserver((list) => list.getEntries().forEach((each) => figures.tasks.push(each.duration)))
  .observe({ type: "longtask" });
new PerformanceObserver((list) => list.getEntries().forEach((each) => {
  if (each.interactionId) figures.interactions.push(each.duration);
})).observe({ type: "event", durationThreshold: 16 });
new MutationObserver(() => { figures.changes += 1; }).observe(document, { childList: true, subtree: true });
"""
FOCUS: Final = """document.querySelector('input[name="text"]').focus()"""
HEAD: Final = """document.querySelectorAll("th a[data-swap]")[arguments[0]].focus()"""


@contextlib.asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    started = await asyncio.create_subprocess_exec(sys.executable, "-m", *arguments, stdout=asyncio.subprocess.DEVNULL)
    try:
        yield started
    finally:
        started.terminate()
        await started.wait()


async def fill(client: Client, jobs: int) -> None:
    """Jobs with their PodGroups: every fourth runs."""
    for space in range(SPACES):
        await client.create(NAMESPACES, {"metadata": {"name": f"team-{space}"}})
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with gate:
            namespace, name, queue = f"team-{number % SPACES}", f"job-{number}", f"q-{number % QUEUES}"
            task = {"name": "worker", "replicas": 8, "template": TEMPLATE}
            spec = {"schedulerName": "volcano", "queue": queue, "minAvailable": 8, "tasks": [task]}
            metadata = {"name": name, "namespace": namespace, "labels": {"project": f"p-{number % 7}"}}
            made = await client.create(JOBS, {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": metadata, "spec": spec})
            runs = number % 4 == 0
            state = {"phase": "Running"} if runs else {"phase": "Pending", "message": FULL}
            await client.patch(JOBS, Key(namespace, name), {"status": {"state": state}}, PatchKind.MERGE, subresource="status")
            owner = {
                "apiVersion": JOBS.api_version,
                "kind": "Job",
                "name": name,
                "uid": made["metadata"]["uid"],
                "controller": True,
            }
            group = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup"}
            group |= {"metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]}}
            group |= {"spec": {"queue": queue, "minMember": 8, "minResources": {"cpu": "16", "memory": "32Gi"}}}
            await client.create(POD_GROUPS, group | {"status": {"phase": "Running" if runs else "Pending"}})

    await asyncio.gather(*(one(number) for number in range(jobs)))


@contextlib.asynccontextmanager
async def scheduler_at_work(client: Client) -> AsyncIterator[None]:
    """The Lease of a scheduler, without which each Job that waits says that nobody serves it."""

    def spec() -> dict[str, Any]:
        return {"spec": {"holderIdentity": "bench", "renewTime": datetime.now(UTC).isoformat(timespec="microseconds")}}

    async def renew() -> None:
        while True:
            await asyncio.sleep(5)
            await client.patch(LEASES, Key("default", "volcano"), spec(), PatchKind.MERGE)

    metadata = {"name": "volcano", "annotations": {SCHEDULER_NAMES: "volcano"}}
    await client.create(LEASES, {"metadata": metadata, **spec()}, namespace="default")
    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        renewing.cancel()


async def timed(session: aiohttp.ClientSession, url: str, times: int = 10) -> tuple[float, float, int]:
    """Milliseconds of the median and the slowest of some requests, and the compressed bytes of the last."""
    took, size = [], 0
    for _ in range(times):
        begun = time.perf_counter()
        async with session.get(url) as answer:
            body = await answer.read()
            assert answer.status == 200, body[:500]
        took.append((time.perf_counter() - begun) * 1000)
        size = len(body)
    return statistics.median(took), max(took), size


async def follow(session: aiohttp.ClientSession, url: str, seen: dict[str, float], late: list[float], sizes: list[int]) -> None:
    """Note how long after a change its message comes, by the number that the change wrote into the Job."""
    async with session.get(url) as answer:
        async for line in answer.content:
            if line.startswith(b"data: ["):
                sizes.append(len(line))
                for kind, _, _, html in json.loads(line[6:]):
                    if kind == "row" and "change-" in html:
                        number = html.partition("change-")[2].partition('"')[0].partition("<")[0]
                        if number in seen:
                            late.append(time.perf_counter() - seen[number])


async def change(client: Client, jobs: int, a_second: int, seconds: int, seen: dict[str, float]) -> int:
    """Write into the status of Jobs, evenly; how many writes were done."""
    done = 0
    begun = time.perf_counter()
    pending: set[asyncio.Task[Any]] = set()
    for number in itertools.count():
        now = time.perf_counter() - begun
        if now > seconds:
            break
        if number > now * a_second:
            await asyncio.sleep(number / a_second - now)
        which = number * 37 % jobs
        which += which % 4 == 0  # one that waits
        seen[str(number)] = time.perf_counter()
        status = {"status": {"state": {"phase": "Pending", "message": f"{FULL}, change-{number}"}}}
        key = Key(f"team-{which % SPACES}", f"job-{which}")
        task = asyncio.create_task(client.patch(JOBS, key, status, PatchKind.MERGE, subresource="status"))
        pending.add(task)
        task.add_done_callback(pending.discard)
        done += 1
    await asyncio.gather(*pending)
    return done


@dataclass(frozen=True, slots=True)
class Tab:
    """What a tab noted: milliseconds of tasks over 50 and of interactions over 16, how often the page changed, keys pressed."""

    tasks: list[float]
    interactions: list[float]
    changes: int
    keys: int


async def worked_in(url: str, seconds: float) -> Tab:
    """Filter and order the list of Jobs at `url` by keys for so long."""
    keys = 0
    async with running_browser() as browser:
        await browser.open(url)
        await browser.run(OBSERVE)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for number in range(3):
                await browser.run(FOCUS)
                for key in (*"job", ENTER, *(BACKSPACE,) * 3, ENTER):
                    await browser.keys(key)
                    await asyncio.sleep(0.2)
                await browser.run(HEAD, number)
                await browser.keys(ENTER)
                await asyncio.sleep(0.5)
                keys += 9
        return Tab(**await browser.run("return figures"), keys=keys)


async def main(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ports = free_port(), free_port()
        kubeconfig, url = Path(folder) / "kubeconfig", f"http://127.0.0.1:{ports[1]}"
        async with process("pyroclast_standalone.apiserver", "--data-dir", folder, "--port", str(ports[0])):
            while not kubeconfig.exists():
                await asyncio.sleep(0.05)
            await asyncio.sleep(1)
            async with Client(load_config(str(kubeconfig))) as client:
                for crd in crds.custom_resource_definitions():
                    await client.create(CRDS, crd)
                await asyncio.sleep(1)
                await fill(client, options.jobs)
                page = ("--login", "local", "--page-address", f"127.0.0.1:{ports[1]}", "--log-level", "warning")
                async with scheduler_at_work(client), process("pyroclast_board", "--kubeconfig", str(kubeconfig), *page) as board:
                    await measure(client, board.pid, url, options)


async def measure(client: Client, pid: int, url: str, options: argparse.Namespace) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(None)) as session:
        for _ in range(600):
            with contextlib.suppress(aiohttp.ClientConnectionError):
                async with session.get(url):
                    break
            await asyncio.sleep(0.1)
        print(f"{options.jobs} Jobs; memory of the board: {memory(pid):.0f} MB")
        for name, path in PAGES.items():
            median, slowest, size = await timed(session, url + path)
            print(f"  {name:9} {median:7.1f} ms, slowest {slowest:7.1f} ms, {size / 1000:7.1f} kB")
        seen: dict[str, float] = {}
        late: list[float] = []
        sizes: list[int] = []
        queries = [f"/live/jobs?queue=q-{number % QUEUES}&state=waiting&sort=name" for number in range(options.viewers)]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(None)) as session:
        readers = [asyncio.create_task(follow(session, f"{url}{query}&seen=x", seen, late, sizes)) for query in queries]
        await asyncio.sleep(5)
        sizes.clear()
        before = cpu_seconds(pid)
        begun = time.perf_counter()
        asking = asyncio.create_task(timed(session, f"{url}/jobs?sort=-name", times=options.seconds))
        writes = await change(client, options.jobs, options.changes, options.seconds, seen)
        took = time.perf_counter() - begun
        cpu = cpu_seconds(pid) - before
        median, slowest, _ = await asking
        told, largest, messages = sorted(late), max(sizes, default=0) / 1000, len(sizes)
        if shutil.which("chromedriver"):
            working = asyncio.create_task(worked_in(f"{url}/jobs?state=waiting&sort=name", options.seconds))
            await change(client, options.jobs, options.changes, options.seconds, {})
            tab = await working
            print(f"in a tab that changed {tab.changes} times while {tab.keys} keys were pressed:")
            print(f"  the slowest interaction {max(tab.interactions, default=16):.0f} ms, {len(tab.interactions)} over 16 ms")
            print(f"  {len(tab.tasks)} tasks over 50 ms, the longest {max(tab.tasks, default=0):.0f} ms")
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    rate, share = writes / took, cpu / took * 100
    print(f"{options.viewers} viewers, {rate:.0f} changes/s for {took:.0f} s: processor {share:.0f} % of a core")
    if not told:
        raise SystemExit("no change reached a viewer")
    print(f"  from a change to its message: {statistics.median(told):.2f} s, 99 %: {told[len(told) * 99 // 100]:.2f} s")
    print(f"  {messages / took / options.viewers:.2f} messages a second and viewer, the largest {largest:.1f} kB")
    print(f"  a page meanwhile: {median:.0f} ms, slowest {slowest:.0f} ms; memory of the board: {memory(pid):.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=20)
    asyncio.run(main(parser.parse_args()))
