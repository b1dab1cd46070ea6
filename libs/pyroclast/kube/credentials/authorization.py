"""The client's credentials: sources of the Authorization header."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from pyroclast.kube.basics.errors import ConnectionFailed
from pyroclast.kube.credentials.certificates import Identity

TOKEN_FILE_CHECK_SECONDS: Final = 10.0  # a projected token is replaced minutes before the old one ends


class Credentials(Protocol):
    """A source of Authorization headers."""

    @property
    def identity(self) -> Identity | None:
        """The client certificate that belongs to the last Authorization header.

        If this is None, the certificate of the configuration is used, if there is one.
        """

    async def authorization(self, *, refused: str | None = None) -> str:
        """Return the value of the header; empty for no header.

        `refused`: the header that the server has just refused, or None.
        """


class StaticCredentials:
    """An Authorization header that never changes."""

    identity: Identity | None = None

    def __init__(self, header: str) -> None:
        self._header = header

    async def authorization(self, *, refused: str | None = None) -> str:  # noqa: ARG002 - there is only one header
        """Return the Authorization header."""
        return self._header

    @classmethod
    def token(cls, token: str) -> StaticCredentials:
        """Return credentials with a bearer token."""
        return cls(f"Bearer {token}")

    @classmethod
    def password(cls, user: str, password: str) -> StaticCredentials:
        """Return credentials with HTTP basic authentication."""
        return cls("Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())


class Anonymous(StaticCredentials):
    """No Authorization header: the client uses a certificate, or no credentials."""

    def __init__(self) -> None:
        super().__init__("")


class TokenFile:
    """A bearer token in a file that is replaced from time to time."""

    identity: Identity | None = None

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._checked = float("-inf")
        self._modified = 0
        self._header = ""

    async def authorization(self, *, refused: str | None = None) -> str:
        """Return the header with the token now in the file; if the file cannot be read, with the last token that was read."""
        now = self._clock()
        if refused is not None or now - self._checked >= TOKEN_FILE_CHECK_SECONDS:
            self._checked = now
            self._read()
        return self._header

    def _read(self) -> None:
        try:
            modified = self._path.stat().st_mtime_ns
            if modified != self._modified:
                self._header = f"Bearer {self._path.read_text().strip()}"
                self._modified = modified
        except OSError as error:
            if not self._header:
                raise ConnectionFailed(f"token file {self._path}: {error.strerror}", sent=False) from error
