"""The runtime of a service process: logging, health checks, metrics, signals, supervision, graceful stop."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry

from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed
from pyroclast.kube.basics.retry import jittered_backoff
from pyroclast.kube.credentials.config import ConfigError, load_config
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.lease import LeaseLost
from pyroclast.kube.watch.decode import Partial, Undecodable
from pyroclast.kube.watch.informer import Informer
from pyroclast.runtime import access, health, logs, metrics, supervisor
from pyroclast.runtime.errors import StartFailure
from pyroclast.runtime.metrics import ApiMetrics, LoopMetrics, new_registry
from pyroclast.runtime.settings import ServiceSettings
from pyroclast.runtime.supervisor import Supervisor, TaskDied, measure_lag, stop_requested
from pyroclast.runtime.tls import ServingTls, TlsFiles
from pyroclast.runtime.traces import Traces

log = structlog.get_logger()

WATCH_STALL_SECONDS: Final = 60.0  # seconds by which a watch may be overdue before the process counts as dead


class Service:
    """The environment of a service's main coroutine.

    `metrics`: the registry behind `/metrics`; a service registers its own metrics in it. `pages`: further pages of the metrics
    server, by path.
    """

    def __init__(self, name: str, settings: ServiceSettings) -> None:
        self.name = name
        self.settings = settings
        self.metrics: CollectorRegistry = new_registry()
        self.observer = ApiMetrics(self.metrics)
        self.traces = Traces(name, settings.otel_endpoint)
        self._stopping = asyncio.Event()
        self.pages: dict[str, health.Page] = {"/metrics": self._exposed}
        self.branches: dict[str, health.Branch] = {}
        self._live = health.Checks()
        self._ready = health.Checks()
        self._started = asyncio.Event()
        self._ready.add("started", lambda: None if self._started.is_set() else "what it needs is not all there yet")
        self._ready.add("stopping", lambda: "the process is stopping" if self._stopping.is_set() else None)
        self._needed: list[Informer[Any]] = []
        self._watched: Counter[ResourceType] = Counter()
        self._recorder: EventRecorder | None = None
        self._client: Client | None = None
        self._resources = AsyncExitStack()
        self._supervisor = Supervisor()
        self._spawned = False

    @property
    def is_stopping(self) -> bool:
        """Whether the service was asked to stop."""
        return self._stopping.is_set()

    async def forever(self) -> None:
        """Wait until the service stops, which cancels this call after all spawned tasks have ended.

        The code that follows in a `finally`, or behind an `async with`, is not interrupted before the time for stopping is over.
        """
        await asyncio.Event().wait()

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `coroutine` while the service runs. If it ends or raises before the service stops, the process ends with a clear
        message.
        """
        self._spawned = True
        return self._supervisor.spawn(name, coroutine)

    def add_check(self, name: str, check: health.Check) -> None:
        """Add a liveness check, which returns None, or why the process should be restarted."""
        self._live.add(name, check)

    def add_ready(self, name: str, check: health.Check) -> None:
        """Add a readiness check, which returns None, or why the process cannot work now."""
        self._ready.add(name, check)

    def record_events(self, client: Client, component: str) -> EventRecorder:
        """Return the event recorder of this service, which sends until the service ends.

        The recorder also records Events on objects that cannot be decoded.
        """
        self._recorder = EventRecorder(client, component)
        self.spawn("events", self._recorder.run())
        return self._recorder

    def watch(self, informer: Informer[Any], *, is_needed: bool = True) -> None:
        """Run an informer, with a liveness check of its progress. The process is ready when all needed informers have synced.

        `is_needed` is False for objects that a cluster may lack, or for which the service has its own readiness check.
        """
        informer.on_fault(partial(self._report_fault, informer.kind))
        self._watched[informer.kind] += 1
        number = self._watched[informer.kind]
        name = f"watch-{informer.kind.plural}" + (f"-{number}" if number > 1 else "")
        if is_needed:
            self._needed.append(informer)
            self.add_ready(name, lambda: None if informer.has_synced else f"{informer.kind.plural} are not listed yet")
        self.add_check(name, lambda: _overdue(informer))
        self.spawn(name, informer.run())

    async def synced(self) -> None:
        """Wait until all needed informers have synced; then the process is ready.

        The loaded objects are then exempt from garbage collection.
        """
        for informer in self._needed:
            await informer.synced()
        supervisor.freeze_loaded()
        self._started.set()

    async def client(self) -> Client:
        """Return a client of the API server that the settings name, once that server answers. The client is closed when the
        service ends.

        Raises ConfigError: the kubeconfig is invalid; `run_service` then ends the process with one line and status 2.
        """
        settings = self.settings
        config = load_config(settings.kubeconfig, master=settings.master)
        client = Client(
            config, qps=settings.kube_api_qps, burst=settings.kube_api_burst, user_agent=self.name, observer=self.observer
        )
        await self._resources.enter_async_context(client)
        answered = False
        self.add_ready("api-server", lambda: None if answered else f"{config.server} does not answer")
        await _wait_for(client)
        answered = True
        self._client = client
        return client

    async def run(self, main: Callable[[Service], Awaitable[None]]) -> None:
        """Run the service from the start of the event loop to its end.

        Raises TaskDied: a task ended unexpectedly; the cause is its exception.
        """
        async with self._resources:
            asked = self._resources.enter_context(stop_requested())
            await self._serve()
            self._supervisor.spawn("loop-lag", measure_lag(LoopMetrics(self.metrics).lag))
            work = self._supervisor.spawn("main", _as_coroutine(main(self)), may_return=True)
            try:
                await self._until_end(asked, work)
            finally:
                self._stopping.set()
                left = await self._supervisor.stop(self.settings.graceful_shutdown_time.total_seconds())
                if left:
                    log.error("service.stuck", tasks=left)
                self.traces.close()

    async def _exposed(self) -> tuple[str, bytes]:
        """Return all metrics, rendered in a thread, because the series of 10,000 Jobs would block the event loop for too long."""
        return metrics.CONTENT_TYPE, await asyncio.to_thread(metrics.render, self.metrics)

    async def _admit(self, authorization: str, path: str) -> tuple[int, str] | None:
        return await access.refusal(self._client, authorization, path)

    def _report_fault(self, kind: ResourceType, fault: Partial[Any] | Undecodable) -> None:
        if self._recorder is not None:
            metadata = fault.metadata
            about = Reference(kind.api_version, kind.kind, metadata.namespace, metadata.name, metadata.uid)
            action = "leaves this object out" if isinstance(fault, Undecodable) else "reads this object without these fields"
            self._recorder.event(about, "Warning", "Undecodable", f"{self.name} {action}: {fault.error}")

    async def _until_end(self, asked: asyncio.Future[None], work: asyncio.Task[None]) -> None:
        """Wait for a signal and the delay after it, for an unexpected end of a task, or for the end of `main` without spawned
        tasks.
        """
        waiting: set[asyncio.Future[Any]] = {asked, work, self._supervisor.died}
        while not asked.done():
            if self._supervisor.died.done():
                raise self._supervisor.died.result()
            if work in waiting and work.done():
                if not self._spawned:
                    log.info("service.stopping", reason="nothing left to do")
                    return
                waiting.discard(work)
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        log.info("service.stopping", reason="signal")
        self._stopping.set()
        if delay := self.settings.shutdown_delay_duration.total_seconds():
            await asyncio.wait({self._supervisor.died}, timeout=delay)

    async def _serve(self) -> None:
        settings = self.settings
        checks = {"healthz": self._live, "livez": self._live, "readyz": self._ready}
        if settings.enable_metrics:
            shared = settings.enable_healthz and settings.healthz_address == settings.metrics_listen_address
            await self._listen("listen-address", settings.metrics_listen_address, checks if shared else {}, self.pages)
            if shared:
                return
        if settings.enable_healthz:
            await self._listen("healthz-address", settings.healthz_address, checks, {}, self._health_tls())

    async def _listen(
        self,
        flag: str,
        address: str,
        checks: Mapping[str, health.Checks],
        pages: Mapping[str, health.Page],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        branches = self.branches if pages else {}
        listener = await health.serve(
            flag,
            address,
            checks,
            pages,
            tls,
            admit=self._admit,
            branches=branches,
            trusts_local=self.settings.trust_local_clients,
        )
        self._resources.push_async_callback(listener.stop)

    def _health_tls(self) -> ssl.SSLContext | None:
        files = (self.settings.tls_cert_file, self.settings.tls_private_key_file, self.settings.ca_cert_file)
        if not all(files):
            return None
        tls = ServingTls()
        followed = TlsFiles(tls, *map(Path, files))
        followed.load()
        self._supervisor.spawn("health-tls", followed.follow())
        return tls.context


def run_service(name: str, settings: ServiceSettings, main: Callable[[Service], Awaitable[None]]) -> int:
    """Run `main` as a service until SIGTERM, SIGINT or the unexpected end of a task; return the exit status.

    `main` sets up and spawns tasks, then returns or continues. When the service stops, `main` is cancelled after all spawned
    tasks, so resources that it has in `async with` outlive the tasks. If `main` returns without having spawned a task, the
    service ends.
    """
    logs.configure(settings.log_level, settings.log_format, service=name)
    # otherwise each call of a module's logger would create it anew, even to log nothing
    structlog.configure(cache_logger_on_first_use=True)

    async def everything() -> None:
        await Service(name, settings).run(main)

    supervisor.clean_up()
    try:
        with asyncio.Runner(loop_factory=_loop_factory(settings)) as runner:
            runner.run(everything())
    except TaskDied as died:
        return _died(name, died)
    except (StartFailure, ConfigError) as error:
        return _failed_to_start(name, error)
    return 0


def _died(name: str, died: TaskDied) -> int:
    match died.__cause__:
        case StartFailure() | ConfigError() as error:
            return _failed_to_start(name, error)
        case LeaseLost() as error:
            log.error("service.lease_lost", error=str(error))
        case error:
            log.critical("service.task_died", error=str(died), exc_info=error)
    return 1


def _failed_to_start(name: str, error: StartFailure | ConfigError) -> int:
    sys.stderr.write(f"{name}: {error}\n")
    return error.status if isinstance(error, StartFailure) else 2


def _loop_factory(settings: ServiceSettings) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if not settings.uvloop:
        return None
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work


def _overdue(informer: Informer[Any]) -> str | None:
    stalled = informer.stalled_for()
    return f"no progress for {stalled:.0f} s more than allowed" if stalled > WATCH_STALL_SECONDS else None


async def _wait_for(client: Client) -> None:
    """Return when the API server answers. The client logs once that there is no answer; this function logs error responses."""
    backoff = jittered_backoff(0.5, 5.0)
    complaint = ""
    while True:
        try:
            await client.request("GET", "/version", deadline=Deadline.after(5.0))
        except ConnectionFailed as error:
            log.debug("api_server.no_answer", error=str(error))
        except ApiError as error:
            if error.status < 500 and error.status != 401:
                return  # the server answers, although not this request
            if str(error) != complaint:
                complaint = str(error)
                log.warning("api_server.refuses", error=complaint)
        else:
            return
        await asyncio.sleep(backoff.next())
