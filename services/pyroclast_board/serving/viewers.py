"""Authentication: a token in a header or in a sealed cookie, headers of a proxy, or a user of this machine without login.

The headers of a proxy are accepted only on a connection with a client certificate of the proxy's CA.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pyroclast.runtime.access import Access, Denied, Reader, bearer_token, is_from_this_machine
from pyroclast.runtime.tls import common_names
from pyroclast_board.pages.base import Scope

EVERYBODY: Final = "system:authenticated"
LONGEST: Final = 1024
MOST_GROUPS: Final = 1024


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The headers that name users, and the certificates that may send them; without `allowed_names`, every certificate of the CA.

    Of the headers with a user name, the first one in a request is used; of those with groups, separated by commas, all. The
    prefixes are those of the API server's `--oidc-username-prefix` and `--oidc-groups-prefix`.
    """

    username_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    allowed_names: tuple[str, ...] = ()
    username_prefix: str = ""
    groups_prefix: str = ""

    def trusts(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a connection is the proxy's. `certificate` is the verified certificate in the form of `getpeercert`."""
        if not certificate:
            return False
        return not self.allowed_names or not set(self.allowed_names).isdisjoint(common_names(certificate))

    def user(self, headers: Sequence[tuple[str, str]]) -> dict[str, Any] | None:
        """Return the user in the headers of a trusted request. None when the headers name no user or more than one."""
        for wanted in self.username_headers:
            named = _values(headers, wanted)
            if len(named) > 1:  # the client sent one of the headers, and the proxy passed it on
                return None
            if named and named[0]:
                return self._user(named[0], headers)
        return None

    def _user(self, name: str, headers: Sequence[tuple[str, str]]) -> dict[str, Any] | None:
        lines = [line for wanted in self.group_headers for line in _values(headers, wanted)]
        groups = [group.strip() for line in lines for group in line.split(",") if group.strip()]
        if len(groups) > MOST_GROUPS or any(len(text) > LONGEST or not text.isprintable() for text in (name, *groups)):
            return None
        prefixed = [self.groups_prefix + group for group in groups]
        return {"username": self.username_prefix + name, "groups": list(dict.fromkeys([*prefixed, EVERYBODY]))}


def forwarded_address(headers: Sequence[tuple[str, str]]) -> str | None:
    """Return the address of the proxy's client: the last one in X-Forwarded-For, which the proxy itself added."""
    last = ",".join(_values(headers, "X-Forwarded-For")).rpartition(",")[2].strip()
    try:
        return str(ipaddress.ip_address(last))
    except ValueError:
        return None


def _values(headers: Sequence[tuple[str, str]], wanted: str) -> list[str]:
    return [value.strip() for name, value in headers if name.lower() == wanted.lower()]


COOKIE: Final = "__Host-pyroclast"
"""Browsers accept a cookie with this prefix only from the host itself, over a secure connection."""

LONGEST_TOKEN: Final = 2900
"""Most characters of a token. A cookie may have 4,096 bytes, and sealing adds a third."""

NONCE_BYTES: Final = 12
PURPOSE: Final = b"pyroclast board session 1"


class _Session(msgspec.Struct, frozen=True, array_like=True):
    token: str
    begun: float


class Sessions:
    """Seals and opens cookies. `key`: secret bytes, equal on all replicas. `lifetime`: of a login session, in seconds."""

    def __init__(self, key: bytes, lifetime: float) -> None:
        self._cipher = AESGCM(hashlib.sha256(PURPOSE + key).digest())
        self._lifetime = lifetime

    def seal(self, token: str, now: float) -> str:
        """Return the value of the cookie for a token."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, msgspec.json.encode(_Session(token, now)), PURPOSE)
        return base64.urlsafe_b64encode(nonce + sealed).decode()

    def open(self, cookie: str, now: float) -> str | None:
        """Return the token of a cookie. None when the cookie was not sealed with this key or has expired."""
        try:
            raw = base64.urlsafe_b64decode(cookie)
            content = self._cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], PURPOSE)
            session = msgspec.json.decode(content, type=_Session)
        except (InvalidTag, ValueError, binascii.Error, msgspec.MsgspecError):
            return None
        return session.token if session.begun <= now + 60 and now < session.begun + self._lifetime else None


LOGIN_FIRST: Final = "log in with a token of the cluster"
PROXY_FIRST: Final = "this board is reached through the proxy that logs you in; programs show a token of the cluster"


class Viewers:
    """Authenticates requests, and returns the rights of users, which are checked again after `review` seconds.

    With `is_open`, every user of this machine sees everything, and requests from other machines are refused. With a `proxy` there
    are no login sessions, but programs may still send tokens.
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
        """Return the user of a request."""
        if self.is_open:
            if not is_from_this_machine(request):
                raise Denied(403, "this board is for the machine that it runs on, by the name localhost or 127.0.0.1")
            return Reader(self._access, None)
        if self._proxy is not None and self._is_proxied(request) and (user := self._proxy.user([*request.headers.items()])):
            return Reader(self._access, user)
        token = self.token_of(request, now)
        if not token:
            raise Denied(401, LOGIN_FIRST if self._proxy is None else PROXY_FIRST)
        return await self._access.bearer(token)

    def token_of(self, request: web.BaseRequest, now: float) -> str:
        """Return the token of a request, from its header or else from its login session; empty without one."""
        token = bearer_token(request.headers.get("Authorization", ""))
        if token or self._proxy is not None:
            return token
        return self._sessions.open(request.cookies.get(COOKIE, ""), now) or ""

    def _is_proxied(self, request: web.BaseRequest) -> bool:
        """Return whether the connection is the proxy's, by the certificate that the TLS handshake has verified."""
        if self._proxy is None or request.transport is None:
            return False
        return self._proxy.trusts(request.transport.get_extra_info("peercert"))

    async def log_in(self, token: str, now: float) -> str:
        """Return the cookie of a new login session."""
        token = token.strip()
        if not token:
            raise Denied(401, LOGIN_FIRST)
        if len(token) > LONGEST_TOKEN or not token.isascii() or not token.isprintable():
            raise Denied(401, f"a token is at most {LONGEST_TOKEN} printable characters")
        await self._access.bearer(token)
        return self._sessions.seal(token, now)


async def scope_of(reader: Reader, namespaces: Iterable[str]) -> Scope:
    """Return which of these namespaces a viewer may see."""
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
