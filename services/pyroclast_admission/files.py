"""A file that somebody else keeps current."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

__all__ = ["FileWatcher"]

log = structlog.get_logger()

LOOK_EVERY_SECONDS: Final = 2.0
"""How often the file is read. A mounted ConfigMap follows its object within a minute, so this adds little."""


class FileWatcher:
    """Hands on the content of a file whenever it changes. Mounted volumes swap links, so contents are compared.

    Args:
        path: the file.
        use: takes the content into service; when it raises ValueError, what is in service stays.
    """

    def __init__(self, path: Path, use: Callable[[bytes], None]) -> None:
        self._path, self._use = path, use
        self._content: bytes | None = None

    def load(self) -> None:
        """Read the file now.

        Raises:
            OSError: it cannot be read.
            ValueError: `use` does not take it.
        """
        content = self._path.read_bytes()
        if content != self._content:
            self._use(content)
            self._content = content

    async def run(self) -> None:
        """Check the file again and again until cancelled; each new problem is logged once."""
        complaint = ""
        while True:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            try:
                self.load()
                complaint = ""
            except (OSError, ValueError) as error:
                if str(error) != complaint:
                    complaint = str(error)
                    log.warning("file.unusable", file=str(self._path), error=complaint)
