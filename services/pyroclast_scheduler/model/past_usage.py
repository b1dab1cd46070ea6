"""What queues and their users held in the past, as the recorder tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyroclast.api.past_usage import BadPastUsage, read_past_usage
from pyroclast_scheduler.model.dimensions import Amounts, amounts_of

__all__ = ["Past", "read_past"]


@dataclass(frozen=True, slots=True)
class Past:
    """Average amounts, in stored units: of the queue, and by submitter."""

    held: Amounts = field(default_factory=dict)
    users: Mapping[str, Amounts] = field(default_factory=dict)


def read_past(text: str) -> Past:
    """What the annotation of a queue says.

    Raises:
        ValueError: it makes no sense.
    """
    try:
        said = read_past_usage(text)
    except BadPastUsage as error:
        raise ValueError(str(error)) from None
    return Past(amounts_of(said.held), {name: amounts_of(amounts) for name, amounts in said.users.items()})
