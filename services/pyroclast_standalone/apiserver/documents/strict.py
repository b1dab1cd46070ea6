"""Reading JSON bodies, and noticing fields that are given twice."""

from __future__ import annotations

import json

import orjson

from .errors import Undecodable
from .values import Json

__all__ = ["parse_json", "strict_message"]


def parse_json(body: bytes, *, duplicates: bool = True) -> tuple[Json, list[str]]:
    """The value of `body` and a sentence for each field that is given twice (`duplicate field "spec.x"`).

    Args:
        body: JSON text. Of a field given twice the last value counts.
        duplicates: False where nobody wants to hear of them.

    Raises:
        Undecodable: no JSON.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Undecodable(_decoding_text(body, error)) from None
    if not duplicates or len(orjson.dumps(value)) == len(body.rstrip()):
        return value, []  # compact text as long as its value in print: nothing was given twice
    return value, list(dict.fromkeys(_duplicates(body.decode())))


class _Pairs(list[tuple[str, Json]]):
    """An object as the reader saw it."""


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


def _decoding_text(body: bytes, error: orjson.JSONDecodeError) -> str:
    """The syntax error in the words of the API's decoder, for the cases that users meet."""
    text = body.decode(errors="replace")
    at = error.pos
    if not text.strip():
        return "unexpected end of JSON input"
    if at >= len(text.rstrip()) or "unexpected end of data" in str(error):
        return "unexpected end of JSON input"
    character = text[at]
    if character == "," and (following := text[at + 1 :].lstrip()[:1]) in {"}", "]"}:
        wanted = "object key string" if following == "}" else "value"
        return f"invalid character {_quoted(following)} looking for beginning of {wanted}"
    return f"invalid character {_quoted(character)} {_place(text, at)}"


def _quoted(character: str) -> str:
    return {"'": r"'\''", "\n": r"'\n'", "\t": r"'\t'", '"': "'\"'"}.get(character, f"'{character}'")


def _place(text: str, at: int) -> str:
    before = text[:at].rstrip()
    match before[-1:]:
        case "":
            return "looking for beginning of value"
        case "{" | ",":
            return "looking for beginning of object key string" if _in_object(before) else "looking for beginning of value"
        case ":" | "[":
            return "looking for beginning of value"
        case '"' if _in_object(before) and _is_key(before):
            return "after object key"
        case _:
            if not _in_any(before):
                return "after top-level value"
            return "after object key:value pair" if _in_object(before) else "after array element"


def _open(text: str) -> list[str]:
    """The brackets open at the end of `text`."""
    stack: list[str] = []
    inside = escaped = False
    for character in text:
        if inside:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                inside = False
        elif character == '"':
            inside = True
        elif character in "{[":
            stack.append(character)
        elif character in "}]" and stack:
            stack.pop()
    return stack


def _in_any(text: str) -> bool:
    return bool(_open(text))


def _in_object(text: str) -> bool:
    return _open(text)[-1:] == ["{"]


def _is_key(text: str) -> bool:
    start = text.rstrip('"').rfind('"')
    return text[:start].rstrip()[-1:] in {"{", ","}


def strict_message(problems: list[str]) -> str:
    """The text of a strict refusal that lists `problems` (unknown and duplicate fields)."""
    texts = [problem for problem in problems if not problem.startswith("line ")]
    if lines := [problem for problem in problems if problem.startswith("line ")]:
        texts.insert(0, "yaml: unmarshal errors:\n" + "\n".join(f"  {line}" for line in lines))
    return "strict decoding error: " + ", ".join(texts)
