"""The past usage of queues and their users, as the recorder reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyroclast.api.past_usage import BadPastUsage, read_past_usage
from pyroclast_scheduler.model.dimensions import Amounts, amounts_of


@dataclass(frozen=True, slots=True)
class Past:
    """Average amounts of the past, in stored units. `held`: of the whole queue. `users`: by user who submitted the jobs."""

    held: Amounts = field(default_factory=dict)
    users: Mapping[str, Amounts] = field(default_factory=dict)


def read_past(text: str) -> Past:
    """Parse the annotation of a queue that reports past usage.

    Raises:
        ValueError: the annotation is malformed.
    """
    try:
        said = read_past_usage(text)
    except BadPastUsage as error:
        raise ValueError(str(error)) from None
    return Past(amounts_of(said.held), {name: amounts_of(amounts) for name, amounts in said.users.items()})
