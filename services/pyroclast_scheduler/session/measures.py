"""Numbers that plugins and actions provide for the metrics of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyroclast_scheduler.model.budgets import BudgetStanding
from pyroclast_scheduler.model.node_columns import Floats


class CardUse(NamedTuple):
    """A shared device (card): its memory, and for each pod on it the name, the memory and the hundredths of cores."""

    card: str
    memory: int
    pods: tuple[tuple[str, int, int], ...]


@dataclass(slots=True)
class Measures:
    """The numbers of one session.

    Attributes:
        names: the names of all dimensions.
        amounts: vectors over the dimensions by kind (such as allocated or deserved) and queue.
        numbers: numbers by kind (such as share or weight) and queue.
        shares: the dominant shares of the jobs that the session examined.
        attempts: the number of nodes on which a set of victims was sufficient.
        victims: the number of victims in the last of these attempts; None if there was none.
        cards: the shared devices of the nodes that changed, by node.
        budgets: the states of budgets by queue.
    """

    names: Sequence[str] = ()
    amounts: dict[str, Mapping[str, Floats]] = field(default_factory=dict)
    numbers: dict[str, Mapping[str, float]] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    attempts: int = 0
    victims: int | None = None
    cards: dict[str, tuple[CardUse, ...]] = field(default_factory=dict)
    budgets: Mapping[str, BudgetStanding] = field(default_factory=dict)
