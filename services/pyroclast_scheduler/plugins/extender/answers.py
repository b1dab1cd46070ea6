"""What an extender may answer, by the fields of its JSON objects. One of another type makes the whole answer a failure."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

__all__ = ["Anything", "Enqueueable", "Objection", "Overused", "Predicate", "Ready", "Scores", "Victims", "decoded"]

A = TypeVar("A", bound="Anything")
_LARGEST_SCORE: Final = 2.0**53  # beyond this, what other plugins say would be lost in rounding


class Anything(msgspec.Struct, frozen=True, rename="camel"):
    """Nothing is looked at. Go writes null for what is empty."""


class Predicate(Anything, frozen=True):
    """The extender's answer to a predicate.

    `status`: why not. `code`: how final that is.
    """

    status: str | None = None
    code: int | None = None


class Scores(Anything, frozen=True):
    """The extender's scores of nodes.

    `node_score`: by name of the node.
    """

    node_score: dict[str, float] | None = None
    error_message: str | None = None


class Victim(Anything, frozen=True):
    """A pod that may go."""

    uid: str = msgspec.field(name="UID")


class Victims(Anything, frozen=True):
    """The pods that the extender would evict.

    `status`: 0 is no opinion.
    """

    status: int | None = None
    victims: list[Victim] | None = None


class Enqueueable(Anything, frozen=True):
    """Whether the extender lets a job enter phase Inqueue.

    `status`: above 0 yes, below 0 no.
    """

    status: int | None = None


class Overused(Anything, frozen=True):
    """Whether a queue has more than its share."""

    overused: bool | None = None


class Ready(Anything, frozen=True):
    """Whether a job is ready."""

    status: bool | None = None


class Objection(Anything, frozen=True):
    """Why a place is taken back."""

    error_message: str | None = None


def decoded(text: bytes, kind: type[A]) -> A:
    """The answer that `text` spells.

    Raises:
        ValueError: it is no JSON object of that kind.
    """
    try:
        answer = msgspec.json.decode(text, type=kind)
    except RecursionError as error:
        raise ValueError("JSON is nested too deeply") from error
    scores = answer.node_score if isinstance(answer, Scores) else None
    if not all(-_LARGEST_SCORE <= score <= _LARGEST_SCORE for score in (scores or {}).values()):
        raise ValueError("a score of `$.nodeScore` is out of range")
    return answer
