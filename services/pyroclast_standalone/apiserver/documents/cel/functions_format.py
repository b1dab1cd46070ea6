"""`"…".format(args)`: values put into a text."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from pyroclast_standalone.apiserver.documents.values import Json

from .errors import CelError
from .functions_times import show_duration, show_timestamp
from .values import Duration, TypeOf

__all__ = ["format_text", "show"]

_CLAUSE: Final = re.compile(r"%(?:%|(?:\.(\d+))?([sdfexXob]))")


def show(value: Json) -> str:
    """A value as `%s` prints it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
        case None:
            return "null"
        case bytes():
            return value.decode(errors="replace")
        case list():
            return "[" + ", ".join(map(show, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{show(key)}: {show(value[key])}" for key in sorted(value, key=str)) + "}"
        case datetime():
            return show_timestamp(value)
        case Duration():
            return show_duration(value)
        case TypeOf():
            return value.name
        case _:
            return str(value)


def _number(value: Json, clause: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CelError(f"error during formatting: {clause} clause can only be used on numbers")
    return value


def _clause(kind: str, precision: str | None, value: Json) -> str:
    digits = 6 if precision is None else int(precision)
    match kind:
        case "s":
            return show(value)
        case "d":
            return show(_number(value, "decimal"))
        case "f":
            return f"{_number(value, 'fixed-point'):.{digits}f}"
        case "e":
            return f"{_number(value, 'scientific'):.{digits}e}"
        case "b":
            return ("1" if value else "0") if isinstance(value, bool) else f"{int(_number(value, 'binary')):b}"
        case "o":
            return f"{int(_number(value, 'octal')):o}"
        case _:
            if isinstance(value, str | bytes):
                text = (value.encode() if isinstance(value, str) else value).hex()
            else:
                text = f"{int(_number(value, 'hex')):x}"
            return text.upper() if kind == "X" else text


def format_text(text: Json, args: Json) -> str:
    """`text` with `args` in the places of its clauses (`%s`, `%d`, `%.2f`, …)."""
    if not isinstance(text, str) or not isinstance(args, list):
        raise NotImplementedError
    values = iter(args)

    def replace(found: re.Match[str]) -> str:
        if found.group() == "%%":
            return "%"
        try:
            value = next(values)
        except StopIteration:
            raise CelError(f"index {len(args)} out of range") from None
        return _clause(found[2], found[1], value)

    return _CLAUSE.sub(replace, text)
