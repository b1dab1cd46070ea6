"""The reservations after the last session, for the next session, for binds and for metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.shell.metrics import SchedulerMetrics


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
