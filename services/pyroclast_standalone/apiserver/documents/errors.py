"""Errors about documents, with the messages of the Kubernetes API.

There are two forms. A `FieldError` is a value: validation collects all of them, so that a user sees every mistake together. A
`DocumentError` is raised when the document cannot be processed further. It has the code and reason of the answer::

    DocumentError            400 BadRequest
    ├── Undecodable          400 BadRequest: the body is no document of this kind
    ├── MalformedPatch       400 BadRequest: the patch itself cannot be parsed
    ├── MalformedSelector    400 BadRequest
    ├── Unprocessable        422 Invalid: a valid patch that does not apply
    ├── UnsupportedBody      415 UnsupportedMediaType
    ├── PatchFailure         500, no reason
    └── ApplyConflict        409 Conflict: other managers own the fields
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, TypeAlias

from pyroclast.rules.errors import FieldError

Json: TypeAlias = Any
"""Any JSON value."""

Object: TypeAlias = dict[str, Any]
"""A JSON object."""


def aggregate(errors: Iterable[FieldError]) -> str:
    """Join the texts of `errors`: a single text as it is, several as a list in brackets. Equal texts occur once."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def causes_of(errors: Iterable[FieldError]) -> list[dict[str, str]]:
    """Return `details.causes` of a Status for `errors`."""
    return [error.cause() for error in errors]


class DocumentError(Exception):
    """A document that cannot be processed. `causes` become `details.causes` of the Status."""

    code: ClassVar[int] = 400
    reason: ClassVar[str] = "BadRequest"

    def __init__(self, message: str, *, causes: Iterable[dict[str, str]] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.causes = tuple(causes)


class Undecodable(DocumentError):
    """A body cannot be decoded as an object of the kind that it names."""


class MalformedPatch(DocumentError):
    """The body of a patch cannot be parsed."""


class MalformedSelector(DocumentError):
    """A label or field selector cannot be parsed, or names a field that is not selectable."""


class Unprocessable(DocumentError):
    """A valid patch that does not apply to the object."""

    code = 422
    reason = "Invalid"


class UnsupportedBody(DocumentError):
    """A body in an encoding that is not supported for this kind."""

    code = 415
    reason = "UnsupportedMediaType"


class PatchFailure(DocumentError):
    """A patch that fails in a way that the API reports as a server error without a reason."""

    code = 500
    reason = ""


class ApplyConflict(DocumentError):
    """A server-side apply without force changes fields that other managers own."""

    code = 409
    reason = "Conflict"
