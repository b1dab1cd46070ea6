"""Runs cases on servers side by side."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.conformance.cases import Case, load_shared
from tests.e2e.conformance.driver import Server, Transcript, connect
from tests.e2e.conformance.hooks import hook_server

_AT_ONCE = 4
_SHARED_SECONDS = 30.0


async def compared(
    real: Path, ours: Path, cases: Sequence[Case], folder: Path
) -> AsyncIterator[tuple[Case, Transcript, Transcript]]:
    """Each case with its two transcripts, the real one first."""
    async for case, (one, other) in transcripts({"real": real, "ours": ours}, cases, folder):
        yield case, one, other


async def transcripts(
    servers: Mapping[str, Path], cases: Sequence[Case], folder: Path
) -> AsyncIterator[tuple[Case, list[Transcript]]]:
    """Each case with what each of the servers answered. `servers`: kubeconfigs by name."""
    async with contextlib.AsyncExitStack() as stack:
        hooks = [await stack.enter_async_context(hook_server(folder / f"hooks-{name}")) for name in servers]
        connected = [
            await stack.enter_async_context(connect(name, path, hook))
            for (name, path), hook in zip(servers.items(), hooks, strict=True)
        ]
        await asyncio.gather(*map(_set_up, connected))
        gate = asyncio.Semaphore(_AT_ONCE)
        for wave in _waves(cases):
            tasks = [asyncio.ensure_future(_all(gate, connected, case)) for case in wave]
            try:
                for case, task in zip(wave, tasks, strict=True):
                    yield case, await task
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


def _waves(cases: Sequence[Case]) -> list[list[Case]]:
    """The cases about webhooks come first: their webhooks see what others do to objects without a namespace."""
    watchful = [case for case in cases if case.id.startswith("webhooks:")]
    return [watchful, [case for case in cases if case not in watchful]]


async def _all(gate: asyncio.Semaphore, servers: Sequence[Server], case: Case) -> list[Transcript]:
    async with gate:
        return await asyncio.gather(*(_whole(server, case) for server in servers))


async def _whole(server: Server, case: Case) -> Transcript:
    """The transcript, or what went wrong instead: a difference like any other."""
    try:
        return await server.run(case)
    except Exception as error:  # noqa: BLE001 - it is shown beside the other side's transcript
        return [{"failed": f"{type(error).__name__}: {error}"}]


async def _set_up(server: Server) -> None:
    """Create the shared objects that are not there, and wait until their kinds are served."""
    for document in load_shared():
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await server.request("POST", path, document)
        name = document["metadata"]["name"]
        version = next(v["name"] for v in document["spec"]["versions"] if v["served"])
        collection = f"/apis/{document['spec']['group']}/{version}/{document['spec']['names']['plural']}"
        async with asyncio.timeout(_SHARED_SECONDS):
            while (await server.request("GET", collection))[0] != 200 or not await _is_established(server, f"{path}/{name}"):
                await asyncio.sleep(0.1)


async def _is_established(server: Server, path: str) -> bool:
    _, _, content = await server.request("GET", path)
    conditions: list[dict[str, Any]] = json.loads(content).get("status", {}).get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
