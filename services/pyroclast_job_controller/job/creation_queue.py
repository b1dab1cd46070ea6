"""The queue of pods to create. Earlier gangs come first, and the next gang begins when the earlier gangs are almost complete."""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass
from itertools import count
from typing import Final

PATIENCE_SECONDS: Final = 2.0
"""A gang without a created pod for this time does not delay other gangs. A webhook for its namespace may be slow."""


@dataclass(slots=True)
class _Gang:
    """A gang whose pods are being created.

    `left`: the number of pods that are not created yet. `moved`: when the last creation ended, by the clock of the event loop.
    """

    left: int
    moved: float


class CreationQueue:
    """Admits at most `places` pod creations at the same time, in the order of tickets and, for one ticket, of arrival.

    A gang has one ticket. Its first pod is admitted when fewer than `places` pods of earlier gangs are left. So no place stays
    unused, and no gang begins long before it can be complete.
    """

    def __init__(self, places: int) -> None:
        self._places = self._free = places
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tickets, self._arrivals = count(), count()
        self._gangs: dict[int, _Gang] = {}
        self._alarm: asyncio.TimerHandle | None = None

    def ticket(self, size: int) -> int:
        """Return a new ticket for a gang of `size` pods, behind all earlier tickets. The caller must `close` the ticket."""
        ticket = next(self._tickets)
        self._gangs[ticket] = _Gang(size, asyncio.get_running_loop().time())
        return ticket

    def close(self, ticket: int) -> None:
        """Remove the gang of `ticket`, which has no more pods to create."""
        del self._gangs[ticket]
        self._admit()

    async def enter(self, ticket: int) -> None:
        """Wait until a creation with `ticket` is admitted. The caller must call `leave` after the creation."""
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (ticket, next(self._arrivals), turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(ticket)  # the creation was admitted already, so free its place
            raise

    def leave(self, ticket: int) -> None:
        """End a creation with `ticket`, and admit the next creation."""
        gang = self._gangs[ticket]
        gang.left -= 1
        gang.moved = asyncio.get_running_loop().time()
        self._free += 1
        self._admit()

    def _admit(self) -> None:
        while self._free and self._waiting:
            ticket, _, turn = self._waiting[0]
            if not turn.done():
                if not self._may_enter(ticket):
                    self._look_again()
                    return
                self._free -= 1
                turn.set_result(None)
            heapq.heappop(self._waiting)

    def _may_enter(self, ticket: int) -> bool:
        since = asyncio.get_running_loop().time() - PATIENCE_SECONDS
        return sum(gang.left for before, gang in self._gangs.items() if before < ticket and gang.moved > since) < self._places

    def _look_again(self) -> None:
        """Check again after a while, because no event reports a gang whose creations are stuck."""
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._time_passed)

    def _time_passed(self) -> None:
        self._alarm = None
        self._admit()
