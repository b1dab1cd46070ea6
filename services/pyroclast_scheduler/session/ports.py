"""What a session is given from outside: values and Protocols, implemented in the shell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.session.outcome import Commit

__all__ = ["AskedFor", "Extender", "NodeUsage", "Ports", "Shard", "UsageSource", "WaitingPlaces", "remembered"]


@dataclass(frozen=True, slots=True)
class Shard:
    """The nodes that are this scheduler's own: `hard` never uses others, `soft` only where its own have no room."""

    nodes: frozenset[str]
    is_hard: bool


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """What a node really uses, in hundredths of what it has, by period such as `5m`; `measured`: seconds since the epoch."""

    cpu: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)
    measured: float = 0.0


class UsageSource(Protocol):
    """Measurements of nodes, collected in the background."""

    def usage(self) -> Mapping[str, NodeUsage]:
        """The last measurements by node; empty while there are none. Not to be changed."""


class Extender(Protocol):
    """An HTTP service that takes part in decisions."""

    def post(self, url: str, body: bytes, *, timeout: float) -> bytes:
        """The body of its answer, waited for on the deciding thread.

        Raises:
            OSError: no answer within `timeout` seconds, or none of success.
        """


class WaitingPlaces(Protocol):
    """Where those that wait stand in their queues, by what the sessions before found out."""

    def position(self, queue: str, rank: tuple[Any, ...], key: str) -> int:
        """How many stand before a job of that rank."""

    def place(self, queue: str, key: str) -> int | None:
        """The place of a job, from 0; None if it does not stand in that queue."""

    def rank(self, key: str) -> tuple[Any, ...]:
        """The rank of a job that has a place."""

    @property
    def counts(self) -> Mapping[tuple[str, PendingReason], int]:
        """How many wait by queue and code."""

    def slot(self, key: str) -> tuple[str, PendingReason] | None:
        """Queue and code of a job; None if it does not wait."""

    def order_of(self, queue: str) -> Iterator[str]:
        """The keys of those that wait in a queue, the first one first."""


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
    """What a session is given from outside.

    `now`: seconds since the epoch. `period`: how many schedule periods have passed since the start; rules that the specifications
    count per cycle count these, since a session starts whenever something changed. `commit` takes decisions as soon as they are
    final. `memory`: what plugins keep from session to session, such as when they last did something; may be lost. What has the
    attribute `is_derived` can be worked out again, and is after a session that failed. `scheduler`: the name that pods ask for.
    `reservations`: as the last session left them; None: there was none yet. `observe` runs and measures the opening and closing
    of a plugin, or an action. `elsewhere`: by queue, what other members of a ring of schedulers have placed. `waiting`: None: all
    jobs are ranked anew when somebody asks who waits before whom. `budget_patience`: for how many seconds an amount spent of a
    budget counts. `usual_seconds`: how long jobs like one run, at most one in ten longer; None where too few are known.
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
        """The same for a session of which nothing may come: nobody hears of it, and what it remembers is forgotten with it."""
        return Ports(
            self.now,
            shard=self.shard,
            period=self.period,
            extender=_SilentExtender(),
            usage=self.usage,
            memory=remembered(self.memory),
            scheduler=self.scheduler,
            reservations=self.reservations,
            elsewhere=self.elsewhere,
            budget_patience=self.budget_patience,
            usual_seconds=self.usual_seconds,
        )


@dataclass(slots=True)
class AskedFor:
    """What was asked for in a session that changes without an event, and the answers with it: the time, and services outside."""

    time: bool = False
    services: bool = False


def remembered(memory: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of what plugins keep from session to session, without what they can work out again."""
    return {
        name: value.copy() if isinstance(value, dict) else value
        for name, value in memory.items()
        if not getattr(value, "is_derived", False)
    }
