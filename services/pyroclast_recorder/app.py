"""The process of the recorder: its metrics, and the tasks that watch objects, write rows, and serve the HTTP API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pyroclast.api.records.groups import Queue
from pyroclast.api.types import JOBS, LEASES, NAMESPACES, PODS, QUEUES, Key, ResourceType
from pyroclast.kube.basics.deadline import loop_time
from pyroclast.kube.basics.retry import jittered_backoff
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast.runtime.access import Access
from pyroclast.runtime.errors import StartFailure
from pyroclast.runtime.leadership import lead
from pyroclast.runtime.metrics import JobEndSeries
from pyroclast.runtime.service import Service
from pyroclast.runtime.traces import Traces
from pyroclast_recorder.budgets.keeper import BudgetKeeper
from pyroclast_recorder.database.batches import Cursor
from pyroclast_recorder.database.connections import DatabaseUnavailable
from pyroclast_recorder.database.database import KEPT, WRITTEN, Database
from pyroclast_recorder.database.migration import UnknownSchema
from pyroclast_recorder.facts.native_groups import GroupEnd
from pyroclast_recorder.following.kinds import Followed, followed_kinds
from pyroclast_recorder.following.measuring import Meter
from pyroclast_recorder.following.past_usage import PastUsageWriter
from pyroclast_recorder.following.prometheus import PrometheusMeter
from pyroclast_recorder.following.queue_sink import QueueSink
from pyroclast_recorder.following.run_lengths import RunLengthsWriter
from pyroclast_recorder.following.standby import Standby, spare_of
from pyroclast_recorder.following.stream import Stream
from pyroclast_recorder.following.tracing import JobTracer
from pyroclast_recorder.following.writer import Writer
from pyroclast_recorder.notices import Notifier
from pyroclast_recorder.reading.server import HistoryServer
from pyroclast_recorder.settings import RecorderSettings

log = structlog.get_logger()


class RecorderMetrics:
    """The metrics of the recorder, registered in `registry`.

    `since`: earlier ends of PodGroups are not counted, in seconds since the epoch.
    """

    def __init__(self, registry: CollectorRegistry, *, since: float = 0.0) -> None:
        self._since = since
        self._ends = JobEndSeries(registry)
        self._rows = Counter("pyroclast_recorder_rows", "Rows written to the database", registry=registry)
        self._lag = Histogram(
            "pyroclast_recorder_lag_seconds",
            "Time from an event to its row in the database",
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
            registry=registry,
        )
        self._gaps = Counter(
            "pyroclast_recorder_gap_seconds", "Seconds in which the events of a kind are lost", ["kind"], registry=registry
        )
        self._incidents = Counter(
            "pyroclast_recorder_incidents", "Rare incidents of lists and watches", ["kind", "what"], registry=registry
        )
        self._unwritten = Gauge(
            "pyroclast_recorder_unwritten_seconds", "For how long the oldest row has waited for the database", registry=registry
        )

    def written(self, rows: int, seconds: float) -> None:
        """Count a committed transaction with `rows` rows. `seconds`: the time for which its oldest row waited."""
        self._rows.inc(rows)
        self._lag.observe(seconds)

    def waits(self, unwritten: Callable[[], float]) -> None:
        """Show the result of `unwritten`: for how long the oldest row has waited for the database."""
        self._unwritten.set_function(unwritten)

    def ended(self, ends: Iterable[GroupEnd]) -> None:
        """Count ends of native PodGroups. The board counts the ends of Jobs."""
        for end in ends:
            if end.at >= self._since:
                self._ends.ended(end.queue, end.phase, end.seconds)

    def queue_gone(self, queue: str) -> None:
        """Remove the series of a deleted queue."""
        self._ends.forget(queue)

    def gap(self, kind: str, seconds: float) -> None:
        """Count `seconds` for which the events of a kind are lost."""
        self._gaps.labels(kind).inc(max(0.0, seconds))

    def incident(self, kind: str, what: str) -> None:
        """Count a rare incident, such as a new list or a reconnection."""
        self._incidents.labels(kind, what).inc()


COMPONENT: Final = "pyroclast-recorder"
"""The source of the Events that the recorder records."""

STANDBY_SECONDS: Final = 3.0
"""A replica that does not record after this time becomes a standby."""

SETTLE_SECONDS: Final = 60.0
FRESH_SECONDS: Final = 5.0
"""Usage that was added up within this time is new enough for a report."""

STEADY_SECONDS: Final = 300.0
"""After this time without an error, a task that fails is run again soon."""

TELL_SECONDS: Final = 10.0
TOLD_SECONDS: Final = 60.0
"""How often the recorder checks whether it records, and for how long it must fail before an Event says so."""

PRUNE_SECONDS: Final = 600.0
PRUNED_AT_ONCE: Final = 5_000


class Recorder:
    """The tasks of the recorder, and the state that they share."""

    def __init__(
        self,
        client: Client,
        database: Database,
        settings: RecorderSettings,
        metrics: RecorderMetrics,
        traces: Traces | None = None,
        *,
        events: EventRecorder | None = None,
    ) -> None:
        self._client, self._database, self._settings, self._metrics = client, database, settings, metrics
        self._traces, self._events = traces, events
        self._settled = float("-inf")
        self._settling = asyncio.Lock()
        self._writer: Writer | None = None
        self._streams: list[Stream[Any]] = []
        self._is_migrated = False
        metrics.waits(lambda: 0.0 if self._writer is None else self._writer.unwritten_seconds)
        of_pods, natives = frozenset(settings.schedulers), settings.native_workloads
        self._sinks = partial(followed_kinds, database, of_pods, metrics.gap, are_natives_followed=natives)
        self._standby = Standby(client, database, self._sinks, metrics.incident)

    def unready(self) -> str | None:
        """Return why this replica cannot answer requests yet; None when it can, also while the database takes no rows."""
        return "the database is not there yet" if self._writer is not None and not self._is_migrated else None

    def complaint(self) -> str | None:
        """Return why nothing is recorded now; None when this replica records without faults, or when another replica records."""
        if self._writer is None:
            return None
        faults = (self.unready(), self._writer.complaint, *(stream.complaint for stream in self._streams))
        return next(filter(None, faults), None)

    def problem(self) -> tuple[str, str] | None:
        """Return the name of the check that fails and why, for the Lease."""
        complaint = self.complaint()
        return None if complaint is None else ("database", complaint)

    async def record(self, _: int) -> None:
        """Watch the API server and write rows, until cancelled. Raises StartFailure: the schema of the database is unknown."""
        tracer = JobTracer(self._database, self._traces) if self._traces and self._traces.are_taken else None
        metrics, before_write = self._metrics, tracer.send_ends if tracer else None
        writer = Writer(
            self._database, self._client.now, metrics.written, before_write, on_ends=metrics.ended, on_incident=metrics.incident
        )
        self._writer, self._is_migrated = writer, False
        try:
            cursors = await self._migrated()
            self._is_migrated = True
            kept = self._standby.end()
            database = self._database
            queues = QueueSink(database, writer, self._client.now, on_gone=metrics.queue_gone)
            sinks: dict[ResourceType, Followed] = {**self._sinks(lambda _: writer, tracer), QUEUES: Followed(Queue, queues)}
            incident = self._metrics.incident
            async with asyncio.TaskGroup() as group:
                tasks: dict[str, Callable[[], Awaitable[None]]] = {
                    "writer": writer.run,
                    "queues": queues.run,
                    "settling": self._settle_often,
                    "pruning": self._prune_often,
                    "telling": self._tell_often,
                }
                if (period := self._settings.metrics_period.total_seconds()) > 0:
                    tasks["measuring"] = self._meter(writer, period).run
                if half_life := self._settings.past_usage_half_life.total_seconds():
                    tasks["past usage"] = PastUsageWriter(self._client, database, self.settle, half_life).run
                tasks["run lengths"] = RunLengthsWriter(self._client, database, self._settings.lease_namespace).run
                period = self._settings.budget_period.total_seconds()
                notifier = self._notifier()
                tasks["budgets"] = BudgetKeeper(self._client, database, self.settle, period, self._events, notifier=notifier).run
                if notifier is not None:
                    tasks["notices"] = notifier.run
                for kind, (record, sink, served) in sinks.items():
                    cursor = cursors.get(kind.qualified)
                    spare = spare_of(kept[kind], writer) if kind in kept else None
                    stream = Stream(self._client, kind, record, sink, cursor, on_incident=incident, spare=spare, served=served)
                    tasks[kind.qualified] = stream.run
                    if kind in {JOBS, PODS}:
                        self._streams.append(stream)
                for name, run in tasks.items():
                    group.create_task(self._keep_running(name, run))
        finally:
            self._writer, self._streams = None, []

    async def _tell_often(self) -> None:
        """Write until when all rows are there, and record an Event on the Lease when nothing was recorded for a minute."""
        failed, is_told = 0.0, False
        while True:
            if self._writer is not None:
                self._writer.move(Cursor(WRITTEN, "", int(self._client.now()), 0))
            await asyncio.sleep(TELL_SECONDS)
            why = self.complaint()
            failed = 0.0 if why is None else failed + TELL_SECONDS
            if failed >= TOLD_SECONDS and not is_told:
                self._event("Warning", "NotRecording", f"history is not recorded now: {why}")
            elif why is None and is_told:
                self._event("Normal", "Recording", "history is recorded again, with the changes since then")
            is_told = failed >= TOLD_SECONDS

    def _event(self, kind: str, reason: str, text: str) -> None:
        if self._events is not None:
            lease = self._settings.lease_namespace, self._settings.leader_elect_resource_name
            self._events.event(Reference(LEASES.api_version, LEASES.kind, *lease, ""), kind, reason, text)

    async def _keep_running(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a task, and run it again after an unexpected error, because the other tasks do not need it."""
        backoff = jittered_backoff(1.0, 60.0)
        while True:
            began = loop_time()
            try:
                await run()
            except Exception:
                self._metrics.incident(name, "failed")
                log.exception("recorder.task_failed", task=name)
            if loop_time() - began > STEADY_SECONDS:
                backoff.reset()
            await asyncio.sleep(backoff.next())

    async def stand_by(self) -> None:
        """Keep recent rows in memory while another replica records. Like other tasks of a service, this never returns.

        A SQLite file has only one replica, so no replica stands by.
        """
        await asyncio.sleep(STANDBY_SECONDS)
        if self._database.is_shared and self._writer is None:
            await self._standby.run()
        await asyncio.Event().wait()

    async def settle(self) -> None:
        """Add up usage, unless it was added up within the last `FRESH_SECONDS`."""
        async with self._settling:
            if loop_time() - self._settled < FRESH_SECONDS:
                return
            await self._database.settle(int(self._client.now()))
            self._settled = loop_time()

    def _meter(self, writer: Writer, period: float) -> Meter | PrometheusMeter:
        """Return the source of measured usage: Prometheus if its URL is set, else the metrics API."""
        if url := self._settings.prometheus_url:
            return PrometheusMeter(url, self._database, writer, self._client.now, period)
        return Meter(self._client, self._database, writer, self._client.now, period)

    def _notifier(self) -> Notifier | None:
        file = self._settings.notifications_file
        return Notifier(self._database, Path(file), self._client.now) if file else None

    async def _migrated(self) -> Mapping[str, Cursor]:
        """Migrate the schema as soon as the database is available; return the cursors of the stored rows, by kind."""
        backoff = jittered_backoff(0.5, 30.0)
        while True:
            try:
                await self._database.migrate()
                return await self._database.cursors()
            except UnknownSchema as error:
                raise StartFailure(f"--database-url: {error}") from error
            except DatabaseUnavailable as error:
                log.warning("recorder.database_unavailable", error=str(error))
                await asyncio.sleep(backoff.next())

    async def _settle_often(self) -> None:
        while True:
            await asyncio.sleep(SETTLE_SECONDS)
            try:
                await self.settle()
            except DatabaseUnavailable as error:
                log.warning("recorder.not_settled", error=str(error))

    async def _prune_often(self) -> None:
        while True:
            for table, (setting, _) in KEPT.items():
                before = int(self._client.now() - getattr(self._settings, setting).total_seconds())
                try:
                    while await self._database.prune(table, before, PRUNED_AT_ONCE) == PRUNED_AT_ONCE:
                        await asyncio.sleep(0.1)
                except DatabaseUnavailable as error:
                    log.warning("recorder.not_pruned", table=table.name, error=str(error))
            await asyncio.sleep(PRUNE_SECONDS)


async def run(service: Service, settings: RecorderSettings) -> None:
    """Serve the HTTP API, and record while this replica leads."""
    client = await service.client()
    namespace = await client.get(NAMESPACES, Key("", "kube-system"))
    database = Database(settings.database_url, namespace["metadata"]["uid"])
    events = service.record_events(client, COMPONENT)
    metrics = RecorderMetrics(service.metrics, since=client.now())
    recorder = Recorder(client, database, settings, metrics, service.traces, events=events)
    service.add_ready("database", recorder.unready)
    access = Access(client, COMPONENT, trusts_local=settings.trust_local_clients)
    server = HistoryServer(database, access, client.now, recorder.settle, recorder.complaint)
    await server.start(settings.api_address)
    try:
        await service.synced()
        service.spawn("standing-by", recorder.stand_by())
        service.spawn("leading", lead(client, settings, recorder.record, events, problem=recorder.problem))
        await service.forever()
    finally:
        await server.stop()
        await database.close()
