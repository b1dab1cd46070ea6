"""Watches a file that another program changes, and reads the admission configuration file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from pyroclast.rules.resourcegroups import ConfigurationError, ResourceGroup, read_groups


def parse_configuration(content: bytes) -> tuple[ResourceGroup, ...]:
    """Return the resource groups of the file. ConfigurationError: it is not YAML, or not an admission configuration."""
    import yaml  # noqa: PLC0415 - most installations have no such file

    try:
        document = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not YAML: {error}") from None
    return read_groups(document)


log = structlog.get_logger()

LOOK_EVERY_SECONDS: Final = 2.0
"""How often the file is read. The kubelet updates a mounted ConfigMap within about a minute, so this period adds little."""


class FileWatcher:
    """Passes on the content of a file whenever it changes; when `use` raises ValueError, the previous content stays in effect.

    A mounted volume swaps symbolic links, so the contents are compared.
    """

    def __init__(self, path: Path, use: Callable[[bytes], None]) -> None:
        self._path, self._use = path, use
        self._content: bytes | None = None

    def load(self) -> None:
        """Read the watched file now. OSError: it cannot be read. ValueError: `use` rejects the content."""
        content = self._path.read_bytes()
        if content != self._content:
            self._use(content)
            self._content = content

    async def run(self) -> None:
        """Read the file periodically until cancelled. Each new problem is logged once."""
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
