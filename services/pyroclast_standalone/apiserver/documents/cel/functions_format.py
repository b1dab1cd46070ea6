"""`"…".format(args)`: values put into a text."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from pyroclast.resources.go_text import go_quote
from pyroclast_standalone.apiserver.documents.values import Json

from .errors import CelError, NoSuchOverload
from .functions_times import show_duration, show_timestamp
from .values import Duration, TypeOf, type_name

__all__ = ["format_text", "show"]

_RAISED: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
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
            return "[" + ", ".join(map(_inner, value)) + "]"
        case dict():
            return "{" + ", ".join(sorted(f"{_inner(key)}:{_inner(child)}" for key, child in value.items())) + "}"
        case datetime():
            return show_timestamp(value)
        case Duration():
            return show_duration(value)
        case TypeOf():
            return value.name
        case _:
            return str(value)


def _inner(value: Json) -> str:
    """A value inside of a list or map."""
    match value:
        case str():
            return go_quote(value)
        case bytes():
            return f"b{go_quote(value.decode(errors='replace'))}"
        case float():
            return f"{value:.6f}"
        case datetime():
            return f'timestamp("{show_timestamp(value)}")'
        case Duration():
            return f'duration("{show_duration(value)}")'
        case _:
            return show(value)


def _number(value: Json, clause: str, *, whole: bool = True) -> float:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        wanted = "integers" if whole else "doubles"
        raise CelError(f"error during formatting: {clause} clause can only be used on {wanted}, was given {type_name(value)}")
    return value


def _scientific(value: float) -> str:
    """As it is printed where powers are raised."""
    digits, _, exponent = f"{value:.6e}".partition("e")
    return f"{digits}\u00d710{exponent.lstrip('+').translate(_RAISED)}"


def _clause(kind: str, precision: str | None, value: Json) -> str:
    digits = 6 if precision is None else int(precision)
    match kind:
        case "s":
            return show(value)
        case "d":
            return show(_number(value, "decimal"))
        case "f":
            return f"{_number(value, 'fixed-point', whole=False):.{digits}f}"
        case "e":
            return _scientific(_number(value, "scientific notation", whole=False))
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
        raise NoSuchOverload
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
