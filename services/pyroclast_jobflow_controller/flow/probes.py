"""Runs the probes of waiting entries until they pass, and enqueues the flow when the result of a probe changes."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

import aiohttp
import structlog

from pyroclast.api import keys
from pyroclast.api.enums import PodPhase
from pyroclast.api.records import HttpGetProbe, Pod, reading
from pyroclast.api.types import PODS, Key
from pyroclast.kube.http.batches import SharedReads
from pyroclast.kube.http.client import Client
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.flow.facts import ProbeAnswer, ProbeRequest
from pyroclast.lifecycle.flow.sizes import shortened
from pyroclast.lifecycle.gang import members
from pyroclast.resources.backoff import Backoff
from pyroclast_jobflow_controller.flow.memory import FlowMemories
from pyroclast_jobflow_controller.settings import JobFlowSettings

log = structlog.get_logger()

_FIRST_PAUSE = 1.0
"""Seconds until a failed probe runs again. The pause doubles up to the period of the settings."""

_PODS_ARE_GOOD = 0.2
"""Seconds for which the listed pods of a target are reused by all entries that probe the target."""

_LONGEST_PROBLEM = 300
"""Most characters of a probe failure in a message: the paths come from users and the answers from pods."""


@dataclass(frozen=True, slots=True)
class ProbeKey:
    """Identifies the probes of one entry against one of its targets."""

    flow: Key
    entry: str
    target: str

    def __str__(self) -> str:
        return f"{self.flow}/{self.entry}/{self.target}"


@dataclass(slots=True)
class _Course:
    """The course of a probe. `passes` counts consecutive successes. `backoff` has the pauses until the next run."""

    request: ProbeRequest
    backoff: Backoff
    passes: int = 0


class ProbeController:
    """Runs probes, as many at the same time as the queue has workers. A probe that hangs ends after the timeout of the settings.

    `memories` stores the results. A flow is added to `flows` when its result changes. `queue` has the probes to run.
    """

    def __init__(
        self,
        client: Client,
        reach: Reach,
        memories: FlowMemories,
        *,
        flows: ShardedQueue[Key],
        queue: ShardedQueue[ProbeKey],
        settings: JobFlowSettings,
    ) -> None:
        self._client, self._reach, self._memories, self._flows, self._queue = client, reach, memories, flows, queue
        self._period = settings.probe_period.total_seconds()
        self._threshold = settings.probe_success_threshold
        self._asks_hosts = settings.probe_host_network
        clock = asyncio.get_running_loop().time
        self._pods: SharedReads[Key, list[Pod]] = SharedReads(self._running, clock, _PODS_ARE_GOOD)
        self._courses: dict[Key, dict[ProbeKey, _Course]] = {}

    def enqueue_all(self) -> None:
        """Do nothing: each flow requests its probes when it is reconciled."""

    def want(self, flow: Key, requests: Sequence[ProbeRequest]) -> None:
        """Replace the probes of a flow by `requests`."""
        before = self._courses.pop(flow, {})
        if not requests:
            return
        courses = self._courses[flow] = {}
        for request in requests:
            key = ProbeKey(flow, request.entry, request.target)
            known = before.get(key)
            courses[key] = (
                known if known is not None and known.request == request else _Course(request, Backoff(_FIRST_PAUSE, self._period))
            )
            if courses[key] is not known:
                self._queue.add(key)

    def clear(self, selected: Callable[[Key], bool]) -> None:
        """Remove the probes of all flows for which `selected` returns True."""
        for flow in [flow for flow in self._courses if selected(flow)]:
            del self._courses[flow]

    async def reconcile(self, key: ProbeKey) -> None:
        """Run the probes of `key` once."""
        course = self._courses.get(key.flow, {}).get(key)
        memory = self._memories.known(key.flow)
        if course is None or memory is None:
            return
        missing = shortened(await self._missing(key.flow.namespace, course.request), _LONGEST_PROBLEM)
        course.passes = 0 if missing else course.passes + 1
        passed = course.passes >= self._threshold
        answer = ProbeAnswer(passed, "" if passed else missing or f"passed {course.passes} of {self._threshold} times")
        if memory.take(course.request, answer):
            log.info("probe.answered", probe=str(key), passed=passed, reason=answer.message)
            self._flows.add(key.flow)
        if not passed:
            pause = course.backoff.next()
            self._queue.add_after(key, min(_FIRST_PAUSE, self._period) if course.passes else pause)

    async def _running(self, job: Key) -> list[Pod]:
        """List the running pods of the Job named `job`. A pod that does not run is never ready."""
        selector, running = f"{keys.JOB_NAME}={job.name}", f"status.phase={PodPhase.RUNNING}"
        items, _ = await self._client.list(PODS, job.namespace, label_selector=selector, field_selector=running)
        return [reading.convert(item, Pod) for item in items]

    async def _missing(self, namespace: str, request: ProbeRequest) -> str:
        """Return the failure of the first probe that does not pass. The text is empty when all probes pass."""
        for job in request.jobs:
            pods = [pod for pod in await self._pods.get(Key(namespace, job.name)) if members.owner_uid(pod) == job.uid]
            checks = [(http.task_name, partial(self._reach.get, probe=http)) for http in request.http]
            checks += [(tcp.task_name, partial(self._reach.connect, port=tcp.port)) for tcp in request.tcp]
            for task, check in checks:
                if problem := await self._at_pods(pods, task, check):
                    return problem
        return ""

    async def _at_pods(self, pods: Sequence[Pod], task: str, check: Callable[[str], Awaitable[str]]) -> str:
        """Probe all ready pods of a task, of which there must be at least one. An empty task name means all tasks.

        Return the first failure, or an empty text.
        """
        ready = [pod for pod in pods if task in ("", members.task_of(pod)) and _is_ready(pod)]
        if not ready:
            return f"no pod of task {task} is ready" if task else "no pod is ready"
        for pod in ready:
            if pod.spec.host_network and not self._asks_hosts:
                return f"pod {pod.metadata.name} is in the host network, which is probed only with --probe-host-network"
            if problem := await check(pod.status.pod_ip):
                return f"pod {pod.metadata.name}: {problem}"
        return ""


def _is_ready(pod: Pod) -> bool:
    if pod.metadata.is_terminating or not pod.status.pod_ip:
        return False
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)


class Reach:
    """Probes pods; an async context manager. Each result is the failure as a text, empty on success.

    `timeout`: the limit in seconds for a whole probe. `local`: whether loopback and link-local addresses are probed too. Pods
    that are processes of this machine have such addresses. On a cluster they would give access to services of the machine.
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
