"""The order in which the pods of all Jobs are created.

The API server accepts a few hundred pods a second. The obvious order of creations, one Job after the other, lets a Job of 20,000
pods delay everybody for minutes. To mix all pods is no better: two gangs that fit a quota one after the other may both
stay incomplete. So the order has two levels. Namespaces take turns. Within a namespace, the pods that gangs need come first, one
gang after the other, because a quota holds for a namespace; then the other pods, in turns between queues and between Jobs.

A Job creates pods for a slice of time and then gives its worker back, so that many large Jobs do not occupy all workers. A gang
keeps its place in the order between its slices. At most as many slices are open as there are workers, so the choice of the next
creation may look at all of them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

PATIENCE_SECONDS: Final = 2.0
"""A gang without a created pod for this time does not delay other gangs. A webhook for its namespace may be slow."""

_FORGOTTEN_SECONDS: Final = 30.0
"""A gang without a created pod for this time loses its place. Its Job may have been deleted between two slices."""

_LONGEST_SLICE: Final = 1.0
_SHORTEST_SLICE: Final = 0.02
_ROUND_SECONDS: Final = 1.5
"""The sum of the slices of the Jobs that wait for a worker. A new Job needs a worker about three times until its pods exist; with
16 workers, it waits for each of them a tenth of a second and the time of a request.
"""

_MOST_TURNS: Final = 10_000
"""The most namespaces, queues and Jobs whose last turn is remembered."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The Job that creates pods: the UID, the namespace and the queue."""

    uid: str
    namespace: str
    queue: str = ""


@dataclass(slots=True)
class _Gang:
    """A gang whose pods are being created.

    `left`: the number of needed pods that are not created yet. `moved`: when the last creation ended, by the loop's clock.
    """

    order: int
    namespace: str
    left: int
    moved: float


@dataclass(slots=True, eq=False)
class Slice:
    """The creations of one Job for a while. `is_over`: no further creation is admitted."""

    owner: Owner
    alarm: asyncio.TimerHandle | None = None
    is_over: bool = False
    needed: deque[asyncio.Future[bool]] = field(default_factory=deque)
    elastic: deque[asyncio.Future[bool]] = field(default_factory=deque)


class CreationQueue:
    """Admits at most `places` pod creations at the same time. `waiting`: returns the number of Jobs that wait for a worker."""

    def __init__(self, places: int, waiting: Callable[[], int] = lambda: 0) -> None:
        self._places = self._free = places
        self._waiting = waiting
        self._slices: list[Slice] = []
        self._gangs: dict[str, _Gang] = {}
        self._turns: OrderedDict[tuple[str, ...], int] = OrderedDict()
        self._orders, self._admitted = count(), count(1)
        self._alarm: asyncio.TimerHandle | None = None

    def open(self, owner: Owner, needed: int) -> Slice:
        """Begin a slice. The caller must `close` it. `needed`: the number of missing pods without which the gang cannot start."""
        loop = asyncio.get_running_loop()
        for uid in [uid for uid, gang in self._gangs.items() if gang.moved < loop.time() - _FORGOTTEN_SECONDS]:
            del self._gangs[uid]
        if needed <= 0:
            self._gangs.pop(owner.uid, None)
        elif (gang := self._gangs.get(owner.uid)) is not None:
            gang.left = needed
        else:
            self._gangs[owner.uid] = _Gang(next(self._orders), owner.namespace, needed, loop.time())
        seconds = max(_SHORTEST_SLICE, min(_LONGEST_SLICE, _ROUND_SECONDS / (1 + self._waiting())))
        slice_ = Slice(owner)
        slice_.alarm = loop.call_later(seconds, self._end, slice_)
        self._slices.append(slice_)
        return slice_

    def close(self, slice_: Slice) -> None:
        """End a slice. A gang keeps its place only if its time was over before its pods were created."""
        if not slice_.is_over:
            self._gangs.pop(slice_.owner.uid, None)
        self._end(slice_)
        self._slices.remove(slice_)
        self._admit()

    async def enter(self, slice_: Slice, *, is_needed: bool) -> bool:
        """Wait until a creation of `slice_` is admitted. The caller must call `leave` after the creation.

        Return False when the slice is over; a later slice creates the pod then. `is_needed`: the gang needs the pod to start.
        """
        if slice_.is_over:
            return False
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        (slice_.needed if is_needed else slice_.elastic).append(turn)
        self._admit()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.leave(slice_, is_needed=is_needed)  # the creation was admitted already, so free its place
            raise

    def leave(self, slice_: Slice, *, is_needed: bool) -> None:
        """End a creation, and admit the next creation."""
        gang = self._gangs.get(slice_.owner.uid)
        if gang is not None and is_needed:
            gang.left -= 1
            gang.moved = asyncio.get_running_loop().time()
        self._free += 1
        self._admit()

    def _end(self, slice_: Slice) -> None:
        if slice_.alarm is not None:
            slice_.alarm.cancel()
        slice_.is_over = True
        for line in (slice_.needed, slice_.elastic):
            while line:
                if not (turn := line.popleft()).done():
                    turn.set_result(False)

    def _admit(self) -> None:
        while self._free and (line := self._next()) is not None:
            self._free -= 1
            line.popleft().set_result(True)

    def _next(self) -> deque[asyncio.Future[bool]] | None:
        """Return the line whose first creation is next; None when none is waiting, or all have to wait for an earlier gang."""
        best: tuple[tuple[int, ...], deque[asyncio.Future[bool]], tuple[tuple[str, ...], ...]] | None = None
        rank: tuple[int, ...]
        turns: tuple[tuple[str, ...], ...]
        has_waiting = False
        for slice_ in self._slices:
            owner = slice_.owner
            namespace, queue, job = (owner.namespace,), (owner.namespace, owner.queue), (owner.namespace, owner.queue, owner.uid)
            for line in (slice_.needed, slice_.elastic):
                while line and line[0].done():  # cancelled
                    line.popleft()
            if slice_.needed:
                gang = self._gangs.get(owner.uid)
                if gang is not None and not self._may_enter(gang):
                    has_waiting = True
                    continue
                rank = (self._turn(namespace), 0, gang.order if gang is not None else 0)
                line, turns = slice_.needed, (namespace,)
            elif slice_.elastic:
                rank = (self._turn(namespace), 1, self._turn(queue), self._turn(job))
                line, turns = slice_.elastic, (namespace, queue, job)
            else:
                continue
            if best is None or rank < best[0]:
                best = rank, line, turns
        if best is None:
            if has_waiting:
                self._look_again()
            return None
        for name in best[2]:
            self._turns[name] = next(self._admitted)
            self._turns.move_to_end(name)
        while len(self._turns) > _MOST_TURNS:
            self._turns.popitem(last=False)
        return best[1]

    def _turn(self, name: tuple[str, ...]) -> int:
        """Return the number of the last creation that was admitted for `name`; 0 when there was none."""
        return self._turns.get(name, 0)

    def _may_enter(self, gang: _Gang) -> bool:
        """Whether fewer than `places` pods of earlier gangs of the namespace are left.

        So no place stays unused, and no gang begins long before it can be complete.
        """
        since = asyncio.get_running_loop().time() - PATIENCE_SECONDS
        earlier = (other for other in self._gangs.values() if other.order < gang.order and other.namespace == gang.namespace)
        return sum(max(0, other.left) for other in earlier if other.moved > since) < self._places

    def _look_again(self) -> None:
        """Check again after a while, because no event reports a gang whose creations are stuck."""
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._time_passed)

    def _time_passed(self) -> None:
        self._alarm = None
        self._admit()
