"""Plugins that fail whatever they look at: sessions do without them, and say so."""

from __future__ import annotations

from typing import Final

from pyroclast_scheduler.session.configuration import Configuration

__all__ = ["SkippedPlugins"]

_PERIODS: Final = 60  # until one is tried again, which fails one cycle if it is as it was


class SkippedPlugins:
    """Each is tried again after some schedule periods, and at once when the configuration changes."""

    def __init__(self) -> None:
        self._configuration: Configuration | None = None
        self._found: dict[str, tuple[int, str]] = {}

    def skip(self, plugin: str, reason: str, period: int) -> None:
        """Do without `plugin` from now on, which is in schedule period number `period`."""
        self._found[plugin] = period + _PERIODS, f"plugin {plugin}: it is skipped, as {reason}"

    def rest_of(self, configuration: Configuration, period: int) -> Configuration:
        """What is left of `configuration` in that schedule period."""
        if configuration is not self._configuration:
            self._configuration = configuration
            self._found.clear()
        self._found = {plugin: (until, text) for plugin, (until, text) in self._found.items() if until > period}
        return configuration.without(self._found) if self._found else configuration

    @property
    def warnings(self) -> list[str]:
        """What is skipped at present, and why."""
        return [text for _, text in self._found.values()]
