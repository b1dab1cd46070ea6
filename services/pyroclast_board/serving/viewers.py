"""Who looks: a token in a header or in a sealed cookie, or whoever is on this machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from pyroclast.runtime.access import Access, Denied, Reader
from pyroclast.runtime.visitors import bearer_token, is_local
from pyroclast_board.pages.base import Scope
from pyroclast_board.serving.sessions import COOKIE, LONGEST_TOKEN, Sessions

__all__ = ["Viewers", "is_from_here", "scope_of"]

LOGIN_FIRST: Final = "log in with a token of the cluster"


class Viewers:
    """Tells who sent a request, and what that user may see.

    Args:
        access: asks the API server.
        sessions: opens cookies.
        is_open: whoever is on this machine sees everything, and nobody else is answered.
    """

    def __init__(self, access: Access, sessions: Sessions, *, is_open: bool) -> None:
        self._access, self._sessions, self.is_open = access, sessions, is_open

    async def of(self, request: web.BaseRequest, now: float) -> Reader:
        """Who sent a request.

        Raises:
            Denied: nobody that the API server knows.
        """
        if self.is_open:
            if not is_local(request.transport and request.transport.get_extra_info("peername")) or not _is_local_name(
                request.host
            ):
                raise Denied(403, "this board is for the machine that it runs on, by the name localhost or 127.0.0.1")
            return Reader(self._access, None)
        token = bearer_token(request.headers.get("Authorization", ""))
        if not token:
            token = self._sessions.open(request.cookies.get(COOKIE, ""), now) or ""
        if not token:
            raise Denied(401, LOGIN_FIRST)
        return await self._access.bearer(token)

    async def log_in(self, token: str, now: float) -> str:
        """The cookie of a new session.

        Raises:
            Denied: nobody's token that the API server knows, or one that does not fit into a cookie.
        """
        token = token.strip()
        if not token:
            raise Denied(401, LOGIN_FIRST)
        if len(token) > LONGEST_TOKEN or not token.isascii() or not token.isprintable():
            raise Denied(401, f"a token is at most {LONGEST_TOKEN} printable characters")
        await self._access.bearer(token)
        return self._sessions.seal(token, now)


async def scope_of(reader: Reader, namespaces: Iterable[str]) -> Scope:
    """What a viewer may see of these namespaces.

    Raises:
        Denied: the API server cannot be asked.
    """
    if await reader.sees_all():
        return Scope(is_all=True)
    return Scope(namespaces=frozenset(await reader.visible(namespaces)))


def is_from_here(request: web.BaseRequest) -> bool:
    """Whether a form that changes something was sent by a page of this host, as far as the browser tells."""
    site = request.headers.get("Sec-Fetch-Site", "")
    if site and site not in {"same-origin", "none"}:
        return False
    origin = request.headers.get("Origin", "")
    return not origin or urlsplit(origin).netloc == request.host


def _is_local_name(host: str) -> bool:
    """Whether a Host header names this machine; a page elsewhere whose name leads here does not."""
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
