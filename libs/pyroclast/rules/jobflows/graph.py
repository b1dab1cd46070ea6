"""The graph of a flow: which entries wait for which, by dependencies and by control statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyroclast.rules.values import mapping, mappings, string_items, text


def references(entry: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, bool]]:
    """Yield for each name of another entry in `entry` (at `path`) its path, the name, and whether `entry` waits for that entry.

    The entries among which a control statement chooses wait for `entry` instead.
    """
    for index, target in enumerate(string_items(mapping(entry.get("dependsOn")).get("targets"))):
        yield f"{path}.dependsOn.targets[{index}]", target, True
    if target := text(mapping(entry.get("if")).get("target")):
        yield f"{path}.if.target", target, True
    for index, name in enumerate(string_items(entry.get("else"))):
        yield f"{path}.else[{index}]", name, False
    switch = mapping(entry.get("switch"))
    if target := text(switch.get("on")):
        yield f"{path}.switch.on", target, True
    for number, case in mappings(switch.get("cases")):
        for index, name in enumerate(string_items(case.get("entries"))):
            yield f"{path}.switch.cases[{number}].entries[{index}]", name, False
    for index, name in enumerate(string_items(switch.get("default"))):
        yield f"{path}.switch.default[{index}]", name, False
