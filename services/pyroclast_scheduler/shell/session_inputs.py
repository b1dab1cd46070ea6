"""The inputs of sessions besides the snapshot: time, the memory of plugins, reservations, extenders and other components."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPException
from typing import Any, Final

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.session.outcome import Commit
from pyroclast_scheduler.session.ports import Ports, UsageSource, WaitingPlaces, remembered
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.sharding import ShardKeeper

_PATIENCE_SECONDS: Final = 1.0  # how long other threads wait for the end of a session
LARGEST_ANSWER: Final = 10 * 2**20  # bytes, the limit of Volcano
Observe = Callable[[str, str, Callable[[], Any]], Any]


class ReservedNodes:
    """The reservations between sessions. `current`: by job; None before the first session of this leader."""

    def __init__(self, cache: Cache, metrics: SchedulerMetrics, *, now: Callable[[], float]) -> None:
        self.current: Mapping[str, Reservation] | None = None
        self._cache = cache
        self._metrics = metrics
        self._now = now
        self._locks: Mapping[str, tuple[str, float]] = {}

    @property
    def by_job(self) -> Mapping[str, Reservation]:
        """The reservation of each job that has one."""
        return self.current or {}

    def lock(self, node: str) -> tuple[str, float]:
        """Return the job for which a node is locked, empty for none, and the time of the lock."""
        return self._locks.get(node, ("", 0.0))

    def forget(self) -> None:
        """Forget all reservations, since another leader may have changed them."""
        self._cache.reserve(self.by_job, {})
        self.current = None

    def take(self, reservations: Mapping[str, Reservation]) -> None:
        """Store `reservations`, the result of a session, and export them as metrics."""
        self._cache.reserve(self.by_job, reservations)
        self.current = reservations
        self._locks = {lock.node: (key, lock.since) for key, each in reservations.items() for lock in each.locks}
        self._metrics.reserved_nodes.clear()
        self._metrics.reserved_seconds.clear()
        for key, each in reservations.items():
            self._metrics.reserved_nodes.labels(key).set(len(each.locks))
            self._metrics.reserved_seconds.labels(key).set(self._now() - each.since)


class SessionGaps:
    """Knows whether a session is running."""

    def __init__(self) -> None:
        self._is_free = threading.Event()
        self._is_free.set()

    @contextmanager
    def session(self) -> Iterator[None]:
        """Mark the session as running within the block."""
        self._is_free.clear()
        try:
            yield
        finally:
            self._is_free.set()

    def wait(self) -> None:
        """Wait until no session is running, for a second at most. Must be called in another thread than the event loop's."""
        self._is_free.wait(_PATIENCE_SECONDS)


class HttpExtender:
    """The port that the plugin extender uses. Only http and https are allowed, and redirects are followed."""

    def post(self, url: str, body: bytes, *, timeout: float) -> bytes:
        """Send a request and return the body of the response; OSError if there is none, or it is not 200 or too large."""
        if not url.startswith(("http://", "https://")):
            raise OSError(f"{url}: an address that begins with http:// or https:// is wanted")
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")  # noqa: S310 - checked
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310 - checked above
                if answer.status != 200:
                    raise OSError(f"status {answer.status}")
                text: bytes = answer.read(LARGEST_ANSWER + 1)
        except HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        if len(text) > LARGEST_ANSWER:
            raise OSError(f"the answer is larger than {LARGEST_ANSWER} bytes")
        return text


class SessionInputs:
    """Makes the ports of each session. `budget_patience`: for how many seconds a reported amount of a budget is used.

    `usual_seconds`: returns the usual run time of similar jobs; None if too few are known. `elsewhere`: returns the amounts that
    other members of a ring allocated, by queue. `shards`: None if all nodes may be used.
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
