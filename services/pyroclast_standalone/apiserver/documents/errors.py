"""Refusals of documents, in the words of the Kubernetes API.

Two forms. A `FieldError` is a value: validation collects all of them, so that a user sees every mistake at once. A
`DocumentError` is raised where nothing more can be done with the document; it carries the code and reason of the answer::

    DocumentError            400 BadRequest
    ├── Undecodable          400 BadRequest: the body is no document of this kind
    ├── MalformedPatch       400 BadRequest: the patch itself cannot be read
    ├── MalformedSelector    400 BadRequest
    ├── Unprocessable        422 Invalid: a readable patch that does not apply
    ├── TooLarge             413 RequestEntityTooLarge
    ├── UnsupportedBody      415 UnsupportedMediaType
    ├── PatchFailure         500, no reason
    └── ApplyConflict        409 Conflict: other managers own the fields
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from pyroclast.resources.go_text import go_quote

from .values import Json

__all__ = [
    "OMITTED",
    "ApplyConflict",
    "DocumentError",
    "ErrorType",
    "FieldError",
    "MalformedPatch",
    "MalformedSelector",
    "PatchFailure",
    "TooLarge",
    "Undecodable",
    "Unprocessable",
    "UnsupportedBody",
    "aggregate",
    "causes_of",
    "duplicate",
    "forbidden",
    "internal",
    "invalid",
    "not_found",
    "required",
    "too_long",
    "too_many",
    "type_invalid",
    "unsupported",
]


class ErrorType(StrEnum):
    """Why a field is refused; the value is the `reason` of the cause in a Status."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    UNSUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_SHORT = "FieldValueTooShort"
    TOO_MANY = "FieldValueTooMany"
    TOO_FEW = "FieldValueTooFew"
    TYPE_INVALID = "FieldValueTypeInvalid"
    NOT_FOUND = "FieldValueNotFound"
    INTERNAL = "InternalError"


_TITLES: Final = {
    ErrorType.REQUIRED: "Required value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.UNSUPPORTED: "Unsupported value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_SHORT: "Too short",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.TOO_FEW: "Too few",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.INTERNAL: "Internal error",
}
_WITHOUT_VALUE: Final = {
    ErrorType.REQUIRED,
    ErrorType.FORBIDDEN,
    ErrorType.TOO_LONG,
    ErrorType.TOO_SHORT,
    ErrorType.INTERNAL,
}


class _Omitted:
    __slots__ = ()

    def __repr__(self) -> str:
        return "OMITTED"


OMITTED: Final = _Omitted()
"""The value of a `FieldError` whose text shows none."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One mistake in one field. `path` is dotted with indices (`spec.tasks[0].name`); `value` is the offending JSON value."""

    path: str
    type: ErrorType
    detail: str = ""
    value: Json = OMITTED

    @property
    def body(self) -> str:
        """The text without the path, as a Status cause carries it."""
        text = _TITLES[self.type]
        if self.type not in _WITHOUT_VALUE and self.value is not OMITTED:
            text = f"{text}: {_shown(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"

    def cause(self) -> dict[str, str]:
        """The entry of `details.causes`."""
        return {"reason": str(self.type), "message": self.body, "field": self.path}


def _shown(value: Json) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return go_quote(value)
        case float() if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        case int() | float():
            return str(value)
        case _:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
            return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def required(path: str, detail: str = "") -> FieldError:
    """The field must be given."""
    return FieldError(path, ErrorType.REQUIRED, detail)


def invalid(path: str, value: Json, detail: str) -> FieldError:
    """The value does not obey the rule told by `detail`; pass `OMITTED` to keep it out of the text."""
    return FieldError(path, ErrorType.INVALID, detail, value)


def type_invalid(path: str, value: Json, detail: str) -> FieldError:
    """The value is of another type than the schema's."""
    return FieldError(path, ErrorType.TYPE_INVALID, detail, value)


def unsupported(path: str, value: Json, supported: Sequence[str]) -> FieldError:
    """The value is none of the `supported` ones, which the text lists in the given order."""
    detail = "supported values: " + ", ".join(go_quote(str(each)) for each in supported) if supported else ""
    return FieldError(path, ErrorType.UNSUPPORTED, detail, value)


def forbidden(path: str, detail: str) -> FieldError:
    """The field may not be set, or not be changed, here."""
    return FieldError(path, ErrorType.FORBIDDEN, detail)


def duplicate(path: str, value: Json) -> FieldError:
    """The value stands more than once where it must be unique."""
    return FieldError(path, ErrorType.DUPLICATE, "", value)


def not_found(path: str, value: Json) -> FieldError:
    """The value names something that does not exist."""
    return FieldError(path, ErrorType.NOT_FOUND, "", value)


def too_long(path: str, max_bytes: int) -> FieldError:
    """A text longer than `max_bytes` bytes; negative means that no limit is told."""
    unit = "byte" if max_bytes == 1 else "bytes"
    detail = f"may not be more than {max_bytes} {unit}" if max_bytes >= 0 else "value is too long"
    return FieldError(path, ErrorType.TOO_LONG, detail)


def too_many(path: str, actual: int, maximum: int) -> FieldError:
    """A list or map with more than `maximum` entries; a negative maximum means that no limit is told."""
    unit = "item" if maximum == 1 else "items"
    detail = f"must have at most {maximum} {unit}" if maximum >= 0 else "has too many items"
    return FieldError(path, ErrorType.TOO_MANY, detail, actual if actual >= 0 else OMITTED)


def internal(path: str, detail: str) -> FieldError:
    """The check itself could not be made."""
    return FieldError(path, ErrorType.INTERNAL, detail)


def aggregate(errors: Iterable[FieldError]) -> str:
    """The texts of `errors` as one: bare if there is one, else a bracketed list; equal texts stand once."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def causes_of(errors: Iterable[FieldError]) -> list[dict[str, str]]:
    """`details.causes` of a Status for `errors`."""
    return [error.cause() for error in errors]


class DocumentError(Exception):
    """A document that cannot be handled. `causes` go into `details.causes` of the Status as they are."""

    code: ClassVar[int] = 400
    reason: ClassVar[str] = "BadRequest"

    def __init__(self, message: str, *, causes: Iterable[dict[str, str]] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.causes = tuple(causes)


class Undecodable(DocumentError):
    """The body is not a document of the kind it claims to be."""


class MalformedPatch(DocumentError):
    """The patch cannot be read."""


class MalformedSelector(DocumentError):
    """A label or field selector cannot be read, or names a field that is not selectable."""


class Unprocessable(DocumentError):
    """A readable patch that does not apply to the object."""

    code = 422
    reason = "Invalid"


class TooLarge(DocumentError):
    """More than the API takes at once."""

    code = 413
    reason = "RequestEntityTooLarge"


class UnsupportedBody(DocumentError):
    """A body in a form that is not understood for this kind."""

    code = 415
    reason = "UnsupportedMediaType"


class PatchFailure(DocumentError):
    """A patch that fails in a way which the API reports as a server error without a reason."""

    code = 500
    reason = ""


class ApplyConflict(DocumentError):
    """Server-side apply without force meets fields that other managers own."""

    code = 409
    reason = "Conflict"
