"""Parses JSON bodies as the API does, with the duplicate fields, and YAML bodies as plain data."""

from __future__ import annotations

import json
import math
import re
from typing import Final

import orjson
import yaml

from pyroclast_standalone.apiserver.documents.errors import Json, Undecodable

_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = {
    "bool": r"y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF",
    "null": r"~|null|Null|NULL|",
    "int": r"[-+]?(?:0|[1-9][0-9_]*|0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+)",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
    "merge": "<<",
}
_DEEPEST: Final = 500


class _Loader(yaml.CSafeLoader):
    """Loads the types of JSON. A time or `12:30` stays a text, as for Go."""

    yaml_implicit_resolvers = {None: [(_TAG + name, re.compile(f"(?:{text})$")) for name, text in _SCALARS.items()]}  # noqa: RUF012 - as in the base class
    bool_values = yaml.CSafeLoader.bool_values | {"y": True, "n": False}


def parse_yaml(body: bytes) -> Json:
    """Return the value of the first document in `body` in the form of JSON. Of equal keys the last one is used."""
    try:
        depth = 0
        for event in yaml.parse(body, yaml.CSafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise Undecodable("yaml: the embedded API server reads no aliases of anchors; write the value out")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:  # the time of libyaml grows with the square of the depth
                raise Undecodable(f"yaml: lists and objects are nested deeper than {_DEEPEST}")
        value: Json = orjson.loads(orjson.dumps(next(yaml.load_all(body, _Loader), None), option=orjson.OPT_NON_STR_KEYS))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise Undecodable(f"yaml: {where}{getattr(error, 'problem', None) or str(error).partition(chr(10))[0]}") from None
    return value


def parse_json(body: bytes, *, duplicates: bool = True) -> tuple[Json, list[str]]:
    """Return the value of `body`, and a sentence for each duplicate field (`duplicate field "spec.x"`) if `duplicates`.

    Of duplicate fields the last value is used.
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
    return "strict decoding error: " + ", ".join(problems)
