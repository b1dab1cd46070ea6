"""Numbers that plugins and actions leave for the metrics of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyroclast_scheduler.model.budgets import BudgetStanding
from pyroclast_scheduler.model.node_columns import Floats

__all__ = ["CardUse", "Measures"]


class CardUse(NamedTuple):
    """A card that pods share: its memory and who has how much of it (name, memory, hundredths of its cores)."""

    card: str
    memory: int
    pods: tuple[tuple[str, int, int], ...]


@dataclass(slots=True)
class Measures:
    """`names`: of all dimensions. `amounts`: by kind (allocated, deserved …), of each queue a vector over them.

    `numbers`: by kind (share, weight …), of each queue a number. `shares`: dominant shares of the jobs that were looked at.
    `attempts`: nodes on which victims would have been enough; `victims`: how many the last of these would have had, None if there
    was none. `cards`: of the nodes on which something changed, the cards that pods share. `budgets`: by queue.
    """

    names: Sequence[str] = ()
    amounts: dict[str, Mapping[str, Floats]] = field(default_factory=dict)
    numbers: dict[str, Mapping[str, float]] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    attempts: int = 0
    victims: int | None = None
    cards: dict[str, tuple[CardUse, ...]] = field(default_factory=dict)
    budgets: Mapping[str, BudgetStanding] = field(default_factory=dict)
