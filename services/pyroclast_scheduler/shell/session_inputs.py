"""What sessions are given beside the snapshot: the time, what plugins remember, and what others know."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.session.outcome import Commit
from pyroclast_scheduler.session.ports import Ports, UsageSource, WaitingPlaces, remembered
from pyroclast_scheduler.shell.extender import HttpExtender
from pyroclast_scheduler.shell.reserved_nodes import ReservedNodes
from pyroclast_scheduler.shell.sharding import ShardKeeper

__all__ = ["SessionInputs"]

Observe = Callable[[str, str, Callable[[], Any]], Any]


class SessionInputs:
    """Makes the ports of each session.

    Args:
        reserved: what nodes are kept for.
        usage: what nodes really use.
        period: seconds of a schedule period.
        budget_patience: seconds for which an amount spent of a budget counts.
        scheduler: the name that pods ask for.
        waiting: where those that wait stand in their queues.
        usual_seconds: how long jobs like one run; None where too few are known.
        elsewhere: what other members of a ring of schedulers have placed, by queue.
        shards: says which nodes are ours; None where all are.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        reserved: ReservedNodes,
        usage: UsageSource,
        *,
        period: float,
        budget_patience: float = 600.0,
        scheduler: str = "volcano",
        waiting: WaitingPlaces | None = None,
        usual_seconds: Callable[[JobFacts], float | None] = lambda _: None,
        elsewhere: Callable[[], Mapping[str, Amounts]] = dict,
        shards: ShardKeeper | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._reserved = reserved
        self._usage = usage
        self.period = period
        self.budget_patience = budget_patience
        self._scheduler = scheduler
        self._waiting = waiting
        self._usual_seconds = usual_seconds
        self._elsewhere = elsewhere
        self._shards = shards
        self._now = now
        self._extender = HttpExtender()
        self._memory: dict[str, Any] = {}
        self._begun = 0.0

    def begin(self) -> None:
        """The first session of this leader is about to begin: schedule periods count from now."""
        self._begun = time.monotonic()

    def periods(self) -> int:
        """Schedule periods since the first session."""
        return int((time.monotonic() - self._begun) / self.period) if self._begun else 0

    def for_session(self, period: int, commit: Callable[[Commit], None], observe: Observe) -> Ports:
        """For the session that begins now."""
        return replace(
            self.for_onlookers(),
            commit=commit,
            observe=observe,
            shard=None if self._shards is None else self._shards.shard(),
            period=period,
            extender=self._extender,
            waiting=self._waiting,
        )

    def for_onlookers(self) -> Ports:
        """What the next session would be given, for those who decide nothing."""
        return Ports(
            now=self._now(),
            shard=None if self._shards is None else self._shards.seen(),
            period=self.periods(),
            memory=self._memory,
            usage=self._usage,
            scheduler=self._scheduler,
            reservations=self._reserved.current,
            elsewhere=self._elsewhere(),
            budget_patience=self.budget_patience,
            usual_seconds=self._usual_seconds,
        )

    def session_failed(self) -> None:
        """Keep of what plugins remember only what they cannot work out again: it may be half done."""
        self._memory = remembered(self._memory)
