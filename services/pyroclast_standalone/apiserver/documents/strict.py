"""Parses JSON and YAML bodies as the API does, and finds duplicate fields.

In YAML, `y` and `on` are booleans, keys become texts, and only the first document is used.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable
from typing import Any, Final

import orjson
import yaml as pyyaml

from pyroclast.resources.go_text import go_quote, go_value
from pyroclast_standalone.apiserver.documents.errors import Json, Undecodable

_STR: Final = "tag:yaml.org,2002:str"
_PLAIN: Final = "plain"  # tag of a scalar whose text determines its type
_MERGE: Final = "tag:yaml.org,2002:merge"
_WORDS: Final[dict[str, Json]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INT: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_ENDLESS: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MOST_NODES: Final = 1_000_000  # in a document with expanded anchors: as many as 3 MiB without anchors can contain


def _resolved(text: str) -> Json:
    """Return the value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "")
    if found := _INT.fullmatch(plain):
        sign, *digits = found.groups()
        whole = next(int(each, base) for each, base in zip(digits, (16, 2, 8, 10), strict=True) if each is not None)
        if whole < 1 << (63 if sign else 64):
            return -whole if sign == "-" else whole
    if _FLOAT.fullmatch(plain) and math.isfinite(number := float(plain)):
        return int(number) if number.is_integer() and abs(number) < 1 << 63 else number
    if _ENDLESS.fullmatch(text):
        raise Undecodable(f"yaml: {text} is no value of JSON")
    return text


class _Loader(pyyaml.SafeLoader):
    """Loads plain data, and records duplicate keys."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.duplicates: list[str] = []

    def resolve(self, kind: type, value: str, implicit: Any) -> str:  # noqa: ANN401  # as the base class has it
        """Return the tag of a node without a tag."""
        if kind is not pyyaml.ScalarNode:
            return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        return _STR if not implicit[0] else _MERGE if value == "<<" else _PLAIN

    def construct_mapping(self, node: pyyaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return a mapping. Of equal keys the last one is used."""
        own = sum(key.tag != _MERGE for key, _ in node.value)
        self.flatten_mapping(node)
        result: dict[Hashable, Any] = {}
        seen: set[Hashable] = set()
        merged = len(node.value) - own
        for index, (key_node, value_node) in enumerate(node.value):
            given = self.construct_object(key_node, deep=True)
            if given is None:
                raise Undecodable(f"yaml: line {key_node.start_mark.line + 1}: a key may not be null")
            key = given if isinstance(given, str) else go_value(given)
            if index >= merged and given in seen:
                shown = go_quote(key) if isinstance(given, str) else key
                self.duplicates.append(f"line {key_node.start_mark.line + 1}: key {shown} already set in map")
            seen.add(given)
            result[key] = self.construct_object(value_node, deep=deep)
        return result


def _plain(loader: _Loader, node: pyyaml.ScalarNode) -> Json:
    return _resolved(str(loader.construct_scalar(node)))


def _tagged(loader: _Loader, node: pyyaml.Node) -> Json:
    """Return the value of a node with an unknown tag, as if it had none."""
    if isinstance(node, pyyaml.MappingNode):
        return dict(loader.construct_mapping(node, deep=True))
    return list(loader.construct_sequence(node, deep=True)) if isinstance(node, pyyaml.SequenceNode) else str(node.value)


_PREFIX: Final = "tag:yaml.org,2002:"
_Loader.yaml_constructors = {
    **{f"{_PREFIX}{name}": pyyaml.SafeLoader.yaml_constructors[f"{_PREFIX}{name}"] for name in ("seq", "map", "str")},
    **{f"{_PREFIX}{name}": _plain for name in ("bool", "int", "float", "null")},
    _PLAIN: _plain,
    f"{_PREFIX}binary": pyyaml.SafeLoader.yaml_constructors[_STR],
    _MERGE: lambda _loader, _node: "<<",
    None: _tagged,
}


def _written_out(value: Json, budget: list[int]) -> Json:
    """Return a tree in which each use of an anchor is a separate copy."""
    budget[0] -= 1
    if budget[0] < 0:
        raise Undecodable("yaml: document contains excessive aliasing")
    if isinstance(value, dict):
        return {name: _written_out(child, budget) for name, child in value.items()}
    return [_written_out(child, budget) for child in value] if isinstance(value, list) else value


def parse_yaml(body: bytes, *, duplicates: bool = True) -> tuple[Json, list[str]]:
    """Return the value of `body` in the form of JSON, and a sentence for each duplicate key."""
    try:
        loader = _Loader(body)
        value = _written_out(loader.get_data() if loader.check_data() else None, [_MOST_NODES])  # type: ignore[no-untyped-call]
    except (pyyaml.YAMLError, UnicodeDecodeError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise Undecodable(f"yaml: {where}{getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise Undecodable("yaml: the document is nested too deeply") from None
    return value, list(loader.duplicates) if duplicates else []


def parse_json(body: bytes, *, duplicates: bool = True) -> tuple[Json, list[str]]:
    """Return the value of `body`, and a sentence for each duplicate field (`duplicate field "spec.x"`).

    Args:
        body: JSON text. Of duplicate fields the last value is used.
        duplicates: whether duplicate fields are reported.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = _lenient(body)
    if not duplicates or len(orjson.dumps(value)) == len(body.rstrip()):
        return value, []  # a compact text of the same length as its value has no duplicates
    return value, list(dict.fromkeys(_duplicates(body.decode(errors="replace"))))


class _Pairs(list[tuple[str, Json]]):
    """An object as the parser saw it, with duplicate keys."""


def _duplicates(text: str) -> list[str]:
    found: list[str] = []

    def walk(value: Json, path: str) -> None:
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for name, child in value:
                own = f"{path}.{name}" if path else name
                if name in seen:
                    found.append(f'duplicate field "{own}"')
                seen.add(name)
                walk(child, own)
        elif isinstance(value, list):
            for index, child in enumerate(value):
                walk(child, f"{path}[{index}]")

    walk(json.loads(text, object_pairs_hook=_Pairs), "")
    return found


def _lenient(body: bytes) -> Json:
    """Return the value of a body that the fast parser rejects. Invalid UTF-8 becomes replacement characters."""
    text = body.decode(errors="replace")
    try:
        result: Json = orjson.loads(orjson.dumps(json.loads(text, parse_float=_finite)))
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
            raise Undecodable("unexpected end of JSON input") from None
        raise Undecodable(f"invalid character {text[error.pos]!r} at {error.pos}: {error.msg}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise Undecodable(f"the body is no JSON: {error}") from None
    return result


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"{text} is too large a number")
    return value


def strict_message(problems: list[str]) -> str:
    """Return the message of a strict decoding error with `problems` (unknown and duplicate fields)."""
    texts = [problem for problem in problems if not problem.startswith("line ")]
    if lines := [problem for problem in problems if problem.startswith("line ")]:
        texts.insert(0, "yaml: unmarshal errors:\n" + "\n".join(f"  {line}" for line in lines))
    return "strict decoding error: " + ", ".join(texts)
