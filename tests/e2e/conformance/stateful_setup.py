"""What both servers must have before random writes are sent to them."""

from __future__ import annotations

import asyncio

from tests.e2e.conformance.driver import Server
from tests.e2e.conformance.stateful_kinds import definition
from tests.e2e.conformance.stateful_writes import NODES

__all__ = ["set_up"]

_SECONDS = 30.0


async def set_up(server: Server) -> None:
    """Create the nodes that pods are bound to, and the custom kind; returns when it is served."""
    for node in NODES:
        await server.request("POST", "/api/v1/nodes", {"metadata": {"name": node}})
    await server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    async with asyncio.timeout(_SECONDS):
        while (await server.request("GET", "/apis/stateful.example.org/v1/gauges"))[0] != 200:
            await asyncio.sleep(0.1)
