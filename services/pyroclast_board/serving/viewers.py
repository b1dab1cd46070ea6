"""Authentication: a token in a header or in a sealed cookie, headers of a proxy, or a user of this machine without login."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from pyroclast.runtime.access import Access, Denied, Reader, bearer_token, is_local
from pyroclast_board.pages.base import Scope
from pyroclast_board.serving.proxies import RequestHeaders, forwarded_address
from pyroclast_board.serving.sessions import COOKIE, LONGEST_TOKEN, Sessions

LOGIN_FIRST: Final = "log in with a token of the cluster"
PROXY_FIRST: Final = "this board is reached through the proxy that logs you in; programs show a token of the cluster"


class Viewers:
    """Authenticates requests, and returns the rights of users.

    Args:
        access: checks users and rights at the API server.
        sessions: opens cookies.
        is_open: whether every user of this machine sees everything, and requests from other machines are refused.
        proxy: accepts users that a proxy names in headers. Then there are no login sessions, but programs may still send tokens.
        review: seconds after which rights are checked again.
    """

    def __init__(
        self, access: Access, sessions: Sessions, *, is_open: bool, proxy: RequestHeaders | None = None, review: float = 60.0
    ) -> None:
        self._access, self._sessions, self.is_open = access, sessions, is_open
        self._proxy, self.review_seconds = proxy, review

    @property
    def has_form(self) -> bool:
        """Whether users log in and out with a form."""
        return not self.is_open and self._proxy is None

    @property
    def longest_stream(self) -> float | None:
        """Seconds after which a stream must connect again through the proxy, which alone knows whether the login has expired."""
        return None if self._proxy is None else self.review_seconds

    def address_of(self, request: web.BaseRequest) -> str:
        """Return the address of the client. Headers with that address are used only if the proxy sent them."""
        peer = request.transport and request.transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        if self._is_proxied(request):
            return forwarded_address([*request.headers.items()]) or address
        return address

    async def of(self, request: web.BaseRequest, now: float) -> Reader:
        """Return the user of a request.

        Raises:
            Denied: the API server does not know the user.
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
        """Return whether the connection is the proxy's, by the certificate that the TLS handshake has verified."""
        if self._proxy is None or request.transport is None:
            return False
        return self._proxy.trusts(request.transport.get_extra_info("peercert"))

    async def log_in(self, token: str, now: float) -> str:
        """Return the cookie of a new login session.

        Raises:
            Denied: the API server does not know the token, or the token does not fit into a cookie.
        """
        token = token.strip()
        if not token:
            raise Denied(401, LOGIN_FIRST)
        if len(token) > LONGEST_TOKEN or not token.isascii() or not token.isprintable():
            raise Denied(401, f"a token is at most {LONGEST_TOKEN} printable characters")
        await self._access.bearer(token)
        return self._sessions.seal(token, now)


async def scope_of(reader: Reader, namespaces: Iterable[str]) -> Scope:
    """Return which of these namespaces a viewer may see.

    Raises:
        Denied: the API server does not answer.
    """
    if await reader.sees_all():
        return Scope(is_all=True)
    return Scope(namespaces=frozenset(await reader.visible(namespaces)))


def is_from_here(request: web.BaseRequest) -> bool:
    """Return whether a page of this host sent the form, as far as the browser's headers show."""
    site = request.headers.get("Sec-Fetch-Site", "")
    if site and site not in {"same-origin", "none"}:
        return False
    origin = request.headers.get("Origin", "")
    return not origin or urlsplit(origin).netloc == request.host


def _is_local_name(host: str) -> bool:
    """Return whether a Host header names this machine. A foreign page whose DNS name resolves to this machine is refused."""
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
