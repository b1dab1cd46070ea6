"""The inputs of sessions besides the snapshot: the time, the memory of plugins, and data of other components."""

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

Observe = Callable[[str, str, Callable[[], Any]], Any]


class SessionInputs:
    """Makes the ports of each session.

    Args:
        reserved: the reservations of nodes.
        usage: the measurements of nodes.
        period: the length of a schedule period in seconds.
        budget_patience: for how many seconds a reported amount of a budget is used.
        scheduler: the scheduler name in the specs of pods.
        waiting: the positions of waiting jobs in their queues.
        usual_seconds: returns the usual run time of similar jobs; None if too few are known.
        elsewhere: returns the amounts that other members of a ring allocated, by queue.
        shards: returns the nodes of this scheduler; None if it may use all nodes.
        now: returns seconds since the epoch.
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
        """Start to count schedule periods, before the first session of this leader."""
        self._begun = time.monotonic()

    def periods(self) -> int:
        """Return the number of schedule periods since the first session."""
        return int((time.monotonic() - self._begun) / self.period) if self._begun else 0

    def for_session(self, period: int, commit: Callable[[Commit], None], observe: Observe) -> Ports:
        """Return the ports of the session that starts now."""
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
        """Return the ports that the next session would have, for code that only reads them."""
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
        """Drop the plugins' memory that can be calculated again, since it may be incomplete."""
        self._memory = remembered(self._memory)
