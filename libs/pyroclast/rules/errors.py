"""Field errors, the one form of all findings: the path of a field, its value and its fault, in the words of Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from pyroclast.resources.go_text import go_quote
from pyroclast.rules.values import Json

MISSING: Final = object()
"""The value of an error that shows no value."""

MAX_SHOWN = 4096
"""The most characters of a value in an error: enough to recognise the value, but not too many for a terminal."""


class ErrorType(Enum):
    """The text of an error type in messages, and its reason in `details.causes` of a Status."""

    REQUIRED = ("Required value", "FieldValueRequired")
    INVALID = ("Invalid value", "FieldValueInvalid")
    UNSUPPORTED = ("Unsupported value", "FieldValueNotSupported")
    DUPLICATE = ("Duplicate value", "FieldValueDuplicate")
    NOT_FOUND = ("Not found", "FieldValueNotFound")
    FORBIDDEN = ("Forbidden", "FieldValueForbidden")
    TOO_LONG = ("Too long", "FieldValueTooLong")
    TOO_MANY = ("Too many", "FieldValueTooMany")
    TYPE_INVALID = ("Invalid value", "FieldValueTypeInvalid")
    INTERNAL = ("Internal error", "InternalError")

    def __init__(self, text: str, reason: str) -> None:
        self.text = text
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault: `path` of the field, type of the fault, the value (`MISSING`: none is shown), and the correct form."""

    path: str
    type: ErrorType
    detail: str = ""
    value: Any = MISSING

    @property
    def body(self) -> str:
        """The error without its path, as the `message` of an element of `details.causes` in a Status."""
        parts = [self.type.text]
        if self.value is not MISSING:
            parts.append(_shown(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"

    def under(self, prefix: str) -> FieldError:
        """Return the same error for an object at path `prefix` of a larger object."""
        return replace(self, path=f"{prefix}.{self.path}")

    def cause(self) -> dict[str, str]:
        """Return this error as one element of `details.causes` in the Status of a response."""
        return {"reason": self.type.reason, "message": self.body, "field": self.path}


def required(path: str, detail: str = "") -> FieldError:
    """Return the error of a required value that is missing."""
    return FieldError(path, ErrorType.REQUIRED, detail)


def invalid(path: str, value: Json, detail: str) -> FieldError:
    """Return the error of a value that breaks the rule in `detail`."""
    return FieldError(path, ErrorType.INVALID, detail, value)


def invalid_for(path: str, value: Json, problems: Iterable[str]) -> list[FieldError]:
    """Return one error for each of `problems` of a value."""
    return [invalid(path, value, problem) for problem in problems]


def type_invalid(path: str, value: Json, detail: str) -> FieldError:
    """Return the error of a value whose type differs from the schema."""
    return FieldError(path, ErrorType.TYPE_INVALID, detail, value)


def unsupported(path: str, value: Json, supported: Sequence[Json]) -> FieldError:
    """Return the error of a value that is not in `supported`, whose elements are shown in their order."""
    names = ", ".join(go_quote(str(name)) for name in supported)
    return FieldError(path, ErrorType.UNSUPPORTED, f"supported values: {names}" if supported else "", value)


def duplicate(path: str, value: Json) -> FieldError:
    """Return the error of a duplicate value."""
    return FieldError(path, ErrorType.DUPLICATE, "", value)


def not_found(path: str, value: Json, detail: str = "") -> FieldError:
    """Return the error of a value that names an object which does not exist."""
    return FieldError(path, ErrorType.NOT_FOUND, detail, value)


def forbidden(path: str, detail: str) -> FieldError:
    """Return the error of a field that may not be set."""
    return FieldError(path, ErrorType.FORBIDDEN, detail)


def too_long(path: str, limit: int) -> FieldError:
    """Return the error of a text with more than `limit` bytes; a negative limit is not shown."""
    detail = f"may not be more than {limit} {'byte' if limit == 1 else 'bytes'}" if limit >= 0 else "value is too long"
    return FieldError(path, ErrorType.TOO_LONG, detail)


def too_many(path: str, count: int, limit: int) -> FieldError:
    """Return the error of a list or map with `count` entries, more than `limit`; negative numbers are not shown."""
    detail = f"must have at most {limit} {'item' if limit == 1 else 'items'}" if limit >= 0 else "has too many items"
    return FieldError(path, ErrorType.TOO_MANY, detail, count if count >= 0 else MISSING)


def internal(path: str, detail: str) -> FieldError:
    """Return the error of a check that could not be made."""
    return FieldError(path, ErrorType.INTERNAL, detail)


def _shown(value: Json) -> str:
    """Return a value as Go prints its JSON, cut if it is long."""
    if isinstance(value, str):
        shown = go_quote(value)
    elif isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        shown = str(int(value))
    else:
        try:
            shown = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):  # nested deeper than any meaningful value
            shown = f"<{type(value).__name__}>"
        shown = shown.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e") if shown[:1] != "<" else shown
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"
