"""HTTP requests and TCP connections to pods, with a time limit, and only to addresses that pods have."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from types import TracebackType
from typing import Self

import aiohttp

from pyroclast.api.records import HttpGetProbe


class Reach:
    """Probes pods; an async context manager. Each result is the failure as a text, empty on success.

    Args:
        timeout: the limit in seconds for a whole probe.
        local: whether loopback and link-local addresses are probed too. Pods that are processes of this machine have such
            addresses. On a cluster they would give access to services of the machine itself.
    """

    def __init__(self, timeout: float, *, local: bool = False) -> None:
        self._timeout, self._local = timeout, local
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        limit = aiohttp.ClientTimeout(total=self._timeout)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self._session = aiohttp.ClientSession(timeout=limit, connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, ip: str, probe: HttpGetProbe) -> str:
        """Send a GET request. A status from 200 to 399 is a success.

        Redirections are not followed and the body is not read.
        """
        problem = self._forbidden(ip)
        if problem or self._session is None:
            return problem or "probes are not running"
        host = f"[{ip}]" if ":" in ip else ip
        path = probe.path if probe.path.startswith("/") else f"/{probe.path}"
        url = f"http://{host}:{probe.port}{path}"
        headers = {probe.http_header.name: probe.http_header.value} if probe.http_header is not None else {}
        try:
            async with self._session.get(url, headers=headers, allow_redirects=False) as answer:
                return "" if 200 <= answer.status < 400 else f"{url} answered {answer.status}"
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            return f"{url}: {_words(error)}"

    async def connect(self, ip: str, port: int) -> str:
        """Open a TCP connection. A connection that the pod accepts is a success."""
        problem = self._forbidden(ip)
        if problem:
            return problem
        try:
            async with asyncio.timeout(self._timeout):
                _, writer = await asyncio.open_connection(ip, port)
        except (OSError, OverflowError, TimeoutError) as error:
            return f"{ip} port {port}: {_words(error)}"
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):  # the connection was accepted, so an error on closing does not matter
            async with asyncio.timeout(self._timeout):
                await writer.wait_closed()
        return ""

    def _forbidden(self, ip: str) -> str:
        """Return the reason why the address is not probed. The text is empty when the address is allowed."""
        try:
            address = ipaddress.ip_address(ip)
        except ValueError:
            return f'"{ip}" is no address'
        mapped = getattr(address, "ipv4_mapped", None) or address
        if mapped.is_multicast or mapped.is_unspecified:
            return f"{ip} is not the address of a pod"
        if (mapped.is_loopback or mapped.is_link_local) and not self._local:
            return f"{ip} is a local address, which is probed only with --probe-local-addresses"
        return ""


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
