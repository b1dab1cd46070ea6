"""What kube-proxy does for the Service of the webhooks: one address of this machine, behind it the pods that are ready.

There is no pod network here, and an API server gives pods of loopback addresses no EndpointSlices. So the API server calls by
`webhook.url`, and each of its connections goes to a pod that the Service would choose at that moment.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

from pyroclast.api.types import PODS
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client

CHUNK = 64 * 1024
SELECTOR = "app=volcano-admission"


def ready_endpoints(pods: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Address and port of the pods that a Service would choose: ready ones that do not end."""
    return [
        (pod["status"]["podIP"], port["containerPort"])
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))
        for port in pod["spec"]["containers"][0]["ports"]
        if port["name"] == "admission"
    ]


@contextlib.asynccontextmanager
async def webhook_endpoints(kubeconfig: Path) -> AsyncIterator[int]:
    """Listen until the end; the port. Connections are passed to ready pods in turn, and closed where there are none."""
    turn = count()
    async with Client(load_config(str(kubeconfig)), user_agent="kube-proxy") as client:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            pods, _ = await client.list(PODS, label_selector=SELECTOR)
            endpoints = ready_endpoints(pods)
            with contextlib.closing(writer), contextlib.suppress(OSError):
                if endpoints:
                    address, port = endpoints[next(turn) % len(endpoints)]
                    await _join(reader, writer, *await asyncio.open_connection(address, port))

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()


async def _join(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pod_reader: asyncio.StreamReader, pod_writer: asyncio.StreamWriter
) -> None:
    with contextlib.closing(pod_writer):
        both = (asyncio.create_task(_pass_on(reader, pod_writer)), asyncio.create_task(_pass_on(pod_reader, writer)))
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for each in both:
            each.cancel()
        await asyncio.wait(both)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
