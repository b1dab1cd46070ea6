"""The responses of an extender as JSON objects. A field of the wrong type makes the whole response invalid."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

A = TypeVar("A", bound="Anything")
_LARGEST_SCORE: Final = 2.0**53  # with larger scores, those of other plugins would be lost in rounding


class Anything(msgspec.Struct, frozen=True, rename="camel"):
    """A response whose content is ignored. Go encodes empty values as null."""


class Predicate(Anything, frozen=True):
    """The response to a predicate request. `status`: the reason of a refusal. `code`: the finality of the refusal."""

    status: str | None = None
    code: int | None = None


class Scores(Anything, frozen=True):
    """The extender's scores of nodes. `node_score`: by name of the node."""

    node_score: dict[str, float] | None = None
    error_message: str | None = None


class Victim(Anything, frozen=True):
    """A pod that may be evicted, as the extender names it."""

    uid: str = msgspec.field(name="UID")


class Victims(Anything, frozen=True):
    """The pods that the extender would evict. `status`: 0 means that it abstains."""

    status: int | None = None
    victims: list[Victim] | None = None


class Enqueueable(Anything, frozen=True):
    """The response whether a job may be enqueued. `status`: above 0 permits, below 0 rejects, 0 abstains."""

    status: int | None = None


class Overused(Anything, frozen=True):
    """The response whether a queue exceeds its share."""

    overused: bool | None = None


class Ready(Anything, frozen=True):
    """The response whether a job is ready."""

    status: bool | None = None


class Objection(Anything, frozen=True):
    """The response why a placement must be undone."""

    error_message: str | None = None


def decoded(text: bytes, kind: type[A]) -> A:
    """Parse a response.

    Raises:
        ValueError: the text is not a JSON object of that kind.
    """
    try:
        answer = msgspec.json.decode(text, type=kind)
    except RecursionError as error:
        raise ValueError("JSON is nested too deeply") from error
    scores = answer.node_score if isinstance(answer, Scores) else None
    if not all(-_LARGEST_SCORE <= score <= _LARGEST_SCORE for score in (scores or {}).values()):
        raise ValueError("a score of `$.nodeScore` is out of range")
    return answer
