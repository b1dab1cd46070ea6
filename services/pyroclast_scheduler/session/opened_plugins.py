"""Opens the plugins of a configuration in a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.configuration import PluginEntry
from pyroclast_scheduler.session.extension_points import Extensions

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class OpenedPlugins:
    """The plugins of a session and their extensions.

    Attributes:
        tiers: the extensions by tier, without those whose flags are off.
        closers: name and function of each plugin that runs code at the end of the session.
        ranked_by: the names of the plugins that order jobs.
        are_labels_read: whether a plugin may read pod labels that no affinity term uses.
    """

    tiers: list[list[Extensions]]
    closers: list[tuple[str, Callable[[], None]]]
    ranked_by: tuple[str, ...]
    are_labels_read: bool


def open_plugins(
    tiers: Sequence[Sequence[PluginEntry]],
    plugins: Mapping[str, Callable[[Arguments], P]],
    open_plugin: Callable[[str, P], Extensions],
    warnings: list[str],
) -> OpenedPlugins:
    """Open the configured plugins that exist. If a plugin is listed twice, its last instance serves both entries.

    Args:
        tiers: the configured entries by tier.
        plugins: the factory of each plugin by name.
        open_plugin: opens a plugin in the session; takes its name and the plugin.
        warnings: receives texts about invalid arguments.
    """
    offered: dict[str, Extensions] = {}
    for entry in (entry for tier in tiers for entry in tier):
        factory = plugins.get(entry.name)
        if factory is None:
            continue
        arguments = Arguments(entry.arguments, entry.enabled)
        offered[entry.name] = open_plugin(entry.name, factory(arguments))
        warnings += [f"plugin {entry.name}: {text}" for text in arguments.problems()]
    named = [[(entry.name, offered[entry.name].only(entry.enabled)) for entry in tier if entry.name in offered] for tier in tiers]
    return OpenedPlugins(
        [[each for _, each in tier] for tier in named],
        [(name, each.close) for name, each in offered.items() if each.close is not None],
        tuple(name for tier in named for name, each in tier if each.job_order is not None),
        any(_reads_labels(plugins[name]) for name in offered),
    )


def _reads_labels(plugin: object) -> bool:
    """Whether a plugin may read any pod label. A plugin from another package does unless it declares otherwise."""
    is_ours = getattr(plugin, "__module__", "").startswith(f"{__name__.partition('.')[0]}.")
    return bool(getattr(plugin, "reads_labels", not is_ours))
