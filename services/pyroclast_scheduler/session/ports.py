"""The inputs of a session from outside of the snapshot: values, and Protocols that the shell implements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.session.outcome import Commit


@dataclass(frozen=True, slots=True)
class Shard:
    """The nodes of this scheduler. A hard shard excludes all other nodes. A soft one uses them if its own nodes have no room."""

    nodes: frozenset[str]
    is_hard: bool


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """The measured usage of a node in percent of its capacity, by period such as `5m`. `measured`: seconds since the epoch."""

    cpu: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)
    measured: float = 0.0


class UsageSource(Protocol):
    """Measurements of nodes, collected in the background."""

    def usage(self) -> Mapping[str, NodeUsage]:
        """Return the last measurements by node; empty if there are none yet. The caller must not change them."""


class Extender(Protocol):
    """An HTTP service that takes part in scheduling decisions."""

    def post(self, url: str, body: bytes, *, timeout: float) -> bytes:
        """Send a request and return the body of the response. The call blocks the thread of the session.

        Raises:
            OSError: there was no response within `timeout` seconds, or its status was not a success.
        """


class WaitingPlaces(Protocol):
    """The positions of waiting jobs in their queues, from the results of earlier sessions."""

    def position(self, queue: str, rank: tuple[Any, ...], key: str) -> int:
        """Return how many waiting jobs of `queue` are ahead of a job with `rank`."""

    def place(self, queue: str, key: str) -> int | None:
        """Return the position of a job, from 0; None if the job does not wait in `queue`."""

    def rank(self, key: str) -> tuple[Any, ...]:
        """Return the rank of a job that has a position."""

    @property
    def counts(self) -> Mapping[tuple[str, PendingReason], int]:
        """The number of waiting jobs by queue and code."""

    def slot(self, key: str) -> tuple[str, PendingReason] | None:
        """Return queue and code of a job; None if the job does not wait."""

    def order_of(self, queue: str) -> Iterator[str]:
        """Yield the keys of the waiting jobs of a queue in order."""


class _NoExtender:
    def post(self, url: str, body: bytes, *, timeout: float) -> bytes:  # noqa: ARG002 - the port's signature
        raise ConnectionError(f"{url}: this scheduler reaches no HTTP extender")


class _SilentExtender:
    def post(self, url: str, body: bytes, *, timeout: float) -> bytes:  # noqa: ARG002 - the port's signature
        return b"{}"


class _NoUsage:
    def usage(self) -> Mapping[str, NodeUsage]:
        return {}


@dataclass(frozen=True, slots=True)
class Ports:
    """The inputs of a session from outside of the snapshot.

    Attributes:
        now: seconds since the epoch.
        commit: receives each statement as soon as it is committed.
        observe: runs a function and measures its time; called with the plugin or stage and the extension point.
        shard: the nodes of this scheduler; None if it may use all nodes.
        period: the number of schedule periods since the start. Rules that Volcano counts per cycle count schedule periods, since
            a session starts whenever the cluster changes.
        extender: sends requests to HTTP extenders.
        usage: the measurements of nodes.
        memory: state that plugins keep between sessions and that may be lost. A value with the attribute `is_derived` can be
            calculated again, and is calculated again after a session that failed.
        scheduler: the scheduler name in the specs of pods.
        reservations: the reservations after the previous session; None before the first session.
        elsewhere: the amounts that other members of a ring of schedulers allocated, by queue.
        waiting: the positions of waiting jobs; None if positions are calculated from all jobs when needed.
        budget_patience: for how many seconds a reported amount of a budget is used.
        usual_seconds: returns the run time that nine of ten similar jobs do not exceed; None if too few are known.
    """

    now: float = 0.0
    commit: Callable[[Commit], None] = lambda _: None
    observe: Callable[[str, str, Callable[[], Any]], Any] = lambda _plugin, _point, run: run()
    shard: Shard | None = None
    period: int = 0
    extender: Extender = field(default_factory=_NoExtender)
    usage: UsageSource = field(default_factory=_NoUsage)
    memory: dict[str, Any] = field(default_factory=dict)
    scheduler: str = "volcano"
    reservations: Mapping[str, Reservation] | None = None
    elsewhere: Mapping[str, Amounts] = field(default_factory=dict)
    waiting: WaitingPlaces | None = None
    budget_patience: float = 600.0
    usual_seconds: Callable[[JobFacts], float | None] = lambda _: None

    def rehearsing(self) -> Ports:
        """Return ports for a trial session: nothing is committed, extenders are not called, changes of `memory` are dropped."""
        without, memory = Ports(), remembered(self.memory)
        return replace(
            self, commit=without.commit, observe=without.observe, extender=_SilentExtender(), memory=memory, waiting=None
        )


@dataclass(slots=True)
class AskedFor:
    """The inputs that a session used and that change without a watch event: the time, and services outside of the cluster."""

    time: bool = False
    services: bool = False


def remembered(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the plugins' memory without the values that can be calculated again."""
    return {
        name: value.copy() if isinstance(value, dict) else value
        for name, value in memory.items()
        if not getattr(value, "is_derived", False)
    }
