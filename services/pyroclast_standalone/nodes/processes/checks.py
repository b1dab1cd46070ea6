"""HTTP and TCP probes of processes. The runtime itself runs probes with a command."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp

from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.probes import ProbeResult


async def ask(probe: records.Probe, container_ports: Mapping[str, int], pod_ip: str) -> ProbeResult:
    """Run an `httpGet` or `tcpSocket` probe against the pod."""
    seconds = max(1, probe.timeout_seconds)
    if probe.http_get is not None:
        return await _http(probe.http_get, _port(probe.http_get, container_ports), pod_ip, seconds)
    target = probe.tcp_socket or probe.grpc or {}
    host = str(target.get("host") or pod_ip)
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, _port(target, container_ports))
        writer.close()
    except (OSError, TimeoutError) as error:
        return ProbeResult(ok=False, message=f"dial tcp {host}: {error or 'i/o timeout'}")
    return ProbeResult(ok=True)


async def _http(get: Mapping[str, Any], port: int, pod_ip: str, seconds: float) -> ProbeResult:
    scheme = str(get.get("scheme") or "HTTP").lower()
    url = f"{scheme}://{get.get('host') or pod_ip}:{port}/{str(get.get('path') or '').lstrip('/')}"
    headers = {str(header["name"]): str(header.get("value", "")) for header in get.get("httpHeaders") or ()}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session,
            session.get(url, headers=headers, ssl=False) as answer,
        ):
            if 200 <= answer.status < 400:
                return ProbeResult(ok=True)
            return ProbeResult(ok=False, message=f"HTTP probe failed with statuscode: {answer.status}")
    except (aiohttp.ClientError, TimeoutError) as error:
        return ProbeResult(ok=False, message=f'Get "{url}": {error or "context deadline exceeded"}')


def _port(target: Mapping[str, Any], ports: Mapping[str, int]) -> int:
    port = target.get("port")
    return ports.get(port, 0) if isinstance(port, str) and not port.isdigit() else int(port or 0)
