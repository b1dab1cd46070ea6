"""The loop: runs a cycle after a change, with a short wait for further changes, and at least once per schedule period.

A cycle decides in a thread and on a copy of its own, so that watches, Lease and health checks continue meanwhile.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Gauge

from pyroclast.api.types import QUEUES
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.kube.basics.time_slices import Turn, in_turns
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.lifecycle.times import format_time
from pyroclast.resources import durations
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.model.budgets import BudgetStanding
from pyroclast_scheduler.model.causes import WaitingRecord
from pyroclast_scheduler.model.queues import QueueFacts
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.outcome import Commit, Note, Outcome, without_group
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Action, PluginFactory
from pyroclast_scheduler.session.session_close import left_out_status
from pyroclast_scheduler.shell.binder import Binder
from pyroclast_scheduler.shell.evictor import Evictor
from pyroclast_scheduler.shell.gangs import GangKeeper
from pyroclast_scheduler.shell.isolation import FaultReports, Isolation
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.object_metrics import CardSeries, KeptSeries, QueueSeries
from pyroclast_scheduler.shell.session_inputs import ReservedNodes, SessionGaps, SessionInputs
from pyroclast_scheduler.shell.writer import Writer

log = structlog.get_logger()


_EVENT: Final = "BudgetUnknown"
_PARTS: Final = 1000  # the largest number of steps that prepare a snapshot
_COALESCE_SECONDS: Final = 0.002  # the wait for the end of a burst of events …
_LONGEST_COALESCE_SECONDS: Final = 0.010  # … up to this time
_STALLED_SECONDS: Final = 120.0  # the longest cycles of the largest clusters are much shorter
_REST: Final = 4.0  # the pause in units of the last cycle: under constant events, decisions use a fifth of a core …
_LONGEST_REST_SECONDS: Final = 0.2  # … and more if cycles are long, since the pause is limited


class BudgetReports:
    """The states of budgets after the last session. `patience`: for how many seconds a reported amount is used."""

    def __init__(self, registry: CollectorRegistry, recorder: EventRecorder, patience: float) -> None:
        labels = ("queue", "resource")
        self._ratio = KeptSeries(
            Gauge("pyroclast_budget_spent_ratio", "Spent part of the budget of a queue", labels, registry=registry)
        )
        text = "1 if the recorder has not reported the spent amounts of a budget for too long, else 0"
        self._unknown = KeptSeries(Gauge("pyroclast_budget_unknown", text, ("queue",), registry=registry))
        self._recorder, self._patience = recorder, patience
        self._turns: dict[str, tuple[int, bool, bool]] = {}
        self._seen: dict[str, tuple[str, float]] = {}
        self._told: set[str] = set()
        self._ratios: dict[tuple[str, ...], float] = {}

    def take(self, standings: Mapping[str, BudgetStanding], queues: Mapping[str, QueueFacts], now: float) -> list[str]:
        """Report the budgets of all queues. Return the queues whose budget period or state changed since the last session."""
        unknown = {name for name, each in standings.items() if self._is_unknown(name, each, queues, now)}
        for name in sorted(unknown - self._told):
            self._tell(standings[name], queues.get(name))
        self._told = unknown
        labels: list[tuple[str, ...]] = [(name, resource) for name, each in standings.items() for resource in each.budget.limits]
        known = {slot: standings[slot[0]].ratio(slot[1]) for slot in labels if standings[slot[0]].is_known}
        last = {slot: self._ratios[slot] for slot in labels if slot in self._ratios}
        self._ratios = {**last, **known}
        self._ratio.show(self._ratios, now)
        self._unknown.show({(name,): float(name in unknown) for name in standings}, now)
        turns = {name: (each.span.begin, each.is_known, each.is_low) for name, each in standings.items()}
        before, self._turns = self._turns, turns
        return [name for name, turn in turns.items() if name in before and before[name] != turn]

    def _is_unknown(self, name: str, standing: BudgetStanding, queues: Mapping[str, QueueFacts], now: float) -> bool:
        """Whether no usable amount has been reported for longer than the patience. A new budget has no report at first."""
        if standing.is_known:
            self._seen.pop(name, None)
            return False
        uid = queues[name].uid if name in queues else ""
        known, since = self._seen.get(name, ("", 0.0))
        if known != uid or not since:
            since = now if standing.as_of is None else min(now, standing.as_of)
            self._seen[name] = uid, since
        return now - since > self._patience

    def _tell(self, standing: BudgetStanding, facts: QueueFacts | None) -> None:
        last = "never" if standing.as_of is None else f"last at {format_time(standing.as_of)}"
        long = durations.shown(int(self._patience * 1e9))
        log.warning("budget.unknown", queue=standing.queue, last=last)
        if facts is not None:
            reference = Reference(QUEUES.api_version, QUEUES.kind, "", facts.name, facts.uid)
            text = f"the recorder has not written for {long} what is spent of the budget, {last}: see whether it runs"
            self._recorder.event(reference, "Warning", _EVENT, text)


class Loop:
    """Runs cycles. `wake` may be called at any time from the thread of the event loop.

    `explained`: called with the outcome of each session. `warned`: called with new warnings of a session about the configuration.
    """

    def __init__(
        self,
        cache: Cache,
        configuration: Callable[[], Configuration],
        inputs: SessionInputs,
        *,
        actions: Mapping[str, Action],
        plugins: Mapping[str, PluginFactory],
        binder: Binder,
        evictor: Evictor,
        writer: Writer,
        keeper: GangKeeper,
        metrics: SchedulerMetrics,
        recorder: EventRecorder,
        reserved: ReservedNodes,
        gaps: SessionGaps,
        explained: Callable[[Outcome], None],
        warned: Callable[[Sequence[str]], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._cache = cache
        self._configuration = configuration
        self._inputs = inputs
        self._actions = actions
        self._plugins = plugins
        self._binder = binder
        self._evictor = evictor
        self._writer = writer
        self._keeper = keeper
        self._metrics = metrics
        self._queue_series = QueueSeries(metrics.registry)
        self._card_series = CardSeries(metrics.registry)
        self._budgets = BudgetReports(metrics.registry, recorder, inputs.budget_patience)
        self._reserved = reserved
        self._gaps = gaps
        self._explained = explained
        self._warned = warned
        self._period = inputs.period
        self._now = now
        self._changes = 0
        self._changed = asyncio.Event()
        self._warnings: frozenset[str] = frozenset()
        self._placements: asyncio.Queue[Commit] = asyncio.Queue()
        self._unready: set[str] = set()
        self._reports = FaultReports(recorder, metrics)
        self._isolation = Isolation(cache, self._run, metrics)
        self._last_cycle: float | None = None
        self._session = 0.0  # the start of the present session
        self._last_period = 0
        self._decided_by: Configuration | None = None

    def wake(self) -> None:
        """Report a change that may affect decisions."""
        self._changes += 1
        self._changed.set()

    async def run(self) -> None:
        """Run one cycle after another until cancelled."""
        thread = ThreadPoolExecutor(1, "session")
        self._last_cycle = time.monotonic()
        self._inputs.begin()
        self._reserved.forget()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._commit())
                group.create_task(self._cycles(thread))
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    async def _cycles(self, thread: ThreadPoolExecutor) -> None:
        while True:
            self._changed.clear()
            await self._binder.room()
            start = time.perf_counter()
            try:
                await self._cycle(thread)
            except Exception:  # an error of a plugin must not stop the service; the liveness check ends it if errors persist
                self._metrics.failures.inc()
                log.exception("cycle.failed")
                await asyncio.sleep(self._period)
            await asyncio.sleep(min((time.perf_counter() - start) * _REST, _LONGEST_REST_SECONDS, self._period))
            await self._until_change()

    def stalled(self) -> str | None:
        """Return why this loop makes no progress, None if it does."""
        if self._last_cycle is None:  # not leading
            return None
        silent = time.monotonic() - self._last_cycle
        return f"no scheduling cycle ended well for {silent:.0f} s" if silent > max(_STALLED_SECONDS, 10 * self._period) else None

    async def _commit(self) -> None:
        turn = Turn()
        while True:
            commit = await self._placements.get()
            if turn.is_over:
                await turn.next()
            try:
                await self._binder.take(commit, turn, session=self._session)
                self._evictor.take(commit)
            finally:
                self._placements.task_done()

    def _run(self, snapshot: Snapshot, configuration: Configuration, ports: Ports) -> Outcome:
        return run_cycle(
            snapshot, configuration, actions=self._actions, plugins=self._plugins, ports=ports, uid=str(uuid.uuid4())
        )

    async def _until_change(self) -> None:
        try:
            async with asyncio.timeout(self._period):
                await self._changed.wait()
        except TimeoutError:
            return
        deadline = time.monotonic() + _LONGEST_COALESCE_SECONDS
        seen = -1
        while seen != self._changes and time.monotonic() < deadline:
            seen = self._changes
            await asyncio.sleep(_COALESCE_SECONDS)

    async def _cycle(self, thread: ThreadPoolExecutor) -> None:
        start = time.perf_counter()
        loop = asyncio.get_running_loop()
        period = self._inputs.periods()
        if period != self._last_period:
            self._last_period = period
            self._cache.recheck()
        configuration = self._isolation.skipped.rest_of(self._configuration(), period)
        if configuration != self._decided_by:  # the file changed, or a skipped plugin is used again
            self._decided_by = configuration
            self._cache.try_left_out_again()
            self._cache.stale()
        turn = Turn()
        for _ in range(_PARTS):  # limited, since new events must not delay the session for ever
            if not self._cache.prepare():
                break
            if turn.is_over:
                await turn.next()
        snapshot: Snapshot = self._cache.snapshot()
        gone = self._cache.groups.gone()
        self._binder.series.gone(gone)  # before a job of the same name is placed
        snapshot_milliseconds = (time.perf_counter() - start) * 1000

        def send(commit: Commit) -> None:
            loop.call_soon_threadsafe(self._placements.put_nowait, commit)

        ports = self._inputs.for_session(period, send, self._metrics.observe)
        self._session = ports.now
        before = ports.rehearsing()
        with self._gaps.session():
            try:
                outcome = await loop.run_in_executor(thread, self._run, snapshot, configuration, ports)
            except Exception as error:
                await self._placements.join()
                self._writer.sweep()
                self._inputs.session_failed()
                if not await self._isolation.isolate(thread, configuration, before, error):
                    raise
                return
        outcome.warnings += self._isolation.skipped.warnings
        self._metrics.opened(snapshot_milliseconds)
        await self._placements.join()
        await self._take(outcome, gone)
        self._last_cycle = time.monotonic()
        self._metrics.cycle.observe((time.perf_counter() - start) * 1000)
        for job in self._keeper.take(outcome.incomplete, self._now()):
            await self._keeper.release(job)

    async def _take(self, outcome: Outcome, gone: Collection[str]) -> None:
        left_out = self._cache.jobs.left_out()
        for key, reason in left_out.items():
            message = f"{PendingReason.LEFT_OUT}: {reason}"
            outcome.records[key] = WaitingRecord(PendingReason.LEFT_OUT, reason, "", ())
            outcome.notes.append(Note(key, "Warning", "Unschedulable", message))
            group = self._cache.groups.current(key)
            said = None if group is None else left_out_status(group.status, message, format_time(self._now()))
            if said is not None:
                outcome.statuses[key] = said
        outcome.seen |= left_out.keys() | set(gone)
        outcome.waiting += map(without_group, self._cache.jobs.groupless())
        for waiting in outcome.waiting:
            if waiting.nominated:
                self._cache.pods.nominate(waiting.task.uid, waiting.nominated)
        self._explained(outcome)
        await self._writer.take(outcome)
        async for key in in_turns(outcome.retried):
            self._cache.retries.examine_again(key)
        async for job in in_turns(outcome.unschedulable):
            self._cache.retries.add(job)
        self._cache.keep(outcome.kept)
        self._cache.promises_ended(outcome.lapsed)
        if outcome.reservations is not None:
            self._reserved.take(dict(outcome.reservations))
        await self._count_unready(outcome)
        await self._measure(outcome)
        self._reports.take(self._cache.faults() | outcome.faults, told=left_out.keys())
        warnings = frozenset(outcome.warnings)
        self._warned(sorted(warnings - self._warnings))
        self._warnings = warnings

    async def _count_unready(self, outcome: Outcome) -> None:
        """Update the metrics of missing tasks. Those of jobs that the session did not examine stay as they are."""
        async for key in in_turns(outcome.seen):
            labels = key.split("/")
            lacking = outcome.unready.get(key)
            if lacking is not None:
                self._unready.add(key)
                self._metrics.unready_tasks.labels(*labels).set(lacking)
                self._metrics.retries.labels(*labels).inc()
            elif key in self._unready:
                self._unready.discard(key)
                self._metrics.unready_tasks.remove(*labels)
        self._metrics.unready_jobs.set(len(self._unready))

    async def _measure(self, outcome: Outcome) -> None:
        measures, series = outcome.measures, self._binder.series
        async for key in in_turns(outcome.seen):
            group = self._cache.groups.current(key)
            if group is not None:
                series.seen(group)
        series.shares(measures.shares)
        self._queue_series.take(measures, self._cache.queues)
        self._card_series.take(measures.cards, self._cache.nodes.is_known)
        for queue in self._budgets.take(measures.budgets, self._cache.queues, self._now()):
            self._cache.queue_turned(queue)
        self._metrics.attempts.labels("unschedulable").inc(len(outcome.waiting))
        self._metrics.preemptions.inc(measures.attempts)
        if measures.victims is not None:
            self._metrics.victims.set(measures.victims)
