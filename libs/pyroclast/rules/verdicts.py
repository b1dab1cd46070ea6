"""What rules find, and the verdict that follows: allowed, or denied in Volcano's sentence with a cause per field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pyroclast.rules.errors import FieldError

__all__ = ["ALLOWED", "Finding", "Patch", "Verdict", "denied", "field_verdict", "first_only", "found", "verdict_of"]

SHOWN_PLACES = 5
"""Fields that a message names; all of them are in its causes."""

Patch: TypeAlias = list[dict[str, Any]]
"""Operations of a JSON patch (RFC 6902)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `sentence` is Volcano's, with the blanks and semicolons that it has inside a message.

    `extra` marks what Volcano would not have reported, because it stopped before; `about_fields` is false for what
    no change of the object can mend (a closed queue). `errors` say the same per field.
    """

    sentence: str
    errors: tuple[FieldError, ...]
    extra: bool = False
    about_fields: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one request. An empty `message` allows it.

    Causes make it a 422 Invalid, else it is Volcano's plain 400. Warnings are for what is legal but surely not meant.
    """

    message: str = ""
    causes: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether nothing speaks against the request."""
        return not self.message

    @property
    def sentence(self) -> str:
        """The message and, behind it, the fields at fault that it does not name: of several objects kubectl shows only this."""
        paths = [path for path in dict.fromkeys(cause.path for cause in self.causes) if path not in self.message]
        more = f" and {len(paths) - SHOWN_PLACES} more" if len(paths) > SHOWN_PLACES else ""
        return f"{self.message} ({', '.join(paths[:SHOWN_PLACES])}{more})" if paths else self.message


ALLOWED = Verdict()


def denied(message: str, *, warnings: tuple[str, ...] = ()) -> Verdict:
    """A denial that is not about fields: code and sentence as Volcano's."""
    return Verdict(message, (), warnings)


def found(sentence: str, *errors: FieldError) -> Finding:
    """A finding about fields."""
    return Finding(sentence, errors)


def first_only(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, all but the first marked as extra: where Volcano stops at the first one."""
    return [replace(finding, extra=True) if index else finding for index, finding in enumerate(findings)]


def verdict_of(findings: Sequence[Finding], *, warnings: tuple[str, ...] = (), trim: bool = True) -> Verdict:
    """One verdict for all findings.

    The message starts with what Volcano would have said, to the letter (its sentences stand one after the other
    with nothing between), then come the sentences that it would not have reached.
    """
    if not findings:
        return Verdict(warnings=warnings) if warnings else ALLOWED
    said: list[str] = []
    more: list[str] = []
    errors: list[FieldError] = []
    about_fields = False
    for finding in findings:
        (more if finding.extra else said).append(finding.sentence)
        errors += finding.errors
        about_fields = about_fields or finding.about_fields
    message = "".join(said)
    if trim:
        message = message.strip()
    for sentence in more:
        message = _joined(message, sentence.strip())
    causes = tuple({str(error): error for error in errors}.values()) if about_fields else ()
    return Verdict(message, causes, warnings)


def field_verdict(errors: list[FieldError], *, warnings: tuple[str, ...] = ()) -> Verdict:
    """A verdict whose message is the errors themselves: one as it is, several as `[a, b]`."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
    return Verdict(message, tuple(errors), warnings)


def _joined(message: str, sentence: str) -> str:
    if not message:
        return sentence
    return f"{message} {sentence}" if message.endswith((";", ".")) else f"{message}; {sentence}"
