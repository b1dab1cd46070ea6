"""Leadership: runs the work of a service while the service holds the Lease that its settings name.

While a program with the same task works, such as that of an installed Volcano, the service does nothing. A Lease shows that only
where the program elects a leader, which Volcano's chart switches off by default. So its Deployments count too, in all namespaces.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Self

import structlog

from pyroclast.api import keys
from pyroclast.api.records.meta import ObjectRecord, Wire
from pyroclast.api.types import DEPLOYMENTS, LEASES, Key
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.lease import LeaseLost
from pyroclast.kube.lease.record import LeaseView, Watcher
from pyroclast.kube.lease.shards import ShardLeases
from pyroclast.kube.watch.informer import Informer
from pyroclast.lifecycle.times import format_time
from pyroclast.runtime.settings import LeaderElectionSettings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

log = structlog.get_logger()


FREE_SECONDS: Final = 15.0
"""Seconds without a change after which a Lease counts as abandoned, if its own duration is not longer."""

LONG_AGO_SECONDS: Final = 120.0
"""Seconds: a Lease whose last renewal is older, by the clock of the API server, counts as abandoned at once."""

LOOK_SECONDS: Final = 5.0
LONGEST_PROBLEM: Final = 1024
STANDS_ASIDE: Final = (
    "pyroclast_stands_aside",
    "Whether another program does the work of this service, which therefore does nothing",
)


FOREIGN_MANAGERS: Final = frozenset({"vc-controller-manager", "vc-scheduler"})
"""The field managers of Volcano's programs, which write the same statuses as ours."""

FOREIGN_SECONDS: Final = 60.0
"""Seconds for which a write of another program shows that it works, and after which its last writes before our start are old."""


class ForeignWrites:
    """Writes of another program to objects that only we should write, such as one that runs outside of the cluster.

    A user cannot pretend them: only entries for the status count, which users may not write. `now`: seconds since the epoch by
    the clock of the API server.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since, self._seen, self._text = math.inf, -math.inf, ""
        self.changed = asyncio.Event()

    def begin(self) -> None:
        """Begin to lead. A program that has just been stopped may still have written a moment ago."""
        self._since = self._now() + (0.0 if self._text else FOREIGN_SECONDS)

    def notice(self, about: str, metadata: Mapping[str, Any]) -> str:
        """Look at the managed fields of the object `about` after our write. Return what is wrong; empty when nothing is."""
        for entry in metadata.get("managedFields") or ():
            manager, written = entry.get("manager"), entry.get("time")
            if manager not in FOREIGN_MANAGERS or entry.get("subresource") != "status" or not written:
                continue
            if datetime.fromisoformat(written).timestamp() >= self._since:
                self._seen = self._now()
                self._text = f"{manager} wrote the status of {about} at {written}; stop it, or uninstall Pyroclast"
                self.changed.set()
                return self._text
        return ""

    @property
    def holder(self) -> str:
        """What the last write was; empty when it was a minute ago, or when there was none."""
        return self._text if self._now() < self._seen + FOREIGN_SECONDS else ""


class Scale(Wire, frozen=True, kw_only=True):
    """The wanted number of pods of a Deployment."""

    replicas: int = 1


class Deployment(ObjectRecord, frozen=True, kw_only=True):
    """A Deployment, as far as it tells whether its program works."""

    spec: Scale = Scale()


class Predecessors:
    """Watches the Leases and Deployments of other programs for the same work, without ever writing them.

    `app`: the label `app` of the Deployments; those of Pyroclast have it too and do not count. `metrics`: where
    `pyroclast_stands_aside` is registered. Used as a context manager, which watches the Deployments.
    """

    def __init__(
        self,
        client: Client,
        leases: Sequence[Key],
        *,
        app: str = "",
        recorder: EventRecorder | None = None,
        metrics: CollectorRegistry | None = None,
        foreign: ForeignWrites | None = None,
    ) -> None:
        self._client, self._foreign = client, foreign
        self._leases = {key: Watcher(FREE_SECONDS) for key in leases}
        self._said = ""
        self._recorder = recorder
        selector = f"app={app},app.kubernetes.io/name!=pyroclast"
        self._deployments = Informer(client, DEPLOYMENTS, Deployment, label_selector=selector) if app else None
        self._changed = asyncio.Event() if foreign is None else foreign.changed
        self._tasks: list[asyncio.Task[None]] = []
        self._stands_aside = None
        if metrics is not None:
            from prometheus_client import Gauge  # noqa: PLC0415 - `pyroclast` imports this module and has no metrics

            self._stands_aside = Gauge(*STANDS_ASIDE, registry=metrics)

    async def __aenter__(self) -> Self:
        if self._deployments is not None:
            self._deployments.on_change(lambda _old, _new: self._changed.set())
            self._tasks.append(asyncio.create_task(self._deployments.run()))
            with contextlib.suppress(TimeoutError):  # without the right to list them, Leases alone count
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._deployments.synced()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def gone(self) -> None:
        """Wait until no such program works."""
        while holder := await self._holder():
            self._say("leading.waits_for_another", holder)
            self._show(1)
            await self._look_again()
        self._show(0)

    async def back(self) -> None:
        """Wait until such a program works, then raise LeaseLost."""
        while not (holder := await self._holder()):
            await self._look_again()
        self._show(1)
        raise LeaseLost(f"another program does our work: {holder}")

    async def _look_again(self) -> None:
        """Wait for a change of a Deployment, or until the Leases are due."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._changed.wait()

    def _show(self, value: int) -> None:
        if self._stands_aside is not None:
            self._stands_aside.set(value)

    async def _holder(self) -> str:
        """Return a description of a Deployment with replicas, or of a held Lease and its holder; empty when there is none."""
        if self._foreign is not None and (text := self._foreign.holder):
            return text
        for each in self._deployments.values() if self._deployments is not None else ():
            if each.spec.replicas:
                text = f"Deployment {each.key} has {each.spec.replicas} replicas; scale it to 0, or uninstall Pyroclast"
                if self._recorder is not None:
                    self._recorder.event(Reference.of(each, DEPLOYMENTS), "Warning", "AnotherProgramWorks", text)
                return text
        for key, watcher in self._leases.items():
            try:
                lease = LeaseView.of(await self._client.get(LEASES, key))
            except NotFound:
                continue
            except KubeError as error:
                self._say("leading.lease_unknown", f"lease {key}: {error}")
                continue
            if not watcher.is_free(lease, "", time.monotonic()) and not self._is_old(lease):
                return f"lease {key} is held by {lease.holder}"
        return ""

    def _is_old(self, lease: LeaseView) -> bool:
        renewed = str((lease.body.get("spec") or {}).get("renewTime") or "")
        try:
            return datetime.fromisoformat(renewed).timestamp() < self._client.now() - LONG_AGO_SECONDS
        except ValueError:
            return not lease.holder

    def _say(self, event: str, reason: str) -> None:
        if reason != self._said:
            self._said = reason
            log.warning(event, reason=reason)


def identity() -> str:
    """Return a unique name of this process: the host name and a random part."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Reports(Mapping[str, str]):
    """The annotations of a Lease in which its holder reports its version, and its problem since when; read at each renewal.

    `given`: further annotations. `find` returns the name of the check that fails and why; None while the service works well.
    """

    def __init__(
        self, given: Mapping[str, str] | None, find: Callable[[], tuple[str, str] | None], now: Callable[[], float]
    ) -> None:
        self._given = {**(given or {}), keys.SERVICE_VERSION: version("pyroclast"), keys.SERVICE_PROBLEM: ""}
        self._find, self._now = find, now
        self._since = ("", "")

    def __getitem__(self, name: str) -> str:
        return self._problem() if name == keys.SERVICE_PROBLEM else self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def _problem(self) -> str:
        found = self._find()
        if found is None:
            self._since = ("", "")
            return ""
        check, text = found
        if self._since[0] != check:
            self._since = (check, format_time(self._now()))
        return f"{check} {self._since[1]} {' '.join(text.split())}"[:LONGEST_PROBLEM]


def shard_leases(
    client: Client,
    settings: LeaderElectionSettings,
    recorder: EventRecorder | None = None,
    annotations: Mapping[str, str] | None = None,
) -> ShardLeases:
    """Return the Leases that the settings name. `annotations`: the annotations that the holder sets on them."""
    return ShardLeases(
        client,
        settings.leader_elect_resource_name,
        settings.lease_namespace,
        settings.leader_elect_identity or identity(),
        shards=settings.leader_elect_shards,
        lease_duration=settings.leader_elect_lease_duration.total_seconds(),
        renew_deadline=settings.leader_elect_renew_deadline.total_seconds(),
        retry_period=settings.leader_elect_retry_period.total_seconds(),
        recorder=recorder,
        annotations=annotations,
    )


async def lead(
    client: Client,
    settings: LeaderElectionSettings,
    work: Callable[[int], Awaitable[object]],
    recorder: EventRecorder | None = None,
    *,
    annotations: Mapping[str, str] | None = None,
    problem: Callable[[], tuple[str, str] | None] = lambda: None,
    metrics: CollectorRegistry | None = None,
    foreign: ForeignWrites | None = None,
) -> None:
    """Run `work(shard)` for each shard whose Lease is held; without leader election, for all shards at once.

    If the settings name Leases or Deployments of other programs with the same task, this function waits until none of these
    programs works. It stops when one works again, also when `foreign` shows that. `annotations`, `problem`: what the holder says
    on the Leases, see `Reports`. Raises LeaseLost: a Lease could not be renewed, or another program leads; `work` was cancelled.
    """

    async def elected(own: Client) -> None:
        if settings.leader_elect:
            await shard_leases(own, settings, recorder, Reports(annotations, problem, client.now)).run(work)
        else:
            await asyncio.gather(*(work(shard) for shard in range(settings.leader_elect_shards)))

    if not settings.leader_elect and not settings.leader_elect_wait_for_app:
        await elected(client)
        return
    async with client.apart() as own:  # no other request may delay a renewal
        if not settings.leader_elect_wait_for and not settings.leader_elect_wait_for_app:
            await elected(own)
            return
        leases, app = settings.predecessors, settings.leader_elect_wait_for_app
        async with Predecessors(own, leases, app=app, recorder=recorder, metrics=metrics, foreign=foreign) as predecessors:
            await predecessors.gone()
            if foreign is not None:
                foreign.begin()
            await _first_of(elected(own), predecessors.back())


async def _first_of(*works: Coroutine[object, object, None]) -> None:
    """Run `works` until one ends, and raise its error. The others are cancelled, and have ended."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()
