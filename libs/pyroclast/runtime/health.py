"""Health checks, and the HTTP server of health checks and metrics."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from pyroclast.runtime.access import is_from_this_machine

if TYPE_CHECKING:
    from aiohttp import web

    from pyroclast.runtime.listener import Listener


Check = Callable[[], str | None]
"""A check returns None on success, else the reason of its failure."""
Page = Callable[[], tuple[str, bytes] | Awaitable[tuple[str, bytes]]]
"""A page returns its content type and body."""

Admit = Callable[[str, str], Awaitable[tuple[int, str] | None]]
"""Decides by an Authorization header and a path; returns the HTTP status and text of a refusal, or None."""

Branch = Callable[["web.BaseRequest"], Awaitable["web.StreamResponse"]]
"""Answers every request below a path, and checks the rights itself."""

DEBUG: Final = "/debug/"
"""The pages below this path show names and objects of all users."""

HEADER_BYTES: Final = 16 * 1024


class Checks:
    """Named checks of one kind, such as liveness."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Add or replace a check."""
        self._checks[name] = check

    def failures(self, only: str = "") -> dict[str, str]:
        """Return the failing checks and their reasons; a check that raises fails. `only`: the name of the only check to run;
        empty for all.
        """
        return {name: why for name in self._checks if (not only or name == only) and (why := self._why(name)) is not None}

    def report(self, title: str, only: str = "") -> tuple[bool, str]:
        """Return whether all checks pass, and a text with one line for each check."""
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
    trusts_local: bool = False,
) -> Listener:
    """Serve health checks and pages at `address`; the caller must call `stop` of the returned listener.

    Args:
        checks: checks by path without slash, such as `livez`.
        pages: pages by path with slash, such as `/metrics`; looked up at each request.
        admit: decides which users may read pages below `/debug/`.
        trusts_local: processes of this machine may read these pages without a token.
        branches: branches by the first part of the path, such as `explain`; looked up at each request.

    Raises:
        StartFailure: the server cannot listen on the address.
    """
    from aiohttp import web  # noqa: PLC0415 - a service without a server needs no aiohttp

    from pyroclast.runtime.listener import Listener  # noqa: PLC0415 - the same

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if branches and (branch := branches.get(path.strip("/").partition("/")[0])):
            return await branch(request)
        if page := pages.get(path):
            if path.startswith(DEBUG) and not (trusts_local and is_from_this_machine(request)):
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
