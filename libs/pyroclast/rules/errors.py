"""Field errors: what is wrong with a value, where it stands, in the words of Kubernetes.

Separate from the rules because every rule, and whoever shows its findings, speaks this one form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from pyroclast.resources.go_text import go_quote
from pyroclast.rules.values import Json

__all__ = [
    "MISSING",
    "ErrorType",
    "FieldError",
    "duplicate",
    "forbidden",
    "internal",
    "invalid",
    "invalid_for",
    "not_found",
    "required",
    "too_long",
    "too_many",
    "type_invalid",
    "unsupported",
]

MISSING: Final = object()
"""The value of an error that shows none."""

MAX_SHOWN = 4096
"""Characters of a value that an error shows: enough to recognise it, not enough to flood a terminal."""


class ErrorType(Enum):
    """Text of the type, and the reason that a cause in a Status carries."""

    REQUIRED = ("Required value", "FieldValueRequired")
    INVALID = ("Invalid value", "FieldValueInvalid")
    UNSUPPORTED = ("Unsupported value", "FieldValueNotSupported")
    DUPLICATE = ("Duplicate value", "FieldValueDuplicate")
    NOT_FOUND = ("Not found", "FieldValueNotFound")
    FORBIDDEN = ("Forbidden", "FieldValueForbidden")
    TOO_LONG = ("Too long", "FieldValueTooLong")
    TOO_SHORT = ("Too short", "FieldValueTooShort")
    TOO_MANY = ("Too many", "FieldValueTooMany")
    TOO_FEW = ("Too few", "FieldValueTooFew")
    TYPE_INVALID = ("Invalid value", "FieldValueTypeInvalid")
    INTERNAL = ("Internal error", "InternalError")

    def __init__(self, text: str, reason: str) -> None:
        self.text = text
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault: `path` of the field, what kind of fault, the value found (`MISSING`: none is shown), what would be right."""

    path: str
    type: ErrorType
    detail: str = ""
    value: Any = MISSING

    @property
    def body(self) -> str:
        """The error without its path, as the `message` of a cause in a Status."""
        parts = [self.type.text]
        if self.value is not MISSING:
            parts.append(_shown(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"

    def under(self, prefix: str) -> FieldError:
        """The same error of an object that stands at `prefix` of a larger one."""
        return replace(self, path=f"{prefix}.{self.path}")

    def cause(self) -> dict[str, str]:
        """The entry of `details.causes` in a Status."""
        return {"reason": self.type.reason, "message": self.body, "field": self.path}


def required(path: str, detail: str = "") -> FieldError:
    """Nothing stands where something must."""
    return FieldError(path, ErrorType.REQUIRED, detail)


def invalid(path: str, value: Json, detail: str) -> FieldError:
    """The value breaks the rule told by `detail`."""
    return FieldError(path, ErrorType.INVALID, detail, value)


def invalid_for(path: str, value: Json, problems: Iterable[str]) -> list[FieldError]:
    """The value has these problems: an error for each."""
    return [invalid(path, value, problem) for problem in problems]


def type_invalid(path: str, value: Json, detail: str) -> FieldError:
    """The value is of another type than the schema's."""
    return FieldError(path, ErrorType.TYPE_INVALID, detail, value)


def unsupported(path: str, value: Json, supported: Sequence[Json]) -> FieldError:
    """The value is none of `supported`, which are shown in their order."""
    names = ", ".join(go_quote(str(name)) for name in supported)
    return FieldError(path, ErrorType.UNSUPPORTED, f"supported values: {names}" if supported else "", value)


def duplicate(path: str, value: Json) -> FieldError:
    """The value stands there twice."""
    return FieldError(path, ErrorType.DUPLICATE, "", value)


def not_found(path: str, value: Json, detail: str = "") -> FieldError:
    """The value names something that is not there."""
    return FieldError(path, ErrorType.NOT_FOUND, detail, value)


def forbidden(path: str, detail: str) -> FieldError:
    """The error of a field that may not be set here."""
    return FieldError(path, ErrorType.FORBIDDEN, detail)


def too_long(path: str, limit: int) -> FieldError:
    """The text has more than `limit` bytes; a negative limit is not told."""
    detail = f"may not be more than {limit} {'byte' if limit == 1 else 'bytes'}" if limit >= 0 else "value is too long"
    return FieldError(path, ErrorType.TOO_LONG, detail)


def too_many(path: str, count: int, limit: int) -> FieldError:
    """The list or map has `count` entries, more than `limit`; negative numbers are not told."""
    detail = f"must have at most {limit} {'item' if limit == 1 else 'items'}" if limit >= 0 else "has too many items"
    return FieldError(path, ErrorType.TOO_MANY, detail, count if count >= 0 else MISSING)


def internal(path: str, detail: str) -> FieldError:
    """The check itself could not be made."""
    return FieldError(path, ErrorType.INTERNAL, detail)


def _shown(value: Json) -> str:
    """A value as Go prints it as JSON, cut where it gets long."""
    if isinstance(value, str):
        shown = go_quote(value)
    elif isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        shown = str(int(value))
    else:
        try:
            shown = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):  # deeper than a value can be that somebody means
            shown = f"<{type(value).__name__}>"
        shown = shown.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e") if shown[:1] != "<" else shown
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"
