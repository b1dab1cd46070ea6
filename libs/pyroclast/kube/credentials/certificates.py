"""PEM material in memory or in files, and how it gets into an SSL context."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

__all__ = ["NO_PEM", "Identity", "Pem", "load_identity"]


@dataclass(frozen=True, slots=True)
class Pem:
    """PEM text that is given directly or lies in a file, which may be replaced while we run."""

    data: bytes = field(default=b"", repr=False)
    path: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.data) or self.path is not None

    @property
    def stamp(self) -> object:
        """Something that is another after the file was replaced."""
        if self.path is None:
            return None
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def read(self) -> bytes:
        """The text as it is now."""
        return self.path.read_bytes() if self.path is not None else self.data


NO_PEM: Final = Pem()


@dataclass(frozen=True, slots=True)
class Identity:
    """A client certificate and its key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def load_identity(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Make `context` present `certificate` from its next handshake on.

    OpenSSL's Python binding reads only files, so the pair passes through one that only this user can read, and that is memory
    where the system has such.

    Raises:
        ssl.SSLError: not a pair.
    """
    with _scratch() as (file, path):
        file.write(certificate.rstrip() + b"\n" + key)
        file.flush()
        context.load_cert_chain(path)


@contextmanager
def _scratch() -> Iterator[tuple[IO[bytes], str]]:
    """A file that is gone afterwards, and how OpenSSL finds it."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("pem"), "wb") as file:
            yield file, f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile(suffix=".pem") as named:
            yield named, named.name
