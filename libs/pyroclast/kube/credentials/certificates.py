"""PEM certificates and keys, in memory or in files, and how they are loaded into an SSL context."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final


@dataclass(frozen=True, slots=True)
class Pem:
    """PEM text in memory or in a file, which may be replaced while the program runs."""

    data: bytes = field(default=b"", repr=False)
    path: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.data) or self.path is not None

    @property
    def stamp(self) -> object:
        """A value that changes when the file with the PEM text is replaced."""
        if self.path is None:
            return None
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def read(self) -> bytes:
        """Return the present PEM text."""
        return self.path.read_bytes() if self.path is not None else self.data


NO_PEM: Final = Pem()


@dataclass(frozen=True, slots=True)
class Identity:
    """A client certificate and its key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def load_identity(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Make `context` present `certificate` from its next handshake on.

    Python's ssl module only reads files. So certificate and key are written to a file that only this user can read, in memory
    where the system supports that. Raises ssl.SSLError: certificate and key do not match.
    """
    with _scratch() as (file, path):
        file.write(certificate.rstrip() + b"\n" + key)
        file.flush()
        context.load_cert_chain(path)


@contextmanager
def _scratch() -> Iterator[tuple[IO[bytes], str]]:
    """Open a temporary file; yield the file and a path by which OpenSSL can open it."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("pem"), "wb") as file:
            yield file, f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile(suffix=".pem") as named:
            yield named, named.name
