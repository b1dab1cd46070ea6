"""The configuration file on disk: loaded at start, followed while it changes; a bad one never replaces a good one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

from pyroclast.runtime.errors import StartFailure
from pyroclast_scheduler.session.configuration import DEFAULT_CONFIGURATION, BadConfiguration, Configuration

__all__ = ["ConfigurationFile"]

log = structlog.get_logger()

_LOOK_SECONDS: Final = 0.5


class ConfigurationFile:
    """Holds the configuration in force. `parse` turns text into one or raises BadConfiguration."""

    def __init__(self, path: str, parse: Callable[[str], Configuration], *, is_required: bool = False) -> None:
        self._path = Path(path) if path else None
        self._parse = parse
        self._is_required = is_required
        self._text: str | None = None
        self.warned: Callable[[Sequence[str]], None] = lambda _warnings: None
        self.refused: Callable[[str, str], None] = lambda _file, _reason: None
        self.changed: Callable[[Configuration], None] = lambda _configuration: None
        self.current = parse(DEFAULT_CONFIGURATION)

    def load(self) -> None:
        """Take up the file as it is now, if it changed since the last time; an unusable one is logged and passed over.

        Raises:
            StartFailure: the file is required and cannot be used.
        """
        if self._path is None:
            if self._text is None:
                self._text = DEFAULT_CONFIGURATION
                self._announce()
            return
        try:
            text = self._path.read_text()
            if text == self._text:
                return
            self._text = text
            self.current = self._parse(text)
        except (OSError, UnicodeDecodeError, BadConfiguration) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            if self._is_required:
                raise StartFailure(f"file {self._path} (--scheduler-conf): {reason}") from error
            self.refused(str(self._path), reason)
            return
        self._announce()

    async def follow(self) -> None:
        """Look again and again, until cancelled."""
        unreadable = False
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._path is None:
                continue
            if not self._path.exists():
                if not unreadable:
                    self.load()
                unreadable = True
                continue
            unreadable = False
            self.load()

    def _announce(self) -> None:
        self.warned(self.current.warnings)
        self.changed(self.current)
        log.info(
            "configuration.loaded",
            file=str(self._path or "(built in)"),
            actions=list(self.current.actions),
            tiers=[[entry.name for entry in tier] for tier in self.current.tiers],
        )
