"""Checks whether a configuration matches the schema, with the messages of server-side apply."""

from __future__ import annotations

import json

from pyroclast.resources.go_text import go_value
from pyroclast_standalone.apiserver.documents.field_sets import item_key, show_path
from pyroclast_standalone.apiserver.documents.schema import Node
from pyroclast_standalone.apiserver.documents.values import Json

_NUMBERS = {"integer", "number"}
_SCALARS = {"quantity", "int-or-string"}


def check_configuration(value: Json, schema: Node) -> list[str]:
    """Return the faults of `value`, each with its path (`.spec.replicas: expected numeric (int or float), got string`)."""
    problems: list[str] = []
    _check(value, schema, "", problems)
    return problems


def _check(value: Json, node: Node, path: str, problems: list[str]) -> None:
    if value is None or node.type == "any":
        return
    match node.type:
        case "scalar":
            if wrong := _scalar(value, node.primitive):
                problems.append(f"{path}: {wrong}")
        case "list":
            if not isinstance(value, list):
                problems.append(f"{path}: expected list, got {go_value(value)}")
            else:
                _check_items(value, node, path, problems)
        case _:
            if not isinstance(value, dict):
                problems.append(f"{path}: expected map, got {go_value(value)}")
                return
            for name, child in value.items():
                inner = node.child(name)
                own = f"{path}.{name}"
                if inner is None:
                    problems.append(f"{own}: field not declared in schema")
                    return
                _check(child, inner, own, problems)


def _check_items(values: list[Json], node: Node, path: str, problems: list[str]) -> None:
    associative = node.is_set or bool(node.keys)
    seen: set[str] = set()
    for index, item in enumerate(values):
        own = f"{path}[{index}]"
        if associative:
            key = item_key(item, node)
            if key is None:
                listed = " ".join(json.dumps(name) for name in node.keys)
                text = "associative list with keys has an element that omits all key fields"
                tail = "(and doesn't have default values for any key fields)"
                problems.append(f"{path}: element {index}: {text} [{listed}] {tail}")
                return
            own = path + show_path((key,))
            if key in seen:
                problems.append(f"{path}: duplicate entries for key {show_path((key,))}")
            seen.add(key)
        _check(item, node.item, own, problems)


def _scalar(value: Json, primitive: str) -> str:
    if isinstance(value, dict | list):
        return f"expected {_wanted(primitive)}, got {go_value(value)}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if primitive in _NUMBERS and not is_number:
        return f"expected numeric (int or float), got {_go_type(value)}"
    if primitive == "string" and not isinstance(value, str):
        return f"expected string, got {_go_value(value)}"
    if primitive == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got {go_value(value)}"
    return ""


def _wanted(primitive: str) -> str:
    if primitive in _NUMBERS:
        return "numeric (int or float)"
    return "any scalar" if primitive in _SCALARS else primitive


def _go_type(value: Json) -> str:
    return "bool" if isinstance(value, bool) else "string" if isinstance(value, str) else "interface {}"


def _go_value(value: Json) -> str:
    return f"&value.valueUnstructured{{Value:{go_value(value)}}}"
