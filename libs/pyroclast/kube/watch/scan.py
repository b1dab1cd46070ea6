"""Splits JSON into its members without decoding them, for objects that are nested too deeply or are invalid. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

_TEXT: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_NESTING: Final = re.compile(_TEXT + rb"|[\[{]++|[\]}]++", re.DOTALL)
_STRUCTURE: Final = re.compile(_TEXT + rb"|[\[{]++|[\]}]++|[,:]", re.DOTALL)
_OPENING, _CLOSING, _QUOTE, _COMMA, _COLON = b"[{", b"]}", 0x22, 0x2C, 0x3A


def elements(array: bytes) -> Iterator[bytes]:
    """Yield the objects and arrays in a JSON array of objects and arrays. Raises ValueError: the array does not end."""
    depth, begin = 0, -1
    for token in _NESTING.finditer(array):
        first, length = array[token.start()], token.end() - token.start()
        if first == _QUOTE:
            continue
        if first in _OPENING:
            if depth < 2 <= depth + length:
                begin = token.start() + 1 - depth
            depth += length
        elif depth - length >= 2:
            depth -= length
        else:
            for end in range(token.start() + 1, token.end() + 1):
                depth -= 1
                if depth == 1:
                    yield array[begin:end]
                elif depth == 0:
                    return
    raise ValueError("the JSON array does not end")


def members(obj: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the members of a JSON object: each name, and the JSON text of its value.

    Raises ValueError: `obj` is not an object, or does not end.
    """
    if not obj.lstrip().startswith(b"{"):
        raise ValueError("not a JSON object")
    depth, begin, colon = 0, obj.index(b"{") + 1, -1
    for token in _STRUCTURE.finditer(obj):
        first, length = obj[token.start()], token.end() - token.start()
        if first in _OPENING:
            depth += length
        elif first in _CLOSING:
            if depth <= length:
                if colon >= 0:
                    yield _name(obj[begin:colon]), obj[colon + 1 : token.start() + depth - 1].strip()
                return
            depth -= length
        elif depth == 1 and first == _COLON and colon < 0:
            colon = token.start()
        elif depth == 1 and first == _COMMA:
            yield _name(obj[begin:colon]), obj[colon + 1 : token.start()].strip()
            begin, colon = token.end(), -1
    raise ValueError("the JSON object does not end")


def _name(text: bytes) -> str:
    try:
        return msgspec.json.decode(text, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"the name of a member is not JSON: {error}") from error
