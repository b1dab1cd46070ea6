"""By which code programs, the web page and the metric say why Jobs wait."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

from tests.e2e.support.board import look
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.shell import Shell

PLACES = ("vcctl explain", "vcctl waiting", "the page", "the metric")
AT_ONCE = 4
LONGEST_SECONDS = 30.0
_COUNTED = re.compile(r'^pyroclast_waiting_jobs{code="(\w+)",queue="[^"]*"} [1-9]', re.MULTILINE)


async def codes_of(cluster: Cluster, jobs: Sequence[tuple[str, str, str]]) -> list[dict[str, str]]:
    """What each of the `PLACES` says of each job, empty for nothing; a job is its namespace, its name and the code to expect."""
    shell = Shell(cluster.kubeconfig, "default")

    async def vcctl(*arguments: str) -> Any:
        done = await asyncio.to_thread(shell.run, "vcctl", *arguments, "-o", "json")
        return json.loads(done.stdout)

    listed = {(each["namespace"], each["name"]): each["code"] for each in (await vcctl("waiting", "-A"))["items"]}
    expected = {code for _, _, code in jobs}
    counted = await _counted(cluster, expected)
    gate = asyncio.Semaphore(AT_ONCE)

    async def asked(namespace: str, name: str, code: str) -> dict[str, str]:
        async with gate:
            explained = (await vcctl("explain", name, "-n", namespace))["code"]
            shown = await _shown_at_last(cluster, namespace, name, code)
        said = (explained, listed.get((namespace, name), ""), shown, code if code in counted else "")
        return dict(zip(PLACES, said, strict=True))

    return list(await asyncio.gather(*(asked(*job) for job in jobs)))


async def _shown_at_last(cluster: Cluster, namespace: str, name: str, code: str) -> str:
    """The code on the web page, once it is the one to expect or the time is over: the page reads Leases every ten seconds."""
    found = ""
    for _ in range(int(LONGEST_SECONDS)):
        found = await asyncio.to_thread(_shown, cluster, namespace, name)
        if found == code:
            break
        await asyncio.sleep(1)
    return found


def _shown(cluster: Cluster, namespace: str, name: str) -> str:
    """The code in the row of a Job on the web page."""
    _, page = look(cluster, f"/jobs?namespace={namespace}")
    found = (re.search(rf'>{name}</a></th>.*href="/jobs\?code=(\w+)"', row, re.DOTALL) for row in page.split("</tr>"))
    return next((each[1] for each in found if each), "")


async def _counted(cluster: Cluster, expected: set[str]) -> set[str]:
    """The codes that the scheduler counts, once all that are expected are among them or the time is over."""
    found: set[str] = set()
    for _ in range(int(LONGEST_SECONDS)):
        found = set(_COUNTED.findall(await asyncio.to_thread(cluster.metrics, "scheduler")))
        if expected <= found:
            break
        await asyncio.sleep(1)
    return found
