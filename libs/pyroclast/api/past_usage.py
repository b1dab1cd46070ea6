"""The past use of a queue and its users, which the recorder writes into an annotation of the Queue as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

MOST_USERS: Final = 100
MOST_BYTES: Final = 16 * 1024


class BadPastUsage(ValueError):
    """An annotation does not have the form that the recorder writes."""


class PastUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The past use of a queue and its submitters, in the form of the queue's annotation.

    `held`: the average amounts in use, as quantities by resource, weighted less the older they are.

    `users`: the same amounts by submitter, for the submitters with the greatest use. `half_life`: the age, a duration, at which
    use has half its weight.
    """

    half_life: str
    held: Mapping[str, str] = {}
    users: Mapping[str, Mapping[str, str]] = {}


def read_past_usage(text: str) -> PastUsage:
    """Parse an annotation. Raises BadPastUsage: the annotation is too long, or is not JSON of this form."""
    if len(text) > 2 * MOST_BYTES:
        raise BadPastUsage(f"{len(text)} characters; the recorder writes at most {MOST_BYTES} bytes")
    try:
        return msgspec.json.decode(text, type=PastUsage)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise BadPastUsage(str(error)) from None


def written_past_usage(usage: PastUsage) -> str:
    """Return the text of the annotation, with the first users that fit into 16 KiB, at most 100."""
    kept: dict[str, Mapping[str, str]] = {}
    size = len(msgspec.json.encode(msgspec.structs.replace(usage, users={}))) + 64
    for name, amounts in list(usage.users.items())[:MOST_USERS]:
        size += len(msgspec.json.encode({name: amounts}))
        if size > MOST_BYTES:
            break
        kept[name] = amounts
    return msgspec.json.encode(msgspec.structs.replace(usage, users=dict(sorted(kept.items())))).decode()
