"""Why a PodGroup waits: one JSON object of at most 1 KiB, which the scheduler writes.

The object is an annotation of a Volcano PodGroup, or the message of a condition of a native PodGroup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

MOST_BYTES: Final = 1024
_DIGITS: Final = (1, 2, 5)


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Why a PodGroup waits, with the fields of its annotation.

    `never`: whether waiting alone does not help. `since`: when the code began to apply. `seen`: when a session last examined the
    PodGroup. Both are API timestamps.

    `resource`: the scarce resource. `asks`: the amount that the gang or pod requests. `has`: the amount that the queue or cluster
    uses. `may`: the amount that the queue or cluster may use. `ahead`: the number of jobs ahead in the queue. `first`: the first
    of these, if it is in the same namespace. `start`: the earliest, likely and latest start; None without an estimate. `basis`:
    the basis of the estimate. `queue` and `requests` (the requests of the minimum of pods together) are only set for an object
    that has neither.
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
    """Return `waiting` as the text of an annotation. If it is too long, the least important fields are left out first."""
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
    """Parse the text of an annotation; return None when it is invalid."""
    try:
        return msgspec.json.decode(text, type=Waiting)
    except msgspec.MsgspecError:
        return None


def ahead_step(ahead: int) -> int:
    """Return the number of jobs ahead as annotations show it: exact up to ten, then rounded down to 10, 20, 50, 100 …."""
    if ahead <= 10:
        return ahead
    power: int = 10 ** (len(str(ahead)) - 1)
    return max(digit * power for digit in _DIGITS if digit * power <= ahead)
