"""Estimates the starts of waiting jobs between sessions, with a small share of one CPU core."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from pyroclast.api.run_lengths import RunLengths
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.explaining.annotations import Start
from pyroclast_scheduler.explaining.book import WaitingBook
from pyroclast_scheduler.explaining.estimates import Estimator, PassInput, begin
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.session.outcome import Outcome
from pyroclast_scheduler.shell.reserved_nodes import ReservedNodes
from pyroclast_scheduler.shell.session_gaps import SessionGaps

T = TypeVar("T")

_PART: Final = 0.05  # the part of a core that is used
_PAUSE_SECONDS: Final = 1.0
_BETWEEN_SECONDS: Final = 5.0  # the pause between two passes


class Estimates:
    """Runs an estimator, which has a thread of its own, between sessions."""

    def __init__(self, cache: Cache, reserved: ReservedNodes, gaps: SessionGaps, *, now: Callable[[], float]) -> None:
        self._cache, self._reserved, self._gaps, self._now = cache, reserved, gaps, now
        self._estimator = Estimator()
        self._news: list[tuple[str, JobFacts | None, float]] = []
        self._thread: ThreadPoolExecutor | None = None
        self._spent = 0.0

    def start(self, key: str) -> Start | str:
        """Return the estimated start of a job, or a text that says why there is none."""
        return self._estimator.start(key)

    def quality(self, queues: Collection[str]) -> dict[str, tuple[float, float]]:
        """Return by queue the fraction of the last estimates that were right, and the width of their intervals.

        Queues with too few scored estimates are left out.
        """
        calibration = self._estimator.calibration
        found = {queue: calibration.held(queue) for queue in queues}
        return {queue: (held, calibration.width(queue)) for queue, held in found.items() if held is not None}

    def recorded(self, found: RunLengths) -> None:
        """Use the run times of Jobs that the recorder reports."""
        self._estimator.lengths.recorded = found

    def usual_seconds(self, facts: JobFacts) -> float | None:
        """Return the run time that nine of ten similar jobs do not exceed; None if unknown. Any thread may call it."""
        return self._estimator.lengths.usual_seconds(facts)

    def take(self, outcome: Outcome, now: float) -> None:
        """Record the state of the jobs that a session examined and that do not wait."""
        facts = self._cache.jobs.all_facts()
        self._news += [(key, facts.get(key), now) for key in outcome.seen if key not in outcome.records]

    async def run(self, book: WaitingBook) -> None:
        """Run one pass after another until cancelled."""
        self._thread = thread = ThreadPoolExecutor(1, "estimates")
        try:
            while True:
                await asyncio.sleep(_PAUSE_SECONDS)
                news, self._news = self._news, []
                if news:
                    await self._work(partial(self._learn, news))
                if len(book):
                    await self._pass(book.copy())
                    await asyncio.sleep(_BETWEEN_SECONDS)
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    async def _pass(self, book: WaitingBook) -> None:
        given = PassInput(book, self._cache.view(), self._reserved.by_job, self._now())
        made = await self._work(partial(begin, self._estimator, given))
        while not made.is_done:
            await self._work(made.step)
        await self._work(partial(self._estimator.take, made))

    def _learn(self, news: list[tuple[str, JobFacts | None, float]]) -> None:
        for key, facts, at in news:
            self._estimator.saw(key, facts, at)

    async def _work(self, work: Callable[[], T]) -> T:
        """Run `work` in the thread, then pause in proportion to the CPU time that it used."""
        found = await asyncio.get_running_loop().run_in_executor(self._thread, self._timed, work)
        await asyncio.sleep(self._spent / _PART)
        return found

    def _timed(self, work: Callable[[], T]) -> T:
        self._gaps.wait()
        begun = time.thread_time()
        found = work()
        self._spent = time.thread_time() - begun
        return found
