"""Functions of strings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyroclast.resources.go_text import go_quote
from pyroclast_standalone.apiserver.documents.patterns import BadPattern, compile_pattern
from pyroclast_standalone.apiserver.documents.values import Json

from .errors import CelError, NoSuchOverload
from .functions_format import format_text

__all__ = ["STRING_METHODS", "STRING_QUALIFIED"]


def _text(*values: Json) -> None:
    if not all(isinstance(value, str) for value in values):
        raise NoSuchOverload


def _search(text: str, pattern: str) -> Json:
    _text(text, pattern)
    try:
        return compile_pattern(pattern).search(text)
    except BadPattern as error:
        raise CelError(str(error)) from None


def _matches(text: str, pattern: str) -> bool:
    return _search(text, pattern) is not None


def _find(text: str, pattern: str) -> str:
    found = _search(text, pattern)
    return found.group() if found is not None else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    _search(text, pattern)
    found = [each.group() for each in compile_pattern(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _char_at(text: str, index: int) -> str:
    _text(text)
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    _text(text)
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise CelError(f"index out of range: {start if not 0 <= start <= len(text) else stop}")
    return text[start:stop]


def _index_of(text: str, part: str, start: int = 0) -> int:
    _text(text, part)
    return text.find(part, start)


def _last_index_of(text: str, part: str, end: int | None = None) -> int:
    _text(text, part)
    return text.rfind(part) if end is None else text.rfind(part, 0, end + len(part))


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    _text(text, old, new)
    return text.replace(old, new, limit)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    _text(text, separator)
    if limit == 0:
        return []
    if separator == "":
        return list(text)
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _join(values: Json, separator: str = "") -> str:
    if not isinstance(values, list):
        raise NoSuchOverload
    _text(separator, *values)
    return separator.join(values)


def _upper(text: str) -> str:
    _text(text)
    return "".join(each.upper() if each.isascii() else each for each in text)


def _lower(text: str) -> str:
    _text(text)
    return "".join(each.lower() if each.isascii() else each for each in text)


def _plain(method: Callable[..., Json]) -> Callable[..., Json]:
    def call(*args: Json) -> Json:
        _text(*args)
        return method(*args)

    return call


STRING_METHODS: Final[Mapping[str, Callable[..., Json]]] = {
    "contains": _plain(lambda text, part: part in text),
    "startsWith": _plain(str.startswith),
    "endsWith": _plain(str.endswith),
    "matches": _matches,
    "find": _find,
    "findAll": _find_all,
    "charAt": _char_at,
    "substring": _substring,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "lowerAscii": _lower,
    "upperAscii": _upper,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "trim": _plain(str.strip),
    "format": format_text,
}
STRING_QUALIFIED: Final[Mapping[str, Callable[..., Json]]] = {
    "strings.quote": go_quote,
    "jsonpatch.escapeKey": _plain(lambda key: key.replace("~", "~0").replace("/", "~1")),
}
