"""Serves TLS with certificates that may be replaced at any time, without a restart or a failed handshake."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from pyroclast.kube.credentials.certificates import load_identity
from pyroclast.runtime.errors import StartFailure

log = structlog.get_logger()

POLL_SECONDS: Final = 5.0  # mounted Secrets change by moving a link, which file notification does not report on every system


class ServingTls:
    """The TLS side of a server, which uses `context` to listen.

    Each handshake uses the certificate that is current when the handshake begins; existing connections keep theirs.
    """

    def __init__(self) -> None:
        self.context = _server_context()
        self.context.sni_callback = self._choose  # also called for clients that name no server
        self._current: ssl.SSLContext | None = None
        self._identity: tuple[bytes, bytes] | None = None
        self._clients = b""

    @property
    def is_ready(self) -> bool:
        """Whether the server has a certificate for handshakes."""
        return self._current is not None

    @property
    def requires_clients(self) -> bool:
        """Whether only clients with a certificate are served."""
        return bool(self._clients)

    def require_clients(self, authority: bytes) -> None:
        """Accept from the next handshake on only clients with a certificate of this CA (PEM).

        Raises ValueError: the CA is not PEM; the previous one stays in use.
        """
        before, self._clients = self._clients, authority
        try:
            self.use(*self._identity) if self._identity else _server_context().load_verify_locations(cadata=authority.decode())
        except (ssl.SSLError, ValueError) as error:
            self._clients = before
            raise ValueError(f"not a usable CA of clients: {error}") from error

    def use(self, certificate: bytes, key: bytes, client_ca: bytes = b"") -> None:
        """Use this certificate and key (PEM) from the next handshake on. With `client_ca`, verify the certificates that clients
        present.

        Raises ValueError: certificate and key do not match, or are not PEM; the previous certificate stays in use.
        """
        fresh = _server_context()
        try:
            load_identity(fresh, certificate, key)
            if authority := self._clients or client_ca:
                fresh.load_verify_locations(cadata=authority.decode("ascii"))
                fresh.verify_mode = ssl.CERT_REQUIRED if self._clients else ssl.CERT_OPTIONAL
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise ValueError(f"not a usable certificate and key: {getattr(error, 'reason', None) or error}") from error
        self._current, self._identity = fresh, (certificate, key)
        self.context.verify_mode = fresh.verify_mode  # the only setting that a connection keeps from its first context

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def common_names(certificate: Mapping[str, Any]) -> list[str]:
    """Return the common names of a certificate in the form of `getpeercert`."""
    pairs = [pair for part in certificate.get("subject", ()) for pair in part]
    return [value for name, value in pairs if name == "commonName"]


class TlsFiles:
    """A certificate in files, reloaded when they change."""

    def __init__(self, tls: ServingTls, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        self._tls = tls
        self._files = [certificate, key, *([client_ca] if client_ca else [])]
        self._seen: list[bytes] = []

    def load(self) -> None:
        """Read the files for the first time. Raises StartFailure: the files are invalid."""
        try:
            self._reload()
        except (OSError, ValueError) as error:
            raise StartFailure(f"TLS files {', '.join(map(str, self._files))}: {error}", status=2) from error

    async def follow(self) -> None:
        """Reload changed files, until cancelled. While the new files are not (yet) valid, the old certificate stays in use."""
        complaint = ""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                if self._reload():
                    log.info("tls.reloaded", certificate=str(self._files[0]))
                complaint = ""
            except (OSError, ValueError) as error:
                if str(error) != complaint:
                    complaint = str(error)
                    log.error("tls.not_reloaded", certificate=str(self._files[0]), error=complaint)  # noqa: TRY400 - has the error

    def _reload(self) -> bool:
        found = [file.read_bytes() for file in self._files]
        if found == self._seen:
            return False
        self._tls.use(*found)
        self._seen = found
        return True


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
