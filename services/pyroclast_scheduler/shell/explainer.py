"""Keeps the book of jobs that wait between sessions, and has the annotations of their PodGroups say what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Final

import structlog

from pyroclast.api import keys
from pyroclast.api.waiting import Waiting, read_waiting, written_waiting
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.explaining.annotations import Start, Turns, is_worth_a_write, waiting_of
from pyroclast_scheduler.explaining.answers import Answerer
from pyroclast_scheduler.explaining.book import Past, WaitingBook
from pyroclast_scheduler.explaining.run_times import declared_end
from pyroclast_scheduler.explaining.waits import measured
from pyroclast_scheduler.model.groups import Group
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.session.outcome import Outcome
from pyroclast_scheduler.shell.estimates import Estimates
from pyroclast_scheduler.shell.waiting_metrics import WaitingSeries
from pyroclast_scheduler.shell.writer import Writer

__all__ = ["Explainer"]

_PAUSE_SECONDS: Final = 1.0  # numbers alone are worth one write in it
_MEASURE_SECONDS: Final = 2.0
_FAILED_SECONDS: Final = 60.0  # after a mistake, before it is tried again
_AT_ONCE: Final = 250  # jobs whose numbers are looked at in one turn, about a millisecond


log = structlog.get_logger()


class Explainer:
    """Belongs to the event loop's thread. `estimates`: of starts, None where none are made."""

    def __init__(self, cache: Cache, writer: Writer, series: WaitingSeries, *, now: Callable[[], float]) -> None:
        self.book = WaitingBook()
        self.is_at_work = False
        self.estimates: Estimates | None = None
        self._cache = cache
        self._writer = writer
        self._series = series
        self._now = now
        self._turns = Turns()
        self.reservations: Callable[[], Mapping[str, Reservation]] = dict
        writer.waiting = self.text

    def source(self) -> Answerer:
        """What answers are made from now."""
        return Answerer(
            self.book, self._cache.facts(), self._now(), self.reservations(), self._start, partial(declared_end, now=self._now())
        )

    def take(self, outcome: Outcome) -> None:
        """Take up what a session found out; before its statuses are written, which a mistake here must not prevent."""
        try:
            self._take(outcome)
        except Exception:  # nobody decides by explanations
            log.exception("explanation.failed")

    def _take(self, outcome: Outcome) -> None:
        new = {key: past for key in outcome.records if self.book.get(key) is None and (past := self._known(key)) is not None}
        self.book.ranked_by = outcome.ranked_by
        self.book.take(outcome.records, outcome.seen, self._now(), since=new)
        if self.estimates is not None:
            self.estimates.take(outcome, self._now())
        for key in outcome.seen:
            group = None if key in outcome.records else self._cache.group(key)
            if group is not None and keys.WAITING in group.metadata.annotations and key not in outcome.statuses:
                self._writer.annotate(key)

    def text(self, group: Group) -> str:
        """What the annotation of a group should say, empty for none; what it says where the difference is worth no write."""
        said = group.metadata.annotations.get(keys.WAITING, "")
        if not group.keeps_phase:
            return said
        new = self._waiting(group.key)
        if new is None:
            return ""
        old = read_waiting(said) if said else None
        return said if said and not is_worth_a_write(old, new) else written_waiting(new)

    async def run(self) -> None:
        """Bring numbers up to date, until cancelled: one PodGroup a second at most, each of them every five minutes at most."""
        self.is_at_work = True
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_again_and_again(self._annotate))
                group.create_task(_again_and_again(self._measure))
                if self.estimates is not None:
                    group.create_task(_again_and_again(partial(self.estimates.run, self.book)))
        finally:
            self.is_at_work = False

    async def _measure(self) -> None:
        """Show sums over all that wait; added up in a thread, as there may be many."""
        while True:
            await asyncio.sleep(_MEASURE_SECONDS)
            now, book = self._now(), self.book
            found = await asyncio.to_thread(measured, dict(book.counts), list(book), self._cache.facts(), now)
            self._series.show(found, now)
            if self.estimates is not None:
                self._series.show_estimates(self.estimates.quality(book.queues), now)

    async def _annotate(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            key = self._turns.next(self.book, self._is_due, self._now(), most=_AT_ONCE)
            if key is not None:
                self._writer.annotate(key)

    def _is_due(self, key: str) -> bool:
        group = self._cache.group(key)
        return group is not None and self.text(group) != group.metadata.annotations.get(keys.WAITING, "")

    def _waiting(self, key: str) -> Waiting | None:
        entry = self.book.get(key)
        start = self._start(key)
        return None if entry is None else waiting_of(self.book, entry, None if isinstance(start, str) else start)

    def _start(self, key: str) -> Start | str:
        entry = self.book.get(key)
        if entry is not None and entry.is_never:
            return "waiting alone does not help"
        if entry is not None and entry.code is PendingReason.BUDGET_SPENT:
            return "a budget keeps it out, until the date that is named or until it is raised"
        return "no estimate is made" if self.estimates is None else self.estimates.start(key)

    def _known(self, key: str) -> Past | None:
        """Since when its code holds, by the annotation that another leader, or this process before, wrote."""
        group = self._cache.group(key)
        said = None if group is None else read_waiting(group.metadata.annotations.get(keys.WAITING, ""))
        if said is None or said.code not in set(PendingReason):
            return None
        try:
            return Past(PendingReason(said.code), datetime.fromisoformat(said.since).timestamp())
        except ValueError:
            return None


async def _again_and_again(work: Callable[[], Awaitable[None]]) -> None:
    """Work that goes on until it is cancelled; a mistake in it must not end the scheduler, which decides without it."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("explanation.failed")
        await asyncio.sleep(_FAILED_SECONDS)
