"""Splits a byte stream into lines."""

from __future__ import annotations

from typing import Final

from pyroclast.kube.basics.errors import ConnectionFailed

LONGEST_LINE: Final = 16 * 1024 * 1024  # bytes; the API server refuses objects of more than 3 MiB


class LineSplitter:
    """Splits arriving chunks into complete lines without line ends; `rest` is the incomplete last line."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without empty lines.

        Raises:
            ConnectionFailed: a line is longer than any object can be.
        """
        lines = (self.rest + chunk if self.rest else chunk).split(b"\n")
        self.rest = lines.pop()
        if len(self.rest) > LONGEST_LINE:
            raise ConnectionFailed(f"a line of the stream is longer than {LONGEST_LINE} bytes")
        return [line for line in lines if line]
