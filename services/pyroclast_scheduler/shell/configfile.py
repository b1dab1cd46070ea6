"""The configuration file on disk: loaded at start and after each change. An unusable file does not replace a usable one.

With a name that does not exist, a service that starts would decide with the built-in configuration, which nobody asked for. So it
does not start. Problems are reported in the log, as a metric, and as an Event on the scheduler's Lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import structlog

from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.runtime.errors import StartFailure
from pyroclast_scheduler.session.configuration import DEFAULT_CONFIGURATION, BadConfiguration, Configuration, UnknownName
from pyroclast_scheduler.shell.metrics import SchedulerMetrics

log = structlog.get_logger()


_IGNORED: Final = "ConfigurationIgnored"
_REFUSED: Final = "ConfigurationRefused"
_LOOK_SECONDS: Final = 0.5


class Complaints:
    """Reports problems of the configuration as Events. Reports from before a recorder exists are recorded later."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._recorder: EventRecorder | None = None
        self._about: Reference | None = None
        self._early: list[tuple[str, str]] = []

    def record(self, recorder: EventRecorder, about: Reference) -> None:
        """Record Events from now on, also for earlier reports."""
        self._recorder, self._about = recorder, about
        early, self._early = self._early, []
        for reason, message in early:
            self._event(reason, message)

    def passed_over(self, warnings: Iterable[str]) -> None:
        """Report settings that are unknown or have no effect."""
        for warning in warnings:
            log.warning("configuration.passed_over", warning=warning)
            self._metrics.warnings.inc()
            self._event(_IGNORED, warning)

    def refused(self, file: str, reason: str) -> None:
        """Report that a configuration cannot be used and the last usable one stays active."""
        log.error("configuration.refused", file=file, reason=reason, kept="the last good one")
        self._metrics.refused_configurations.inc()
        self._event(_REFUSED, f"{file}: {reason}; the last good configuration stays")

    def _event(self, reason: str, message: str) -> None:
        if self._recorder is None or self._about is None:
            self._early.append((reason, message))
        else:
            self._recorder.event(self._about, "Warning", reason, message)


class ConfigurationFile:
    """The active configuration, parsed by `parse`, which raises BadConfiguration. Without `path`, it is the built-in one.

    `warned`: called with texts about settings that have no effect. `refused`: called with path and reason if a file is unusable.
    `is_required`: an unusable file ends the service. `allows_unknown`: the service starts, with the built-in configuration, even
    if the file names an action or plugin that does not exist.
    """

    def __init__(
        self,
        path: str,
        parse: Callable[[str], Configuration],
        *,
        warned: Callable[[Sequence[str]], None],
        refused: Callable[[str, str], None],
        is_required: bool = False,
        allows_unknown: bool = False,
    ) -> None:
        self._path = Path(path) if path else None
        self._parse = parse
        self._is_required = is_required
        self._refuses_unknown = not allows_unknown  # only until the first file was looked at
        self._text: str | None = None
        self._warned = warned
        self._refused = refused
        self.current = parse(DEFAULT_CONFIGURATION)
        self._refusal: str | None = None

    def problem(self) -> tuple[str, str] | None:
        """Return the name of the check that fails and why, for the Lease; None while the present file is used."""
        return None if self._refusal is None else ("configuration", f"the configuration is refused: {self._refusal}")

    def load(self) -> bool:
        """Load the file. Return whether it changed since the last call. An unusable file is reported and ignored.

        If the file is required, or is the first one and names what does not exist, StartFailure is raised instead.
        """
        refuses_unknown, self._refuses_unknown = self._refuses_unknown, False
        if self._path is None:
            if self._text is not None:
                return False
            self._text = DEFAULT_CONFIGURATION
            self._announce()
            return True
        try:
            text = self._path.read_text()
            if text == self._text:
                return False
            self._text = text
            self.current = self._parse(text)
        except (OSError, UnicodeDecodeError, BadConfiguration) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            if self._is_required or (refuses_unknown and isinstance(error, UnknownName)):
                raise StartFailure(f"file {self._path} (--scheduler-conf): {reason}") from error
            self._refusal = f"{self._path}: {reason}"
            if isinstance(error, OSError):
                self._text = None  # the same text is loaded again when it is back
            self._refused(str(self._path), reason)
            return False
        self._refusal = None
        self._announce()
        return True

    async def follow(self, changed: Callable[[Configuration], None]) -> None:
        """Check the file at intervals until cancelled; `changed` is called with each new configuration."""
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
            if self.load():
                changed(self.current)

    def _announce(self) -> None:
        self._warned(self.current.warnings)
        log.info(
            "configuration.loaded",
            file=str(self._path or "(built in)"),
            actions=list(self.current.actions),
            tiers=[[entry.name for entry in tier] for tier in self.current.tiers],
        )
