"""Skips plugins that fail in every session: sessions run without these plugins, and report that they are skipped."""

from __future__ import annotations

from typing import Final

from pyroclast_scheduler.session.configuration import Configuration

_PERIODS: Final = 60  # schedule periods before a plugin is tried again, which costs one failed cycle if it fails again


class SkippedPlugins:
    """The skipped plugins. Each is tried again after some schedule periods, and at once when the configuration changes."""

    def __init__(self) -> None:
        self._configuration: Configuration | None = None
        self._found: dict[str, tuple[int, str]] = {}

    def skip(self, plugin: str, reason: str, period: int) -> None:
        """Skip `plugin` from now on. `period`: the number of the present schedule period."""
        self._found[plugin] = period + _PERIODS, f"plugin {plugin}: it is skipped, as {reason}"

    def rest_of(self, configuration: Configuration, period: int) -> Configuration:
        """Return `configuration` without the plugins that are skipped in this schedule period."""
        if configuration is not self._configuration:
            self._configuration = configuration
            self._found.clear()
        self._found = {plugin: (until, text) for plugin, (until, text) in self._found.items() if until > period}
        return configuration.without(self._found) if self._found else configuration

    @property
    def warnings(self) -> list[str]:
        """The texts about the plugins that are skipped at present."""
        return [text for _, text in self._found.values()]
