"""Estimates the starts of waiting jobs between sessions, and writes them, with the cause, into the explanation of a PodGroup.

The estimates use a small share of one CPU core, and run times that the recorder writes to a ConfigMap.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

import structlog

from pyroclast.api import records
from pyroclast.api.run_lengths import CONFIG_MAP, DATA_KEY, BadRunLengths, RunLengths, read_run_lengths
from pyroclast.api.types import CONFIG_MAPS
from pyroclast.api.waiting import Waiting, read_waiting, written_waiting
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.lifecycle.gang.groups import Group
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.explaining.annotations import Start, is_worth_a_write, said_of, waiting_of
from pyroclast_scheduler.explaining.book import WaitingBook
from pyroclast_scheduler.explaining.estimates import Estimator, Pass, PassInput, begin
from pyroclast_scheduler.explaining.what_if import HOPEFUL, MOST_JOBS, Compared, WhatIf, changed_pass, effect_of
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.values import number
from pyroclast_scheduler.session.outcome import Outcome
from pyroclast_scheduler.shell.session_inputs import ReservedNodes, SessionGaps

log = structlog.get_logger()


T = TypeVar("T")
_PART: Final = 0.05  # the part of a core that is used
_PAUSE_SECONDS: Final = 1.0
_BETWEEN_SECONDS: Final = 5.0  # the pause between two passes


class Estimates:
    """Runs an estimator, which has a thread of its own, between sessions. `least_held`: see `Estimator`."""

    def __init__(
        self,
        cache: Cache,
        reserved: ReservedNodes,
        gaps: SessionGaps,
        *,
        now: Callable[[], float],
        least_held: float,
    ) -> None:
        self._cache, self._reserved, self._gaps, self._now = cache, reserved, gaps, now
        self._estimator = Estimator(least_held)
        self._news: list[tuple[str, JobFacts | None, float]] = []
        self._thread: ThreadPoolExecutor | None = None
        self._spent = 0.0

    def start(self, key: str) -> Start | str:
        """Return the estimated start of a job, or a text that says why there is none."""
        return self._estimator.start(key, self._now())

    def quality(self, queues: Collection[str]) -> dict[str, tuple[float, float]]:
        """Return by queue with enough estimates the fraction that was right, and the width of their intervals."""
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

    async def compared(self, book: WaitingBook, what: WhatIf, asked: Mapping[str, Floats], waits: str) -> list[Compared]:
        """Return the start of each waiting job without and with a change, in the order of the scheduler within queues.

        `asked`, `waits`: see `changed_pass`. Runs beside the passes, and not at their pace, as a user waits for it.
        """
        if self._thread is None:
            return []
        given = PassInput(book, self._cache.view(), self._reserved.by_job, self._now(), hopeful=HOPEFUL, most=MOST_JOBS)
        before = await self._now_run(partial(begin, self._estimator, given))
        after = changed_pass(before, given.snapshot, what, asked, waits)
        for made in (before, after):
            while not made.is_done:
                await self._now_run(made.step)
        return await self._now_run(partial(self._compared, before, after))

    def _compared(self, before: Pass, after: Pass) -> list[Compared]:
        told = self._estimator.told
        return [
            Compared(key, told(before, key), told(after, key), effect_of(before.found.get(key), after.found.get(key)))
            for key in dict.fromkeys([*before.world.keys, *before.found])
        ]

    async def _now_run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._timed, work)

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


def follow_run_lengths(client: Client, namespace: str, estimates: Estimates) -> Informer[records.ConfigMap]:
    """Return an informer of the ConfigMap that updates `estimates`. A missing ConfigMap is no error."""
    informer = Informer(client, CONFIG_MAPS, records.ConfigMap, namespace=namespace, field_selector=f"metadata.name={CONFIG_MAP}")
    informer.on_change(lambda old, new: take_run_lengths(estimates, old, new))
    return informer


def take_run_lengths(estimates: Estimates, old: records.ConfigMap | None, new: records.ConfigMap | None) -> None:
    """Use the content of the ConfigMap. A malformed one is ignored, with one warning until it changes."""
    if new is None:
        estimates.recorded(RunLengths())
        return
    text = new.data.get(DATA_KEY, "")
    if old is not None and old.data.get(DATA_KEY, "") == text:
        return
    try:
        estimates.recorded(read_run_lengths(text))
    except BadRunLengths as error:
        log.warning("run_lengths.passed_over", configmap=str(new.metadata.key), error=str(error)[:500])


class WaitingText:
    """Makes the explanations of waiting jobs from the waiting book. `estimates`: of starts, None if they are disabled."""

    def __init__(self, book: WaitingBook, estimates: Estimates | None) -> None:
        self._book = book
        self._estimates = estimates

    def of(self, group: Group) -> str:
        """Return the explanation that a group should have, empty for none; the present one if a change is not worth a write."""
        said, new = said_of(group), self._waiting(group)
        if new is None:
            return ""
        old = read_waiting(said) if said else None
        return said if said and not is_worth_a_write(old, new) else written_waiting(new)

    def start(self, key: str) -> Start | str:
        """Return the estimated start of a job, or a text that says why there is none."""
        entry = self._book.get(key)
        if entry is not None and entry.is_never:
            return "waiting alone does not help"
        if entry is not None and entry.code is PendingReason.BUDGET_SPENT:
            return "a budget keeps it out, until the date that is named or until it is raised"
        if entry is not None and entry.code is PendingReason.PERSON_LIMIT:
            return "a limit of each person keeps it out, until one of the Jobs that are named ends"
        return "no estimate is made" if self._estimates is None else self._estimates.start(key)

    def _waiting(self, group: Group) -> Waiting | None:
        entry, start = self._book.get(group.key), self.start(group.key)
        if entry is None:
            return None
        known = None if isinstance(start, str) else start
        if group.keeps_phase:  # its object has fields for queue and minimum resources
            return waiting_of(self._book, entry, known)
        asked = {name: number(name, amount) for name, amount in (group.spec.member_resources or {}).items() if amount}
        return waiting_of(self._book, entry, known, queue=entry.record.queue or group.spec.queue, requests=asked)
