"""Constant defaults of built-in kinds, from a data table."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

import yaml

from pyroclast_standalone.apiserver.kinds.pod_defaults import default_template

_PODS: Final = "pods"


@cache
def _table() -> Mapping[str, Sequence[tuple[Sequence[str], Any]]]:
    """Return the paths and values by kind. The path of a pod template has no value."""
    text = resources.files(__package__).joinpath("data", "defaults.yaml").read_text()
    return {
        kind: [(value.split("."), None) if path == _PODS else (path.split("."), value) for path, value in entries.items()]
        for kind, entries in yaml.load(text, Loader=yaml.CSafeLoader).items()
    }


def fill_in(document: dict[str, Any], group: str, kind: str) -> None:
    """Set the defaults of a kind in an object, in place."""
    for steps, value in _table().get(f"{group}/{kind}" if group else kind, ()):
        _set(document, steps, value)


def _set(holder: Any, steps: Sequence[str], value: Any) -> None:  # noqa: ANN401  # any JSON
    first, *rest = steps
    if first == "*":
        for each in holder if isinstance(holder, list) else ():
            _set(each, rest, value)
    elif rest:
        if holder.get(first) is not None:
            _set(holder[first], rest, value)
    elif value is None:
        if holder.get(first) is not None:
            default_template(holder[first])
    elif holder.get(first) is None:
        holder[first] = copy.copy(value)
