"""Maps changes in the cluster to the flows that must be reconciled, also over the probes of entries."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from types import TracebackType
from typing import Final, Self

import aiohttp

from pyroclast.api.enums import FlowPhase, JobPhase
from pyroclast.api.records import HttpGetProbe, Job, JobFlow, JobTemplate
from pyroclast.api.types import Key
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.flow.jobs import flows_of
from pyroclast_jobflow_controller.caches import TEMPLATE, Shared
from pyroclast_jobflow_controller.flow.memory import FlowMemories, FlowMemory


class Reach:
    """Probes pods; an async context manager. Each result is the failure as a text, empty on success.

    Args:
        timeout: the limit in seconds for a whole probe.
        local: whether loopback and link-local addresses are probed too. Pods that are processes of this machine have such
            addresses. On a cluster they would give access to services of the machine itself.
    """

    def __init__(self, timeout: float, *, local: bool = False) -> None:
        self._timeout, self._local = timeout, local
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        limit = aiohttp.ClientTimeout(total=self._timeout)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self._session = aiohttp.ClientSession(timeout=limit, connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, ip: str, probe: HttpGetProbe) -> str:
        """Send a GET request. A status from 200 to 399 is a success.

        Redirections are not followed and the body is not read.
        """
        problem = self._forbidden(ip)
        if problem or self._session is None:
            return problem or "probes are not running"
        host = f"[{ip}]" if ":" in ip else ip
        path = probe.path if probe.path.startswith("/") else f"/{probe.path}"
        url = f"http://{host}:{probe.port}{path}"
        headers = {probe.http_header.name: probe.http_header.value} if probe.http_header is not None else {}
        try:
            async with self._session.get(url, headers=headers, allow_redirects=False) as answer:
                return "" if 200 <= answer.status < 400 else f"{url} answered {answer.status}"
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            return f"{url}: {_words(error)}"

    async def connect(self, ip: str, port: int) -> str:
        """Open a TCP connection. A connection that the pod accepts is a success."""
        problem = self._forbidden(ip)
        if problem:
            return problem
        try:
            async with asyncio.timeout(self._timeout):
                _, writer = await asyncio.open_connection(ip, port)
        except (OSError, OverflowError, TimeoutError) as error:
            return f"{ip} port {port}: {_words(error)}"
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):  # the connection was accepted, so an error on closing does not matter
            async with asyncio.timeout(self._timeout):
                await writer.wait_closed()
        return ""

    def _forbidden(self, ip: str) -> str:
        """Return the reason why the address is not probed. The text is empty when the address is allowed."""
        try:
            address = ipaddress.ip_address(ip)
        except ValueError:
            return f'"{ip}" is no address'
        mapped = getattr(address, "ipv4_mapped", None) or address
        if mapped.is_multicast or mapped.is_unspecified:
            return f"{ip} is not the address of a pod"
        if (mapped.is_loopback or mapped.is_link_local) and not self._local:
            return f"{ip} is a local address, which is probed only with --probe-local-addresses"
        return ""


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


_DEBOUNCE: Final = 0.02
"""Seconds during which changes of a flow's Jobs are collected before the flow is reconciled."""

_PER_ENTRY: Final = 0.0005
"""Further seconds for each entry of the flow, because the reconcile of a large flow takes longer."""

_UNHURRIED: Final = 4
"""The factor on the pause per entry for changes that normally start no Job, such as those of an unfinished Job."""


class FlowWatch:
    """Enqueues the keys of flows, and keeps deleted Jobs that had ended."""

    def __init__(self, shared: Shared, queue: ShardedQueue[Key], memories: FlowMemories) -> None:
        self._caches = shared.caches
        self._queue, self._memories = queue, memories
        shared.caches.flows.informer.on_change(self._flow)
        shared.caches.templates.on_change(self._template)
        shared.caches.jobs.informer.on_change(self._job)

    def _flow(self, old: JobFlow | None, new: JobFlow | None) -> None:
        flow = new or old
        if flow is None:
            return
        memory = self._memories.known(flow.key)
        if new is not None and memory is not None and memory.written == new.metadata.resource_version:
            return  # the watch event of our own write
        self._queue.add(flow.key)

    def _template(self, old: JobTemplate | None, new: JobTemplate | None) -> None:
        """Enqueue the flows that use a template after the template was created or changed."""
        if new is not None and (old is None or old.spec != new.spec):
            for flow in self._caches.flows.informer.by_index(TEMPLATE, str(new.key)):
                if (memory := self._memories.known(flow.key)) is not None:
                    memory.forget_refusals()
                self._queue.add(flow.key)

    def _job(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        if job is None or (old is not None and new is not None and _looks_the_same(old, new)):
            return
        for key in flows_of(job):
            memory = self._memories.known(key)
            if old is None and memory is not None and _is_echo(memory, job):
                continue  # the reconcile that created the Job knows it already
            if new is None and memory is not None and _ended_for(memory, job):
                memory.ghosts[job.metadata.name] = job
            self._queue.add_after(key, self._delay(key, memory, is_urgent=new is None or new.status.state.phase.is_finished))

    def _delay(self, key: Key, memory: FlowMemory | None, *, is_urgent: bool) -> float:
        """Return the seconds until a flow is reconciled after a change of a Job.

        A change that starts no Job only affects the status, so the flow waits until its status may be written again.
        """
        if memory is None:
            return _DEBOUNCE
        nodes = len(memory.graph.nodes)
        if is_urgent:
            return _DEBOUNCE + nodes * _PER_ENTRY
        delay = _DEBOUNCE + nodes * _PER_ENTRY * _UNHURRIED
        flow = self._caches.flows.get(key)
        is_running = flow is not None and flow.status.state.phase is FlowPhase.RUNNING
        return max(delay, memory.pace.wait()) if is_running and not memory.graph.follows_progress else delay


def _is_echo(memory: FlowMemory, job: Job) -> bool:
    """Whether the event announces a Job that was just created for the flow. Only this controller creates such Jobs."""
    owner = job.metadata.controller
    return owner is not None and owner.uid == memory.uid and job.status.state.phase is JobPhase.NEW


def _ended_for(memory: FlowMemory, job: Job) -> bool:
    """Whether `job` belonged to the flow and had ended."""
    owner = job.metadata.controller
    return owner is not None and owner.uid == memory.uid and job.status.state.phase.is_finished


def _looks_the_same(old: Job, new: Job) -> bool:
    """Whether no field changed that the flow depends on."""
    before, after = old.metadata, new.metadata
    return (
        old.status == new.status
        and before.uid == after.uid
        and before.labels == after.labels
        and before.owner_references == after.owner_references
        and before.is_terminating == after.is_terminating
    )
