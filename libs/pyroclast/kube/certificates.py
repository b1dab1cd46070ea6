"""PEM material in memory or in files, and how it gets into an SSL context."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["NO_PEM", "Pem", "load_identity"]


@dataclass(frozen=True, slots=True)
class Pem:
    """PEM text that is given directly or lies in a file, which may be replaced while we run."""

    data: bytes = b""
    path: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.data) or self.path is not None

    def read(self) -> bytes:
        """The text as it is now."""
        return self.path.read_bytes() if self.path is not None else self.data


NO_PEM: Final = Pem()


def load_identity(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Make `context` present `certificate` from its next handshake on.

    OpenSSL's Python binding reads only files, so the pair passes through a temporary one that only this user can read.

    Raises:
        ssl.SSLError: not a pair.
    """
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(certificate.rstrip() + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)
