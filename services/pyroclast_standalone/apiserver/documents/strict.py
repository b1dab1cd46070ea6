"""Parses JSON bodies, and finds duplicate fields."""

from __future__ import annotations

import json
import math

import orjson

from pyroclast_standalone.apiserver.documents.errors import Undecodable
from pyroclast_standalone.apiserver.documents.values import Json


def parse_json(body: bytes, *, duplicates: bool = True) -> tuple[Json, list[str]]:
    """Return the value of `body`, and a sentence for each duplicate field (`duplicate field "spec.x"`).

    Args:
        body: JSON text. Of duplicate fields the last value is used.
        duplicates: whether duplicate fields are reported.

    Raises:
        Undecodable: the body is not JSON.
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
