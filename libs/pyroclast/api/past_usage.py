"""What a queue and its users held in the past, as the recorder writes it into an annotation of the Queue: one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

__all__ = ["MOST_BYTES", "MOST_USERS", "BadPastUsage", "PastUsage", "read_past_usage", "written_past_usage"]

MOST_USERS: Final = 100
MOST_BYTES: Final = 16 * 1024


class BadPastUsage(ValueError):
    """An annotation does not hold what the recorder writes."""


class PastUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a queue and its submitters used in the past, as the annotation of the queue says it.

    `held`: the amounts that were held on average, as quantities by resource; the past counts less the longer ago it is.

    `users`: the same by submitter, of those who held most. `half_life`: the time after which something counts half; a duration.
    """

    half_life: str
    held: Mapping[str, str] = {}
    users: Mapping[str, Mapping[str, str]] = {}


def read_past_usage(text: str) -> PastUsage:
    """What an annotation says.

    Raises:
        BadPastUsage: it is too long, or no JSON of this form.
    """
    if len(text) > 2 * MOST_BYTES:
        raise BadPastUsage(f"{len(text)} characters; the recorder writes at most {MOST_BYTES} bytes")
    try:
        return msgspec.json.decode(text, type=PastUsage)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise BadPastUsage(str(error)) from None


def written_past_usage(usage: PastUsage) -> str:
    """The text of the annotation: the first users that fit into 16 KiB and are at most 100."""
    kept: dict[str, Mapping[str, str]] = {}
    size = len(msgspec.json.encode(msgspec.structs.replace(usage, users={}))) + 64
    for name, amounts in list(usage.users.items())[:MOST_USERS]:
        size += len(msgspec.json.encode({name: amounts}))
        if size > MOST_BYTES:
            break
        kept[name] = amounts
    return msgspec.json.encode(msgspec.structs.replace(usage, users=dict(sorted(kept.items())))).decode()
