"""The line in which pods wait to be created: those of gangs that began earlier go first, so that whole gangs are made soon."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

__all__ = ["Line"]


class Line:
    """Lets `places` through at a time; of those who wait the lowest ticket is next, and with the same ticket who came first."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tickets, self._arrivals = count(), count()

    def ticket(self) -> int:
        """A place in the line for all that belongs together; each is higher than those before."""
        return next(self._tickets)

    async def enter(self, ticket: int) -> None:
        """Wait for a place; the caller must `leave` it."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (ticket, next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # it was our turn: pass it on
            raise

    def leave(self) -> None:
        """Give the place to who is next."""
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
