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
from pyroclast_board.serving.proxies import RequestHeaders, forwarded_address
from pyroclast_board.serving.sessions import COOKIE, LONGEST_TOKEN, Sessions

__all__ = ["Viewers", "is_from_here", "scope_of"]

LOGIN_FIRST: Final = "log in with a token of the cluster"
PROXY_FIRST: Final = "this board is reached through the proxy that logs you in; programs show a token of the cluster"


class Viewers:
    """Tells who sent a request, and what that user may see.

    Args:
        access: asks the API server.
        sessions: opens cookies.
        is_open: whoever is on this machine sees everything, and nobody else is answered.
        proxy: believes a proxy that names users in headers; then there are no sessions, while programs still show tokens.
        review: seconds after which to ask again.
    """

    def __init__(
        self, access: Access, sessions: Sessions, *, is_open: bool, proxy: RequestHeaders | None = None, review: float = 60.0
    ) -> None:
        self._access, self._sessions, self.is_open = access, sessions, is_open
        self._proxy, self.review_seconds = proxy, review

    @property
    def has_form(self) -> bool:
        """Whether users log in here, and out."""
        return not self.is_open and self._proxy is None

    @property
    def longest_stream(self) -> float | None:
        """Seconds after which a stream must come through the proxy again, which alone knows whose login is over."""
        return None if self._proxy is None else self.review_seconds

    def address_of(self, request: web.BaseRequest) -> str:
        """Where a request came from; what it says itself of that counts only from the proxy."""
        peer = request.transport and request.transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        if self._is_proxied(request):
            return forwarded_address([*request.headers.items()]) or address
        return address

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
        if self._proxy is not None and self._is_proxied(request) and (user := self._proxy.user([*request.headers.items()])):
            return Reader(self._access, user)
        token = bearer_token(request.headers.get("Authorization", ""))
        if not token and self._proxy is not None:
            raise Denied(401, PROXY_FIRST)
        if not token:
            token = self._sessions.open(request.cookies.get(COOKIE, ""), now) or ""
        if not token:
            raise Denied(401, LOGIN_FIRST)
        return await self._access.bearer(token)

    def _is_proxied(self, request: web.BaseRequest) -> bool:
        """Whether the connection is the proxy's: its certificate was checked against the CA in the handshake."""
        if self._proxy is None or request.transport is None:
            return False
        return self._proxy.trusts(request.transport.get_extra_info("peercert"))

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
