"""The strategy and weight of a resource, found by its name or by the longest matching prefix with an asterisk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from pyroclast.api import keys
from pyroclast_scheduler.session.arguments import Arguments

LEAST: Final = "LeastAllocated"
MOST: Final = "MostAllocated"


class Strategy(NamedTuple):
    """The scoring of one resource.

    `kind`: LEAST spreads pods, MOST fills nodes; any other kind scores 0, but its weight counts.
    """

    kind: str
    weight: float


_DEFAULT: Final = {"cpu": Strategy(LEAST, 1), "memory": Strategy(LEAST, 1)}


def strategies(arguments: Arguments) -> dict[str, Strategy]:
    """Return the argument `resources`, by name or pattern. Invalid entries are left out with a warning."""
    arguments.known.add("resources")
    given = arguments.get("resources")
    if given is None:
        return dict(_DEFAULT)
    if not isinstance(given, Mapping):
        arguments.warnings.append("argument resources: a mapping from names to type and weight is wanted; using cpu and memory")
        return dict(_DEFAULT)
    found: dict[str, Strategy] = {}
    for key, entry in given.items():
        name = str(key)
        if not is_pattern_right(name):
            arguments.warnings.append(f"argument resources: {name!r} may have one asterisk, at its end, after a prefix; left out")
            continue
        found[name] = _strategy(arguments, name, entry if isinstance(entry, Mapping) else {})
    return found


def is_pattern_right(name: str) -> bool:
    """Whether a name has no asterisk, or one asterisk after a prefix."""
    return "*" not in name or (name.count("*") == 1 and name.endswith("*") and len(name) > 1)


def find(resource: str, known: Mapping[str, Strategy]) -> str | None:
    """Return the name or pattern of `known` that matches `resource`, None if there is none."""
    if resource in known:
        return resource
    fitting = [name for name in known if name.endswith("*") and resource.startswith(name[:-1])]
    return max(fitting, key=len, default=None)


def of_pod(marks: Mapping[str, str]) -> dict[str, Strategy] | None:
    """Return the strategies in the annotations of a pod, which replace the configuration; None if it has none.

    The result is empty if the weights are not JSON.
    """
    kind = marks.get(keys.RESOURCE_STRATEGY_SCORING_TYPE, "")
    if not kind:
        return None
    try:
        weights = msgspec.json.decode(marks.get(keys.RESOURCE_STRATEGY_WEIGHT, ""), type=dict[str, float])
    except msgspec.DecodeError:
        return {}
    return {name: Strategy(kind, weight) for name, weight in weights.items()}


def _strategy(arguments: Arguments, name: str, entry: Mapping[str, Any]) -> Strategy:
    kind, weight = entry.get("type", LEAST), entry.get("weight", 1)
    if kind not in {LEAST, MOST}:
        arguments.warnings.append(f"argument resources.{name}.type: {kind!r} is not {LEAST} or {MOST}; using {LEAST}")
        kind = LEAST
    if not isinstance(weight, int) or isinstance(weight, bool) or weight <= 0:
        arguments.warnings.append(f"argument resources.{name}.weight: {weight!r} is not an integer above 0; using 1")
        weight = 1
    return Strategy(kind, weight)
