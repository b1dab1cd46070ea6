"""What all controllers that decide on facts have in common: when to decide, when again, and what is remembered in between."""

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
from pyroclast.kube.events.recorder import Reference
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.kube.workqueue.pacing import Pace
from pyroclast.kube.workqueue.rejections import subjects_of
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.notices import Notice
from pyroclast.runtime.controllers import ControllerContext

__all__ = ["NOW", "Memories", "Memory", "Reconciler"]

log = structlog.get_logger()

NOW: Final = 0.0
"""Decide again at once."""


@dataclass(slots=True)
class Memory:
    """What is remembered of one object, that very one (`uid`), beside what the cluster shows. All of it may be lost.

    `pace`: of the writes of its status.
    """

    uid: str
    pace: Pace
    look_seconds: float = 0.0
    """How long the last decision took, with its facts."""


R = TypeVar("R", bound=Record)
F = TypeVar("F")
D = TypeVar("D")
M = TypeVar("M", bound=Memory)


class Memories(Generic[R, M]):
    """The memories of all objects of a kind. One that is made anew under a name starts with none."""

    def __init__(self, memory: Callable[[str, Pace], M], clock: Callable[[], float]) -> None:
        self._memory, self._clock = memory, clock
        self._by_key: dict[Key, M] = {}

    def of(self, record: R) -> M:
        """The memory of `record`."""
        memory = self._by_key.get(record.key)
        if memory is None or memory.uid != record.metadata.uid:
            memory = self._by_key[record.key] = self._memory(record.metadata.uid, Pace(self._clock))
        return memory

    def known(self, key: Key) -> M | None:
        """The memory of the object of `key`, if there is one."""
        return self._by_key.get(key)

    def forget(self, key: Key) -> None:
        """The object is gone."""
        self._by_key.pop(key, None)

    def clear(self, selected: Callable[[Key], bool]) -> None:
        """Forget all objects for which `selected` holds."""
        for key in [key for key in self._by_key if selected(key)]:
            del self._by_key[key]


class Reconciler(ABC, Generic[R, F, D, M]):
    """Level-triggered: a key says only "look at this object"; what to do is decided from the facts, never from the event.

    Args:
        context: what all controllers of the process have in common.
        kind: of the objects.
        decide: what is to be done, from the facts; pure.
        objects: those that are watched, with our own writes.
        memories: what is remembered of them; forgotten with the shard.
        queue: keys of objects to look at.
    """

    ROUNDS: ClassVar[int] = 8
    """Decisions in one go: more than a few mean that what is done does not show."""

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
        self.about = subjects_of(objects, kind)
        context.shards.on_give(memories.clear)

    @abstractmethod
    def _facts(self, record: R, memory: M) -> F:
        """What is known of `record` now."""

    @abstractmethod
    async def _act(self, facts: F, memory: M, decision: D) -> float | None:
        """Do it; when to decide again even if nothing happens, in seconds since the epoch; None: never."""

    def enqueue_all(self) -> None:
        """Look at every object that is for us: we have just become responsible."""
        for record in self._objects.informer.values():
            self._queue.add(record.key)

    async def reconcile(self, key: Key) -> None:
        """Look at the object of `key` and do what is to be done."""
        record = self._objects.get(key)
        if record is None:
            self._gone(key)
            return
        try:
            await self._reconcile(key, self._memories.of(record))
        except Conflict:
            self._queue.add_rate_limited(key)  # somebody was faster: decide again from what they wrote
        except NotFound as error:
            log.info("reconcile.waits", queue=self._queue.name, key=str(key), reason=str(error))  # it or its namespace is going
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
            again = await self._act(facts, memory, decision)
            if again is None:
                return
            if again != NOW:
                self._queue.add_at(key, again)
                return
        self._out_of_rounds(key, decision)

    def _current(self, key: Key, memory: M) -> R | None:
        """The object that `memory` is about; None when it is gone."""
        record = self._objects.get(key)
        return record if record is not None and record.metadata.uid == memory.uid else None

    def _caught_up(self, key: Key, memory: M) -> None:  # noqa: ARG002 - for those who remember what waits
        """What has happened so far is in the facts: it needs no look of its own. The watch often brings a write before the answer
        to it comes.
        """
        self._queue.caught_up(key)

    def _out_of_rounds(self, key: Key, decision: D) -> None:  # noqa: ARG002 - for those whose work takes many rounds
        log.warning("reconcile.too_many_rounds", queue=self._queue.name, key=str(key), rounds=self.ROUNDS)
        self._queue.add_rate_limited(key)

    def _gone(self, key: Key) -> None:
        self._memories.forget(key)

    def _record(self, record: R, *notices: Notice) -> None:
        for notice in notices:
            self._recorder.event(Reference.of(record, self._kind), notice.type, notice.reason, notice.message)
