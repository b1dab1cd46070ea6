"""Findings of rules, and the verdict on a request: allowed, or denied with Volcano's sentence and an error for each field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pyroclast.rules.errors import FieldError, invalid
from pyroclast.rules.values import Json

SHOWN_PLACES = 5
"""The most fields that a message names; the causes name all of them."""

MAX_SHOWN = 16 * 1024
"""The most characters of a message that users are shown."""

Patch: TypeAlias = list[dict[str, Any]]
"""The operations of a JSON patch (RFC 6902)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault. `sentence` is Volcano's, with its blanks and semicolons inside a message; `errors` are the errors of the fields.

    `extra`: whether Volcano would not report the fault, because it stopped before. `about_fields`: false for a fault that no
    change of the object can repair (a closed queue).
    """

    sentence: str
    errors: tuple[FieldError, ...]
    extra: bool = False
    about_fields: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one request. An empty `message` allows it. A denial with `causes` is a 422 Invalid, else Volcano's 400."""

    message: str = ""
    causes: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the request is allowed."""
        return not self.message

    @property
    def sentence(self) -> str:
        """The message, followed by the faulty fields that it does not name. For several objects, kubectl shows only this text."""
        begin = self.message[:MAX_SHOWN]  # a bound, as every path is searched in it
        paths = [path for path in dict.fromkeys(cause.path for cause in self.causes) if path not in begin]
        more = f" and {len(paths) - SHOWN_PLACES} more" if len(paths) > SHOWN_PLACES else ""
        return f"{self.message} ({', '.join(paths[:SHOWN_PLACES])}{more})" if paths else self.message


ALLOWED = Verdict()


def denied(message: str) -> Verdict:
    """Return a denial that is not about fields, with Volcano's status code and sentence."""
    return Verdict(message)


def found(sentence: str, *errors: FieldError) -> Finding:
    """Return a finding with its sentence and the errors of the faulty fields."""
    return Finding(sentence, errors)


def broken(path: str, value: Json, sentence: str, *, before: str = "") -> Finding:
    """Return the finding for a value that breaks the rule in `sentence`; in Volcano's message `before` comes before it."""
    return Finding(f"{before}{sentence}", (invalid(path, value, sentence),))


def untold(error: FieldError) -> Finding:
    """Return the finding for a fault that Volcano does not report."""
    return Finding(f"{error};", (error,), extra=True)


def first_only(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings, all but the first marked as extra, where Volcano stops at the first."""
    return [replace(finding, extra=True) if index else finding for index, finding in enumerate(findings)]


def verdict_of(findings: Sequence[Finding], *, warnings: tuple[str, ...] = (), trim: bool = True) -> Verdict:
    """Return one verdict for all findings. Its message begins with exactly Volcano's, in which nothing separates sentences."""
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
    message = _joined(message, [sentence.strip() for sentence in more])
    causes = tuple({str(error): error for error in errors}.values()) if about_fields else ()
    return Verdict(message, causes, warnings)


def field_verdict(errors: list[FieldError]) -> Verdict:
    """Return a verdict whose message consists of the errors: one as it is, several as `[a, b]`."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
    return Verdict(message, tuple(errors))


def _joined(message: str, sentences: Sequence[str]) -> str:
    parts = [message]
    before = message
    for sentence in sentences:
        if before:
            parts.append(" " if before.endswith((";", ".")) else "; ")
        parts.append(sentence)
        before = sentence or before
    return "".join(parts)


def applied(document: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """Return `document` with the `add` operations of `patch`. Only the changed values are copied; the other values are shared."""
    result = dict(document)
    for operation in patch:
        *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:])
        target: Any = result
        for part in parents:
            key: Any = int(part) if isinstance(target, list) else part
            target[key] = list(target[key]) if isinstance(target[key], list) else dict(target[key])
            target = target[key]
        target[last] = operation["value"]
    return result
