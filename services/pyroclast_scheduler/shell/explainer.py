"""Updates the waiting book (all waiting jobs and their causes) and the explanations in annotations after each session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from functools import partial
from typing import Final

import structlog

from pyroclast.api.waiting import Waiting, read_waiting
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.explaining.annotations import Turns, said_of
from pyroclast_scheduler.explaining.answers import Answerer
from pyroclast_scheduler.explaining.book import PastCode, WaitingBook, measured
from pyroclast_scheduler.explaining.lengths import likely_end
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.session.outcome import Outcome
from pyroclast_scheduler.shell.estimates import Estimates, WaitingText
from pyroclast_scheduler.shell.object_metrics import WaitingSeries
from pyroclast_scheduler.shell.session_inputs import ReservedNodes
from pyroclast_scheduler.shell.writer import Writer

log = structlog.get_logger()


_PAUSE_SECONDS: Final = 1.0  # at most one write for changed numbers per pause
_MEASURE_SECONDS: Final = 2.0
_FAILED_SECONDS: Final = 60.0  # the pause after an error
_AT_ONCE: Final = 250  # jobs whose numbers are checked in one step of about a millisecond


def _never(_facts: JobFacts) -> None:
    """Return no usual run time: the estimates are disabled."""


class Explainer:
    """Only the thread of the event loop may use it. `text`: makes the explanations of PodGroups."""

    def __init__(
        self,
        book: WaitingBook,
        cache: Cache,
        writer: Writer,
        series: WaitingSeries,
        *,
        text: WaitingText,
        estimates: Estimates | None,
        reserved: ReservedNodes,
        now: Callable[[], float],
    ) -> None:
        self.book = book
        self.is_at_work = False
        self._unkept: Collection[str] = ()
        self._text = text
        self._estimates = estimates
        self._reserved = reserved
        self._cache = cache
        self._writer = writer
        self._series = series
        self._now = now
        self._turns = Turns()

    def source(self) -> Answerer:
        """Return the present data from which requests for explanations are answered."""
        return Answerer(
            self.book,
            self._cache.jobs.all_facts(),
            self._now(),
            self._reserved.by_job,
            self._text.start,
            partial(likely_end, usual=_never if self._estimates is None else self._estimates.usual_seconds, now=self._now()),
            list(self._cache.jobs.promised.values()),
            self._unkept,
        )

    def take(self, outcome: Outcome) -> None:
        """Add the results of a session, before its statuses are written. An error here must not prevent these writes."""
        try:
            self._take(outcome)
        except Exception:  # decisions do not depend on explanations
            log.exception("explanation.failed")

    def _take(self, outcome: Outcome) -> None:
        new = {key: past for key in outcome.records if self.book.get(key) is None and (past := self._known(key)) is not None}
        silent = {key for key in outcome.records if self.book.get(key) is None and not self._says(key)}
        self._unkept = outcome.unkept
        self.book.ranked_by = outcome.ranked_by
        self.book.take(outcome.records, outcome.seen, self._now(), since=new)
        if self._estimates is not None:
            self._estimates.take(outcome, self._now())
        for key in outcome.seen:
            group = self._cache.groups.current(key)
            if group is None or (group.keeps_phase and key in outcome.statuses):
                continue  # written together with the status
            if key in silent if key in outcome.records else said_of(group):
                self._writer.annotate(key)

    async def run(self) -> None:
        """Update numbers until cancelled: at most one PodGroup per second, and each one at most every five minutes."""
        self.is_at_work = True
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_again_and_again(self._annotate))
                group.create_task(_again_and_again(self._measure))
                if self._estimates is not None:
                    group.create_task(_again_and_again(partial(self._estimates.run, self.book)))
        finally:
            self.is_at_work = False

    async def _measure(self) -> None:
        """Update the metrics over all waiting jobs. The sums are calculated in a thread, as there may be many jobs."""
        while True:
            await asyncio.sleep(_MEASURE_SECONDS)
            now, book = self._now(), self.book
            found = await asyncio.to_thread(measured, dict(book.counts), list(book), self._cache.jobs.all_facts(), now)
            self._series.show(found, now)
            if self._estimates is not None:
                self._series.show_estimates(self._estimates.quality(book.queues), now)

    async def _annotate(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            key = self._turns.next(self.book, self._is_due, self._now(), most=_AT_ONCE)
            if key is not None:
                self._writer.annotate(key)

    def _is_due(self, key: str) -> bool:
        """Whether the explanation of a PodGroup has outdated numbers. A new code is written together with the status."""
        group = self._cache.groups.current(key)
        said, new = (None, None) if group is None else map(_read, (said_of(group), self._text.of(group)))
        return said is not None and new is not None and said != new and said.code == new.code

    def _says(self, key: str) -> bool:
        group = self._cache.groups.current(key)
        return group is not None and bool(said_of(group))

    def _known(self, key: str) -> PastCode | None:
        """Return the code and its time that an earlier process wrote to the PodGroup, None if there is none."""
        group = self._cache.groups.current(key)
        said = None if group is None else read_waiting(said_of(group))
        if said is None or said.code not in set(PendingReason):
            return None
        try:
            return PastCode(PendingReason(said.code), datetime.fromisoformat(said.since).timestamp())
        except ValueError:
            return None


def _read(text: str) -> Waiting | None:
    return read_waiting(text) if text else None


async def _again_and_again(work: Callable[[], Awaitable[None]]) -> None:
    """Repeat `work` until cancelled. An error in it must not end the scheduler, whose decisions do not depend on it."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("explanation.failed")
        await asyncio.sleep(_FAILED_SECONDS)
