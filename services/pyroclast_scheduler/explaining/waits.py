"""Sums over waiting jobs, for metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.model.job_facts import JobFacts

_PLAIN: Final = frozenset({"cpu", "memory", "pods"})
_WHOLE: Final = frozenset({"memory", "pods"})
_MILLIS: Final = 1000.0
_NOT_PLACED: Final = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})

Series = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Waits:
    """Sums over the waiting jobs. Amounts are in cores, bytes and whole devices.

    Attributes:
        jobs: the number of waiting jobs by queue and code.
        resources: the requested amounts by queue and resource.
        oldest: the longest wait in seconds by queue.
        unexamined: the longest wait in seconds by queue, of jobs that no session has examined.
    """

    jobs: Series
    resources: Series
    oldest: Series
    unexamined: Series


def measured(
    counts: Mapping[tuple[str, PendingReason], int], waiting: Collection[str], jobs: Mapping[str, JobFacts], now: float
) -> Waits:
    """Return the sums over `jobs`. `waiting`: the keys of the waiting jobs. `counts`: their number by queue and code."""
    asked: dict[tuple[str, ...], float] = defaultdict(float)
    oldest: dict[tuple[str, ...], float] = {}
    unexamined: dict[tuple[str, ...], float] = {}
    known = frozenset(waiting)
    for key, facts in jobs.items():
        slot = (facts.queue,)
        if key in known:
            oldest[slot] = max(oldest.get(slot, 0.0), now - facts.created)
            for name, amount in (facts.min_resources or {}).items():
                if name in _PLAIN or "/" in name:
                    asked[facts.queue, name] += amount if name in _WHOLE else amount / _MILLIS
        elif facts.phase in _NOT_PLACED and facts.tally.ready < facts.min_available:
            unexamined[slot] = max(unexamined.get(slot, 0.0), now - facts.created)
    return Waits({(queue, str(code)): float(count) for (queue, code), count in counts.items()}, asked, oldest, unexamined)
