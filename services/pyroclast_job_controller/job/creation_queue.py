"""Where pods wait to be created: gangs that began earlier go first, and the next begins when they are nearly made."""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass
from itertools import count
from typing import Final

__all__ = ["PATIENCE_SECONDS", "CreationQueue"]

PATIENCE_SECONDS: Final = 2.0
"""A gang of which nobody came through for so long holds up no other: who answers for its namespace may be slow."""


@dataclass(slots=True)
class _Gang:
    """How many of it have not come through yet, and when the last did, by the loop's clock."""

    left: int
    moved: float


class CreationQueue:
    """Lets `places` through at a time; of those who wait the lowest ticket is next, and with the same ticket who came first.

    A gang has one ticket. Its first enters when fewer than `places` of the gangs before it are left, so that places that these
    cannot use are used, but no gang is begun long before it can be finished.
    """

    def __init__(self, places: int) -> None:
        self._places = self._free = places
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tickets, self._arrivals = count(), count()
        self._gangs: dict[int, _Gang] = {}
        self._alarm: asyncio.TimerHandle | None = None

    def ticket(self, size: int) -> int:
        """A place in the queue for a gang of `size`, behind all before it; the caller must `close` it."""
        ticket = next(self._tickets)
        self._gangs[ticket] = _Gang(size, asyncio.get_running_loop().time())
        return ticket

    def close(self, ticket: int) -> None:
        """No more of this gang come."""
        del self._gangs[ticket]
        self._admit()

    async def enter(self, ticket: int) -> None:
        """Wait for a place; the caller must `leave` it."""
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (ticket, next(self._arrivals), turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(ticket)  # it was our turn: pass it on
            raise

    def leave(self, ticket: int) -> None:
        """Give the place to who is next."""
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
        """Gangs that are stuck are seen by nothing but that time passes."""
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._time_passed)

    def _time_passed(self) -> None:
        self._alarm = None
        self._admit()
