"""Health checks and the HTTP server that answers for them, and for metrics."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pyroclast.runtime.addresses import split_address
from pyroclast.runtime.errors import StartFailure

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["Check", "Checks", "Page", "serve"]

Check = Callable[[], str | None]
"""None when all is well, else why not."""
Page = Callable[[], tuple[str, bytes]]
"""Content type and body."""

HEADER_BYTES: Final = 16 * 1024


class Checks:
    """Named checks of one kind, such as liveness."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Add or replace a check."""
        self._checks[name] = check

    def failures(self, only: str = "") -> dict[str, str]:
        """The checks that fail and why; a check that raises fails. `only` restricts to one name."""
        return {name: why for name in self._checks if (not only or name == only) and (why := self._why(name)) is not None}

    def report(self, title: str, only: str = "") -> tuple[bool, str]:
        """Whether all is well, and a line for each check."""
        failures = self.failures(only)
        names = ["ping", *self._checks]
        lines = [
            f"[-]{name} failed: {failures[name]}" if name in failures else f"[+]{name} ok"
            for name in names
            if not only or name == only
        ]
        lines.append(f"{title} check {'failed' if failures else 'passed'}")
        return not failures, "\n".join(lines) + "\n"

    def __contains__(self, name: str) -> bool:
        return name == "ping" or name in self._checks

    def _why(self, name: str) -> str | None:
        try:
            return self._checks[name]()
        except Exception as error:  # noqa: BLE001 - a broken check must answer, not fail the request
            return f"the check itself failed: {error!r}"


async def serve(
    flag: str, address: str, checks: Mapping[str, Checks], pages: Mapping[str, Page], tls: ssl.SSLContext | None = None
) -> web.AppRunner:
    """Serve health and pages at `address`; the caller calls `cleanup` on what is returned.

    Args:
        flag: the setting that `address` comes from, for the error.
        address: where to listen.
        checks: by path without slash, such as `livez`.
        pages: by path with slash, such as `/metrics`; looked up at each request.
        tls: serve TLS with this.

    Raises:
        StartFailure: the address cannot be listened on.
    """
    from aiohttp import web  # noqa: PLC0415 - a service that serves nothing needs none of it

    async def answer(request: web.Request) -> web.Response:
        path = request.path
        if page := pages.get(path):
            content_type, body = page()
            return web.Response(body=body, headers={"Content-Type": content_type})
        title, _, only = path.strip("/").partition("/")
        found = checks.get(title)
        if found is None or (only and only not in found):
            return web.Response(status=404, text="404 page not found\n")
        well, text = found.report(title, only)
        if well and "verbose" not in request.query:
            text = "ok"
        return web.Response(status=200 if well else 500, text=text)

    server = web.Application()
    server.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(server, access_log=None, handle_signals=False, max_field_size=HEADER_BYTES, shutdown_timeout=1.0)
    await runner.setup()
    host, port = split_address(address)
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls, reuse_address=True).start()
    except OSError as error:
        await runner.cleanup()
        raise StartFailure(f"--{flag}: cannot listen on {address}: {error.strerror or error}") from error
    return runner
