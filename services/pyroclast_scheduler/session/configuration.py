"""The configuration file of the scheduler: actions, tiers of plugins with flags and arguments, arguments of actions.

The format is that of Volcano, and the YAML is loaded by the rules of Volcano's parser: scalar types, the first of several
documents, line numbers. An unusable file raises `BadConfiguration`; unknown flags and keys yield warnings. Volcano ignores a
plugin that does not exist: a typo in `gang` loads a scheduler without gangs. Here it is an error, unless the caller skips unknown
plugins.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import yaml

from pyroclast_scheduler.session import extension_points as points
from pyroclast_scheduler.session.arguments import did_you_mean

_REPLACED: Final = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp")}
_INTEGER: Final = re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]*|[1-9][0-9_]*)$")
_FLOAT: Final = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)


class BadDocument(ValueError):
    """The text is not YAML. `line`: the line number from 1, 0 if unknown."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


class _Loader(yaml.SafeLoader):
    """A loader that reads dates and base-60 numbers as text, and accepts an exponent without a decimal point."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - an attribute of the base class
        first: [(tag, pattern) for tag, pattern in listed if tag not in _REPLACED]
        for first, listed in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


class LineNumbers:
    """The line numbers of the nodes of a YAML document, by path."""

    def __init__(self, root: yaml.Node | None) -> None:
        self._root = root

    def of_key(self, key: object) -> int:
        """Return the line of a top-level key, 0 if unknown."""
        pairs = self._root.value if isinstance(self._root, yaml.MappingNode) else ()
        return next((name.start_mark.line + 1 for name, _ in pairs if name.value == str(key)), 0)

    def of(self, *path: str | int) -> int:
        """Return the line of the node at `path`, or of its nearest ancestor that exists; 0 if there is no document."""
        node = self._root
        for step in path:
            if isinstance(node, yaml.MappingNode):
                node = next((value for key, value in node.value if getattr(key, "value", None) == step), node)
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
        return node.start_mark.line + 1 if node is not None else 0


def load(text: str) -> tuple[Any, LineNumbers, int]:
    """Return the first document, its line numbers, and the number of its last line, 0 unless another document follows.

    Raises:
        BadDocument: the text is not YAML.
    """
    try:
        loader = _Loader(text)
        try:
            root = loader.get_node() if loader.check_node() else None
            document = None if root is None else loader.construct_document(root)
            is_more = root is not None and loader.check_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        reason = str(getattr(error, "problem", None) or error)
        raise BadDocument(reason, mark.line + 1 if mark is not None else 0) from error
    except (RecursionError, ValueError) as error:
        raise BadDocument(f"nested too deeply, or a value that cannot be: {error}", 0) from error
    return document, LineNumbers(root), root.end_mark.line if root is not None and is_more else 0


DEFAULT_CONFIGURATION: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
_HIERARCHICAL: Final = frozenset({"capacity", "drf", "nodegroup"})  # the plugins that obey enableHierarchy
_OF_ENTRIES: Final = frozenset({"name", "arguments"})
_SECTIONS: Final = frozenset({"actions", "tiers", "configurations", "metrics"})
_ALL_ON: Final = points.FLAGS - points.DEFAULT_OFF


class BadConfiguration(ValueError):
    """The configuration file cannot be used. `line`: the line number from 1, 0 if unknown."""

    def __init__(self, reason: str, *, line: int = 0) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason = reason
        self.line = line


class UnknownName(BadConfiguration):
    """The configuration file names an action or a plugin that does not exist."""


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """One entry for a plugin: its name, the flags that are on, and its arguments."""

    name: str
    enabled: frozenset[str] = _ALL_ON
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The parsed configuration. `warnings`: texts about entries that are ignored."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginEntry, ...], ...]
    action_arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def without(self, plugins: Collection[str]) -> Configuration:
        """Return the same configuration without `plugins`."""
        tiers = tuple(tuple(entry for entry in tier if entry.name not in plugins) for tier in self.tiers)
        return replace(self, tiers=tiers)


def parse(text: str, *, actions: Collection[str], plugins: Collection[str], skip_unknown_plugins: bool = False) -> Configuration:
    """Parse the text of a configuration file. `actions`, `plugins`: the names that exist.

    Raises:
        BadConfiguration: the text is not YAML or has the wrong structure.
        UnknownName: the text names an action that does not exist, or a plugin, unless `skip_unknown_plugins`.
    """
    body = text.strip()
    body = "\n" * text[: text.find(body)].count("\n") + body  # keeps the newlines before `body`, for line numbers
    try:
        document, lines, end = load(body)
    except BadDocument as error:
        raise BadConfiguration(f"not YAML: {error}", line=error.line) from error
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise BadConfiguration("a mapping with actions and tiers is wanted", line=1)
    unknown = [key for key in document if key not in _SECTIONS]
    warnings = [f"line {lines.of_key(key)}: {key} is unknown{did_you_mean(str(key), _SECTIONS)}" for key in unknown]
    if end:
        warnings.append(f"line {end + 1}: another document follows, which is not read")
    tiers = tuple(_tier(entry, ("tiers", i), lines, warnings) for i, entry in enumerate(_list(document, "tiers", lines)))
    places = [(i, k, entry.name) for i, tier in enumerate(tiers) for k, entry in enumerate(tier) if entry.name not in plugins]
    missing = [(lines.of("tiers", i, "plugins", k), name) for i, k, name in places]
    if missing and not skip_unknown_plugins:
        raise _unknown_plugins(missing, plugins)
    warnings += [f"line {line}: Failed to get plugin {name}." for line, name in missing]
    chosen = _actions(document.get("actions", ""), actions, lines)
    action_arguments = _action_arguments(document, chosen, lines, warnings)
    _check_reservation(chosen, tiers, lines.of("actions"))
    return Configuration(
        chosen,
        tiers,
        action_arguments,
        _metrics(document.get("metrics"), lines),
        tuple(warnings),
    )


def _list(document: Mapping[str, Any], key: str, lines: LineNumbers) -> list[Any]:
    value = document.get(key)
    value = [{} if entry is None else entry for entry in value] if isinstance(value, list) else [] if value is None else value
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise BadConfiguration(f"{key}: a list of mappings is wanted", line=lines.of(key))
    return value


def _warn_of_keys(entry: Mapping[str, Any], known: Collection[str], where: str, warnings: list[str]) -> None:
    warnings += [f"{where}: {key} is unknown{did_you_mean(str(key), known)}" for key in entry if key not in known]


def _actions(text: object, known: Collection[str], lines: LineNumbers) -> tuple[str, ...]:
    if not isinstance(text, str):
        raise BadConfiguration("actions: a comma separated string is wanted", line=lines.of("actions"))
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in known:
            error = UnknownName if name else BadConfiguration  # an empty name, as after the last comma, is no typo in a name
            text = f"failed to find Action {name}{did_you_mean(name, known)} (there are: {', '.join(sorted(known))})"
            raise error(text, line=lines.of("actions"))
    return names


def _unknown_plugins(missing: Sequence[tuple[int, str]], plugins: Collection[str]) -> UnknownName:
    texts = [f"plugin {name!r} does not exist{did_you_mean(name, plugins)}" for _, name in missing]
    further = [f"line {line}: {text}" for (line, _), text in zip(missing[1:], texts[1:], strict=True)]
    names = f"(there are: {', '.join(sorted(plugins))}; --skip-unknown-plugins ignores such entries)"
    return UnknownName("; ".join((texts[0], *further)) + f" {names}", line=missing[0][0])


def _check_reservation(actions: tuple[str, ...], tiers: tuple[tuple[PluginEntry, ...], ...], line: int) -> None:
    """Raise BadConfiguration unless the plugin reservation, elect and reserve are all configured, in order, or none of them."""
    has_plugin = any(entry.name == "reservation" for tier in tiers for entry in tier)
    missing = [f"action {name}" for name in ("elect", "reserve") if name not in actions]
    missing += [] if has_plugin else ["plugin reservation"]
    if len(missing) == 3:
        return
    if missing:
        lacking = " and ".join(missing)
        raise BadConfiguration(f"elect, reserve and the plugin reservation belong together; {lacking} lacks", line=line)
    places = {name: [i for i, each in enumerate(actions) if each == name] for name in ("enqueue", "elect", "allocate", "reserve")}
    enqueue, elect, allocate, reserve = places.values()
    is_ordered = enqueue and allocate and enqueue[0] < elect[0] <= elect[-1] < allocate[0] < reserve[0]
    if not is_ordered:
        raise BadConfiguration("elect must stand between enqueue and allocate, and reserve after allocate", line=line)


def _tier(
    entry: Mapping[str, Any], path: tuple[str | int, ...], lines: LineNumbers, warnings: list[str]
) -> tuple[PluginEntry, ...]:
    listed = _list(entry, "plugins", lines)
    _warn_of_keys(entry, {"plugins"}, f"line {lines.of(*path)}: in a tier", warnings)
    result: list[PluginEntry] = []
    for i, plugin in enumerate(listed):
        line = lines.of(*path, "plugins", i)
        name = _text(plugin.get("name"))
        if name is None:
            raise BadConfiguration("the name of a plugin must be a text", line=line)
        arguments = _arguments(name, plugin, line)
        result.append(
            PluginEntry(name, _flags(name, plugin, line, warnings), {str(key): value for key, value in arguments.items()})
        )
    drf = any(plugin.name == "drf" and "enableHierarchy" in plugin.enabled for plugin in result)
    if drf and any(plugin.name == "proportion" for plugin in result):
        raise BadConfiguration("proportion and drf with hierarchy enabled conflicts", line=lines.of(*path))
    return tuple(result)


def _flags(name: str, plugin: Mapping[str, Any], line: int, warnings: list[str]) -> frozenset[str]:
    enabled = set(_ALL_ON)
    for key, value in plugin.items():
        if key in _OF_ENTRIES or (value is None and key in points.FLAGS):
            continue
        if key not in points.FLAGS:
            warnings.append(f"line {line}: {name}: unknown flag {key}{did_you_mean(key, points.FLAGS)}")
        elif not isinstance(value, bool):
            raise BadConfiguration(f"{name}: {key} must be true or false", line=line)
        elif value:
            enabled.add(key)
            if key == "enabledClusterOrder" or (key == "enableHierarchy" and name not in _HIERARCHICAL):
                warnings.append(f"line {line}: {name}: {key} has no effect")
        else:
            enabled.discard(key)
    return frozenset(enabled)


def _action_arguments(
    document: Mapping[str, Any], actions: Collection[str], lines: LineNumbers, warnings: list[str]
) -> dict[str, Mapping[str, Any]]:
    """Return the arguments by action. If an action has several entries, the first is used."""
    found: dict[str, Mapping[str, Any]] = {}
    for i, entry in enumerate(_list(document, "configurations", lines)):
        line = lines.of("configurations", i)
        name = _text(entry.get("name"))
        if name is None:
            raise BadConfiguration("the name of an action must be a text", line=line)
        arguments = _arguments(name, entry, line)
        _warn_of_keys(entry, _OF_ENTRIES, f"line {line}: in configurations", warnings)
        if name not in actions:
            warnings.append(f"line {line}: arguments of action {name}, which is not among the actions")
        elif name in found:
            warnings.append(f"line {line}: arguments of action {name} were given before, and those count")
        found.setdefault(name, arguments)
    return found


def _arguments(name: str, entry: Mapping[str, Any], line: int) -> dict[str, Any]:
    arguments = entry.get("arguments")
    if not isinstance(arguments, dict | None):
        raise BadConfiguration(f"{name}: arguments must be a mapping", line=line)
    return {_text(key) or str(key): value for key, value in (arguments or {}).items()}


def _metrics(section: object, lines: LineNumbers) -> dict[str, str]:
    found = {str(key): _text(value) for key, value in section.items()} if isinstance(section, dict) else {}
    texts = {key: text for key, text in found.items() if text is not None}
    if (section is not None and not isinstance(section, dict)) or len(texts) < len(found):
        raise BadConfiguration("metrics: a mapping of texts is wanted", line=lines.of("metrics"))
    return texts


def _text(value: object) -> str | None:
    """Return the text of a YAML scalar: empty for null, spelled out for numbers and booleans; None for other values."""
    if isinstance(value, list | dict | set | bytes):
        return None
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
