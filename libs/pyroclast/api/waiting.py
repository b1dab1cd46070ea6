"""Why a PodGroup waits: one JSON object of at most 1 KiB, which the scheduler writes.

It is an annotation of a PodGroup of Volcano, and the message of a condition of one of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

__all__ = ["MOST_BYTES", "Waiting", "ahead_step", "read_waiting", "written_waiting"]

MOST_BYTES: Final = 1024
_DIGITS: Final = (1, 2, 5)


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Why a PodGroup waits, as its annotation says it.

    `never`: waiting alone does not help. `since`: the code holds; `seen`: a session looked at it then; API timestamps.

    `resource`: the one that is short; the gang or pod `asks` for so much of it, the queue or cluster `has` so much in use and
    `may` use so much. `ahead`: how many wait before it in its queue; `first`: the first of them, where it is of the same
    namespace. `start`: the earliest, likely and latest start, where there is an estimate; `basis`: what that rests on.
    `queue` and `requests`, what its minimum of pods asks for together: where its object says neither.
    """

    code: str
    never: bool = False
    since: str = ""
    seen: str = ""
    resource: str = ""
    asks: str = ""
    has: str = ""
    may: str = ""
    ahead: int = 0
    first: str = ""
    start: tuple[str, str, str] | None = None
    basis: str = ""
    queue: str = ""
    requests: Mapping[str, str] = {}


_ALWAYS: Final = frozenset({"code", "never", "since", "seen", "ahead"})
_DISPENSABLE: Final = ("basis", "first", "resource", "asks", "has", "may", "requests", "start")


def written_waiting(waiting: Waiting) -> str:
    """The text. What is too long for it is left away, the least important first."""
    body: dict[str, Any] = msgspec.structs.asdict(waiting)
    body = {name: value for name, value in body.items() if value or name in _ALWAYS}
    text = msgspec.json.encode(body)
    for name in _DISPENSABLE:
        if len(text) <= MOST_BYTES:
            break
        body.pop(name, None)
        text = msgspec.json.encode(body)
    return text.decode()


def read_waiting(text: str) -> Waiting | None:
    """What a text says; None where it makes no sense."""
    try:
        return msgspec.json.decode(text, type=Waiting)
    except msgspec.MsgspecError:
        return None


def ahead_step(ahead: int) -> int:
    """How many wait ahead as the text says it: up to ten exactly, then the largest of 10, 20, 50, 100 … not above it."""
    if ahead <= 10:
        return ahead
    power: int = 10 ** (len(str(ahead)) - 1)
    return max(digit * power for digit in _DIGITS if digit * power <= ahead)
