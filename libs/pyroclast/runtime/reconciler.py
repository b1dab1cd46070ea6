"""What all controllers that decide on facts share: when to decide, when to decide again, what to remember, and when to write.

Status changes that follow closely are written together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar, Final, Generic, TypeVar

import structlog

from pyroclast.api.records import Record
from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.errors import Conflict, NotFound
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.kube.workqueue.rejections import subjects_of
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.effects import Notice
from pyroclast.resources.backoff import Backoff
from pyroclast.runtime.controllers import ControllerContext

log = structlog.get_logger()

R = TypeVar("R", bound=Record)
F = TypeVar("F")
D = TypeVar("D")


SHORTEST: Final = 0.2
"""Seconds between two writes of a status that rarely changes."""
LONGEST: Final = 2.0
"""Seconds between two writes of a status that changes all the time."""


class Pace:
    """The write interval of one object's status. Each delayed write doubles the interval; two intervals without a change reset
    it.

    `clock` returns seconds of any clock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._last = float("-inf")
        self._backoff = Backoff(SHORTEST, LONGEST)
        self._interval = self._backoff.next()
        self._waited = False

    def wait(self) -> float:
        """Return the seconds until the next write is allowed; 0 when it is allowed now."""
        left = self._last + self._interval - self.clock()
        self._waited = self._waited or left > 0
        return max(0.0, left)

    def written(self) -> None:
        """Record that the status was written now, and adapt the write interval."""
        now = self.clock()
        if self._waited:
            self._interval = self._backoff.next()
        elif now - self._last > 2 * self._interval:
            self._backoff.reset()
            self._interval = self._backoff.next()
        self._last = now
        self._waited = False


@dataclass(frozen=True, slots=True)
class Requeue:
    """When the next pass over an object begins, even if nothing changes.

    `at`: the time in seconds since the epoch; None when only a change begins the next pass. `at_once`: decide again in this pass.
    `in_turn`: after the other objects in the queue.
    """

    at: float | None = None
    at_once: bool = False
    in_turn: bool = False


ON_CHANGE: Final = Requeue()
NOW: Final = Requeue(at_once=True)
IN_TURN: Final = Requeue(in_turn=True)


@dataclass(slots=True)
class Memory:
    """What a controller remembers of one object beside the cluster state, by the object's UID. Losing all of it must do no harm.

    `pace`: limits the writes of the object's status.
    """

    uid: str
    pace: Pace
    look_seconds: float = 0.0
    """Seconds that the last decision took, including the collection of its facts."""


M = TypeVar("M", bound=Memory)


class Memories(Generic[R, M]):
    """The memories of all objects of a kind. An object that is created again under the same name starts with an empty memory."""

    def __init__(self, memory: Callable[[str, Pace], M], clock: Callable[[], float]) -> None:
        self._memory, self._clock = memory, clock
        self._by_key: dict[Key, M] = {}

    def of(self, record: R) -> M:
        """Return the memory of `record`."""
        memory = self._by_key.get(record.key)
        if memory is None or memory.uid != record.metadata.uid:
            memory = self._by_key[record.key] = self._memory(record.metadata.uid, Pace(self._clock))
        return memory

    def known(self, key: Key) -> M | None:
        """Return the memory of the object of `key`; None when there is none."""
        return self._by_key.get(key)

    def forget(self, key: Key) -> None:
        """Drop the memory of an object that no longer exists."""
        self._by_key.pop(key, None)

    def clear(self, selected: Callable[[Key], bool]) -> None:
        """Drop the memories of all objects for which `selected` is true."""
        for key in [key for key in self._by_key if selected(key)]:
            del self._by_key[key]


class Reconciler(ABC, Generic[R, F, D, M]):
    """A level-triggered controller: a key only names an object, and decisions follow from the facts, never from the event.

    `memories`: the memories of the objects; dropped together with the shard.
    """

    ROUNDS: ClassVar[int] = 8
    """The most decisions in a row. More than a few mean that the writes do not change the facts."""

    def __init__(
        self,
        context: ControllerContext,
        kind: ResourceType,
        decide: Callable[[F], D],
        objects: Recent[R],
        *,
        memories: Memories[R, M],
        queue: ShardedQueue[Key],
    ) -> None:
        self._client, self._recorder, self._now = context.client, context.recorder, context.now
        self._kind, self._decide, self._objects, self._memories, self._queue = kind, decide, objects, memories, queue
        self.about = subjects_of(objects.get, kind)
        context.shards.on_give(memories.clear)

    @abstractmethod
    def _facts(self, record: R, memory: M) -> F:
        """Return the present facts about `record`."""

    @abstractmethod
    async def _act(self, facts: F, memory: M, decision: D) -> Requeue:
        """Carry out the decision, and return when to decide again."""

    def enqueue_all(self) -> None:
        """Queue every object in the shards of this replica, which has just begun to lead."""
        for record in self._objects.informer.values():
            self._queue.add(record.key)

    async def reconcile(self, key: Key) -> None:
        """Reconcile the object of `key`."""
        record = self._objects.get(key)
        if record is None:
            self._gone(key)
            return
        try:
            await self._reconcile(key, self._memories.of(record))
        except Conflict:
            self._queue.add_rate_limited(key)  # the object changed meanwhile: decide again from its new state
        except NotFound as error:
            # the object or its namespace is being deleted
            log.info("reconcile.waits", queue=self._queue.name, key=str(key), reason=str(error))
            self._queue.add_rate_limited(key)

    async def _reconcile(self, key: Key, memory: M) -> None:
        """Decide and act until nothing more is to be done now."""
        for _ in range(self.ROUNDS):
            began = perf_counter()
            record = self._current(key, memory)
            if record is None:
                return
            facts = self._facts(record, memory)
            self._caught_up(key, memory)
            decision = self._decide(facts)
            memory.look_seconds = perf_counter() - began
            requeue = await self._act(facts, memory, decision)
            if requeue.at_once:
                continue
            if requeue.in_turn:
                self._queue.add(key)
            elif requeue.at is not None:
                self._queue.add_at(key, requeue.at)
            return
        self._out_of_rounds(key, decision)

    def _current(self, key: Key, memory: M) -> R | None:
        """Return the object to which `memory` belongs; None when it no longer exists."""
        record = self._objects.get(key)
        return record if record is not None and record.metadata.uid == memory.uid else None

    def _caught_up(self, key: Key, memory: M) -> None:  # noqa: ARG002 - for subclasses that remember delayed work
        """Drop additions of `key` that the facts already include.

        Often the watch delivers a write before its response arrives.
        """
        self._queue.caught_up(key)

    def _out_of_rounds(self, key: Key, decision: D) -> None:  # noqa: ARG002 - for subclasses whose work takes many rounds
        log.warning("reconcile.too_many_rounds", queue=self._queue.name, key=str(key), rounds=self.ROUNDS)
        self._queue.add_rate_limited(key)

    def _gone(self, key: Key) -> None:
        self._memories.forget(key)

    def _record(self, record: R, *notices: Notice) -> None:
        for notice in notices:
            self._recorder.event(Reference.of(record, self._kind), notice.type, notice.reason, notice.message)
