"""Health checks and the HTTP server that answers for them, and for metrics."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from pyroclast.runtime.visitors import is_local

if TYPE_CHECKING:
    from aiohttp import web

    from pyroclast.runtime.listener import Listener

__all__ = ["Branch", "Check", "Checks", "Page", "serve"]

Check = Callable[[], str | None]
"""None when all is well, else why not."""
Page = Callable[[], tuple[str, bytes] | Awaitable[tuple[str, bytes]]]
"""Content type and body."""

Admit = Callable[[str, str], Awaitable[tuple[int, str] | None]]
"""Takes an Authorization header and a path; HTTP status and words of a refusal, or None."""

Branch = Callable[["web.BaseRequest"], Awaitable["web.StreamResponse"]]
"""Answers every request below a path, rights included."""

DEBUG: Final = "/debug/"
"""What is below shows names and objects of all users."""

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
    flag: str,
    address: str,
    checks: Mapping[str, Checks],
    pages: Mapping[str, Page],
    tls: ssl.SSLContext | None = None,
    *,
    admit: Admit,
    branches: Mapping[str, Branch] | None = None,
) -> Listener:
    """Serve health and pages at `address`; the caller calls `stop` on what is returned.

    Args:
        flag: the setting that `address` comes from, for the error.
        address: where to listen.
        checks: by path without slash, such as `livez`.
        pages: by path with slash, such as `/metrics`; looked up at each request.
        tls: serve TLS with this.
        admit: says who of another machine may see what is below `/debug/`.
        branches: by the first part of the path, such as `explain`; looked up at each request.

    Raises:
        StartFailure: the address cannot be listened on.
    """
    from aiohttp import web  # noqa: PLC0415 - a service that serves nothing needs none of it

    from pyroclast.runtime.listener import Listener  # noqa: PLC0415 - the same

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if branches and (branch := branches.get(path.strip("/").partition("/")[0])):
            return await branch(request)
        if page := pages.get(path):
            if path.startswith(DEBUG) and not is_local(request.transport and request.transport.get_extra_info("peername")):
                refused = await admit(request.headers.get("Authorization", ""), path)
                if refused is not None:
                    return web.Response(status=refused[0], text=f"{refused[1]}\n")
            made = page()
            content_type, body = made if isinstance(made, tuple) else await made
            return web.Response(body=body, headers={"Content-Type": content_type})
        title, _, only = path.strip("/").partition("/")
        found = checks.get(title)
        if found is None or (only and only not in found):
            return web.Response(status=404, text="404 page not found\n")
        well, text = found.report(title, only)
        if well and "verbose" not in request.query:
            text = "ok"
        return web.Response(status=200 if well else 500, text=text)

    listener = Listener(answer, tls=tls, max_field_size=HEADER_BYTES, shutdown_timeout=1.0)
    await listener.start_at(address, f"--{flag}")
    return listener
