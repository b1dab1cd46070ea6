"""Numbers that plugins and actions leave for the metrics of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyroclast_scheduler.model.columns import Floats

__all__ = ["Measures"]


@dataclass(slots=True)
class Measures:
    """`amounts`: by kind (allocated, deserved …), of each queue a vector over all dimensions; `numbers`: by kind (share,
    weight …), of each queue a number. `shares`: dominant shares of the jobs that were looked at. `attempts`: nodes on which
    victims would have been enough; `victims`: how many the last of these would have had, None if there was none.
    """

    amounts: dict[str, Mapping[str, Floats]] = field(default_factory=dict)
    numbers: dict[str, Mapping[str, float]] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    attempts: int = 0
    victims: int | None = None
