"""Cutting a byte stream into lines."""

from __future__ import annotations

from typing import Final

from pyroclast.kube.basics.errors import ConnectionFailed

__all__ = ["LineSplitter"]

LONGEST_LINE: Final = 16 * 1024 * 1024  # bytes; the API server refuses objects of more than 3 MiB


class LineSplitter:
    """Takes chunks as they arrive and gives the lines that are complete, without their ends; `rest` is what is not."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes; empty lines are left out.

        Raises:
            ConnectionFailed: a line longer than any object can be.
        """
        lines = (self.rest + chunk if self.rest else chunk).split(b"\n")
        self.rest = lines.pop()
        if len(self.rest) > LONGEST_LINE:
            raise ConnectionFailed(f"a line of the stream is longer than {LONGEST_LINE} bytes")
        return [line for line in lines if line]
