"""Keeps the book of jobs that wait between sessions, and has their PodGroups say what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Final

import structlog

from pyroclast.api.waiting import Waiting, read_waiting
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.explaining.annotations import Turns, said_of
from pyroclast_scheduler.explaining.answers import Answerer
from pyroclast_scheduler.explaining.book import PastCode, WaitingBook
from pyroclast_scheduler.explaining.run_times import declared_end
from pyroclast_scheduler.explaining.waits import measured
from pyroclast_scheduler.session.outcome import Outcome
from pyroclast_scheduler.shell.estimates import Estimates
from pyroclast_scheduler.shell.reserved_nodes import ReservedNodes
from pyroclast_scheduler.shell.waiting_metrics import WaitingSeries
from pyroclast_scheduler.shell.waiting_text import WaitingText
from pyroclast_scheduler.shell.writer import Writer

__all__ = ["Explainer"]

_PAUSE_SECONDS: Final = 1.0  # numbers alone are worth one write in it
_MEASURE_SECONDS: Final = 2.0
_FAILED_SECONDS: Final = 60.0  # after a mistake, before it is tried again
_AT_ONCE: Final = 250  # jobs whose numbers are looked at in one turn, about a millisecond


log = structlog.get_logger()


class Explainer:
    """Belongs to the event loop's thread. `estimates`: of starts, None where none are made. `text`: what PodGroups say."""

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
        self._text = text
        self._estimates = estimates
        self._reserved = reserved
        self._cache = cache
        self._writer = writer
        self._series = series
        self._now = now
        self._turns = Turns()

    def source(self) -> Answerer:
        """What answers are made from now."""
        return Answerer(
            self.book,
            self._cache.jobs.all_facts(),
            self._now(),
            self._reserved.by_job,
            self._text.start,
            partial(declared_end, now=self._now()),
        )

    def take(self, outcome: Outcome) -> None:
        """Take up what a session found out; before its statuses are written, which a mistake here must not prevent."""
        try:
            self._take(outcome)
        except Exception:  # nobody decides by explanations
            log.exception("explanation.failed")

    def _take(self, outcome: Outcome) -> None:
        new = {key: past for key in outcome.records if self.book.get(key) is None and (past := self._known(key)) is not None}
        silent = {key for key in outcome.records if self.book.get(key) is None and not self._says(key)}
        self.book.ranked_by = outcome.ranked_by
        self.book.take(outcome.records, outcome.seen, self._now(), since=new)
        if self._estimates is not None:
            self._estimates.take(outcome, self._now())
        for key in outcome.seen:
            group = self._cache.groups.current(key)
            if group is None or (group.keeps_phase and key in outcome.statuses):
                continue  # it goes out with the status
            if key in silent if key in outcome.records else said_of(group):
                self._writer.annotate(key)

    async def run(self) -> None:
        """Bring numbers up to date, until cancelled: one PodGroup a second at most, each of them every five minutes at most."""
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
        """Show sums over all that wait; added up in a thread, as there may be many."""
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
        """Whether a PodGroup says other numbers than it should; another code goes out with its status."""
        group = self._cache.groups.current(key)
        said, new = (None, None) if group is None else map(_read, (said_of(group), self._text.of(group)))
        return said is not None and new is not None and said != new and said.code == new.code

    def _says(self, key: str) -> bool:
        group = self._cache.groups.current(key)
        return group is not None and bool(said_of(group))

    def _known(self, key: str) -> PastCode | None:
        """Since when its code holds, by what another leader, or this process before, wrote."""
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
    """Work that goes on until it is cancelled; a mistake in it must not end the scheduler, which decides without it."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("explanation.failed")
        await asyncio.sleep(_FAILED_SECONDS)
