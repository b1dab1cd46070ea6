"""The arguments of the plugin reservation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyroclast.resources import durations
from pyroclast_scheduler.session.arguments import Arguments

ALL: Final = -1
"""The value of `locks_per_period` that locks all nodes which the target may use at once."""


@dataclass(frozen=True, slots=True)
class ReservationSettings:
    """The arguments of the plugin.

    Attributes:
        order: `nodeOrder`: nodes are compared by `capacity` or by `idle` amounts, and the largest is locked first.
        locks_per_period: `locksPerCycle`: how many nodes are locked in each schedule period.
        is_preemptive: `preemptive`: whether pods with lower priority are evicted from locked nodes.
        by_queue: `targetScope`: whether each queue has its own target.
        most_share: `maxLockedShare`: the largest part of the nodes that may be locked for all targets together.
        least_wait: `minWait`: for how many seconds a job waits before it can be a target.
        fills: `fill`: whether other jobs may use locked nodes if they end before the nodes are needed.
        assumed: `assumeDuration`: the run time of a job without an estimate, in seconds; None if it is unknown.
    """

    order: str = "capacity"
    locks_per_period: int = 1
    is_preemptive: bool = False
    by_queue: bool = False
    most_share: float = 1.0
    least_wait: float = 0.0
    fills: bool = True
    assumed: float | None = None

    @classmethod
    def of(cls, arguments: Arguments) -> ReservationSettings:
        """Return the settings in the arguments of the plugin. An invalid value is replaced by the default, with a warning."""
        return cls(
            order=_one_of(arguments, "nodeOrder", ("capacity", "idle")),
            locks_per_period=_locks(arguments),
            is_preemptive=arguments.boolean("preemptive", default=False),
            by_queue=_one_of(arguments, "targetScope", ("cluster", "queue")) == "queue",
            most_share=_share(arguments),
            least_wait=_duration(arguments, "minWait") or 0.0,
            fills=arguments.boolean("fill", default=True),
            assumed=_duration(arguments, "assumeDuration"),
        )


def _one_of(arguments: Arguments, key: str, words: tuple[str, ...]) -> str:
    word = arguments.text(key, words[0])
    if word in words:
        return word
    arguments.warnings.append(f"argument {key}: {word!r} is not {' or '.join(words)}; using {words[0]}")
    return words[0]


def _locks(arguments: Arguments) -> int:
    if arguments.get("locksPerCycle") == "all":
        arguments.known.add("locksPerCycle")
        return ALL
    count = arguments.integer("locksPerCycle", 1)
    if count >= 1:
        return count
    arguments.warnings.append(f"argument locksPerCycle: {count} is not 1 or more, nor all; using 1")
    return 1


def _share(arguments: Arguments) -> float:
    share = arguments.number("maxLockedShare", 1.0)
    if 0 < share <= 1:
        return share
    arguments.warnings.append(f"argument maxLockedShare: {share} is not above 0 and at most 1; using 1")
    return 1.0


def _duration(arguments: Arguments, key: str) -> float | None:
    text = arguments.text(key, "")
    if not text:
        return None
    try:
        return durations.nanoseconds(text) / 1e9
    except durations.DurationError:
        arguments.warnings.append(f"argument {key}: {text!r} is no duration such as 10m; it is left out")
        return None
