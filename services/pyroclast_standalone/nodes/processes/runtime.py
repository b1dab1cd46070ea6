"""Runs containers as processes of this machine. Each has a shim that survives this process, so that a restart finds it again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import structlog

from pyroclast.api.types import Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client
from pyroclast.lifecycle.gang import ends
from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.attaching import Attached, Streams
from pyroclast_standalone.nodes.capacity import Refusal
from pyroclast_standalone.nodes.environment import ConfigurationError, Place
from pyroclast_standalone.nodes.injections import of_pod
from pyroclast_standalone.nodes.lives import ContainerLife, Execution, PodLife, ProbeKind, ProbeResult, Trouble
from pyroclast_standalone.nodes.processes.launcher import Grant, Launcher, is_shim, variables_of
from pyroclast_standalone.nodes.processes.layout import Layout, Named, hosts_file, message_of, names_of, read, write_files
from pyroclast_standalone.nodes.processes.limits import Groups
from pyroclast_standalone.nodes.processes.machine import GPU, Devices, Machine
from pyroclast_standalone.nodes.processes.submitters import Account, Submitters
from pyroclast_standalone.nodes.runtime import LogLine, Workload, resolved_volumes, trouble_of, workload
from pyroclast_standalone.nodes.sources import Sources
from pyroclast_standalone.nodes.volumes import File


async def ask(probe: records.Probe, container_ports: Mapping[str, int], pod_ip: str) -> ProbeResult:
    """Run an `httpGet` or `tcpSocket` probe against the pod."""
    seconds = max(1, probe.timeout_seconds)
    if probe.http_get is not None:
        return await _http(probe.http_get, _port(probe.http_get, container_ports), pod_ip, seconds)
    target = probe.tcp_socket or probe.grpc or {}
    host = str(target.get("host") or pod_ip)
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, _port(target, container_ports))
        writer.close()
    except (OSError, TimeoutError) as error:
        return ProbeResult(ok=False, message=f"dial tcp {host}: {error or 'i/o timeout'}")
    return ProbeResult(ok=True)


async def _http(get: Mapping[str, Any], port: int, pod_ip: str, seconds: float) -> ProbeResult:
    scheme = str(get.get("scheme") or "HTTP").lower()
    url = f"{scheme}://{get.get('host') or pod_ip}:{port}/{str(get.get('path') or '').lstrip('/')}"
    headers = {str(header["name"]): str(header.get("value", "")) for header in get.get("httpHeaders") or ()}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session,
            session.get(url, headers=headers, ssl=False) as answer,
        ):
            if 200 <= answer.status < 400:
                return ProbeResult(ok=True)
            return ProbeResult(ok=False, message=f"HTTP probe failed with statuscode: {answer.status}")
    except (aiohttp.ClientError, TimeoutError) as error:
        return ProbeResult(ok=False, message=f'Get "{url}": {error or "context deadline exceeded"}')


def _port(target: Mapping[str, Any], ports: Mapping[str, int]) -> int:
    port = target.get("port")
    return ports.get(port, 0) if isinstance(port, str) and not port.isdigit() else int(port or 0)


log = structlog.get_logger()

_LOST_STATUS = 137  # of a container that ended while no process observed it
_REFRESH_SECONDS = 2.0
_STOP_SECONDS = 5.0


@dataclass(slots=True)
class _Pod:
    """A pod with running containers, as it was last seen."""

    pod: records.Pod
    place: Place
    account: Account | None = None
    executions: dict[tuple[str, int], Execution] = field(default_factory=dict)


class ProcessRuntime:
    """Runs real processes.

    Args:
        place: returns the place of a pod from the name of its node and its IP.
        root: the data directory.
        server: the URL of the API server, for the variables of pods.
        isolation: the result of `find_isolation`.
        machine: this machine, if its GPUs are allocated.
        groups: where control groups can be made. None where limits are not enforced.
        client: for pods that run under the accounts of those who submitted them.
    """

    def __init__(
        self,
        sources: Sources,
        place: Callable[[str, str], Place],
        root: Path,
        *,
        server: str,
        wake: Callable[[Key], None],
        isolation: str,
        now: Callable[[], float],
        machine: Machine | None = None,
        groups: Groups | None = None,
        client: Client | None = None,
    ) -> None:
        self._sources, self._place, self._wake, self._now = sources, place, wake, now
        self._layout = Layout(root.resolve())
        pods = self._layout.root / "pods"
        pods.mkdir(parents=True, exist_ok=True)
        pods.chmod(0o700)
        self._groups, self._submitters = groups, None if client is None else Submitters(client, pods)
        self._devices = None if machine is None else Devices(machine.gpus, pods)
        self._launcher = Launcher(self._layout, server, isolation, groups)
        self._pods: dict[str, _Pod] = {}
        self._watched: dict[int, subprocess.Popen[bytes] | None] = {}
        self._hooks: set[asyncio.Future[tuple[int, str]]] = set()

    async def refresh(self) -> None:
        """Update the volumes and hosts files of running pods until cancelled."""
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            for uid, known in list(self._pods.items()):
                try:
                    files = await resolved_volumes(known.pod, known.place, self._sources, with_tokens=True)
                except ConfigurationError:
                    continue  # files of deleted objects stay unchanged
                except KubeError as error:
                    log.warning("volumes.not_refreshed", pod=str(known.pod.key), error=str(error))
                    continue
                if uid in self._pods:
                    self._write_volumes(known, files)
            self._write_hosts()

    async def close(self) -> None:
        """End every container, because a stop of the nodes must also stop their processes.

        After `kill -9` the containers continue.
        """
        running = [(uid, name, attempt) for uid, known in self._pods.items() for name, attempt in known.executions]
        try:
            for signal_number in (signal.SIGTERM, signal.SIGKILL):
                for run in running:
                    self._signal(*run, signal_number)
                deadline = self._now() + _STOP_SECONDS
                while self._watched and self._now() < deadline:
                    await asyncio.sleep(0.05)
        finally:
            for descriptor, process in self._watched.items():  # shims that do not report the end, or have not begun yet
                self._unwatch(descriptor)
                if process is not None:
                    process.kill()
                    process.wait()
            self._watched.clear()
            if self._groups is not None:
                self._groups.remove()

    async def admit(self, pod: records.Pod) -> Refusal | None:
        """Return why nobody of this machine can be the one under whose account the pod runs."""
        return None if self._submitters is None else await self._submitters.admit(pod)

    def release(self, uid: str) -> None:
        """Free the GPUs of a pod that has ended."""
        if self._devices is not None:
            self._devices.release(uid)

    def sweep(self, pods: Mapping[str, bool]) -> None:
        """Remove what earlier processes left of pods that are gone, and free the GPUs of those that ended.

        `pods`: whether each existing pod, by UID, still runs.
        """
        for folder in list((self._layout.root / "pods").iterdir()):
            if not pods.get(folder.name, False):
                self.release(folder.name)
            if folder.name not in pods:
                log.info("pod.removed", uid=folder.name)
                for run in folder.glob("containers/*/*"):
                    self._signal(folder.name, run.parent.name, int(run.name), signal.SIGKILL)
                self._layout.forget(folder.name)
        if self._groups is not None:
            self._groups.sweep(lambda name: pods.get(name.partition("_")[0], False))

    async def start(self, pod: records.Pod, life: PodLife, container: ContainerLife) -> Execution:
        """Start the shim of a container, unless it was started already and only the pod's status was not written."""
        if self._layout.running(life.uid, container.name, container.restarts) is not None:
            return await self.resume(pod, life, container, self._now())
        place = self._place(pod.spec.node_name, life.pod_ip)
        known = self._pods.setdefault(life.uid, _Pod(pod, place))
        known.pod, known.place = pod, place
        grant = self._grant(known, container)
        if isinstance(grant, Trouble):
            return Execution(trouble=grant)
        try:
            files = await resolved_volumes(pod, place, self._sources, with_tokens=True)
            work = await workload(pod, container.spec, place, self._sources)
        except ConfigurationError as error:
            return Execution(trouble=trouble_of(error))
        if not work.argv:
            text = "process mode needs a command: there is no image to take one from"
            return Execution(trouble=Trouble("CreateContainerError", text))
        self._write_volumes(known, files)
        self._write_hosts()
        execution = Execution()
        known.executions[container.name, container.restarts] = execution
        folder = self._layout.run(life.uid, container.name, container.restarts)
        process = self._launcher.launch(pod, container.spec, work, folder, grant)
        self._watch(pod, container, process.pid, process)
        pause = 0.005  # while the machine has no time for the shim, the container waits, as for a busy kubelet
        while self._layout.running(life.uid, container.name, container.restarts) is None and process.poll() is None:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.2)
        self._take(pod.key, life.uid, container.name, container.restarts)
        self._arm(pod, life, container, self._now())
        return execution

    async def resume(self, pod: records.Pod, life: PodLife, container: ContainerLife, started_at: float) -> Execution:
        """Resume a container that an earlier process started."""
        place = self._place(pod.spec.node_name, life.pod_ip)
        known = self._pods.setdefault(life.uid, _Pod(pod, place))
        self._grant(known, container)
        execution = known.executions[container.name, container.restarts] = Execution(started_at)
        running = self._layout.running(life.uid, container.name, container.restarts)
        if running is not None and is_shim(running.shim):
            self._watch(pod, container, running.shim, None)
        self._take(pod.key, life.uid, container.name, container.restarts)
        self._arm(pod, life, container, started_at)
        return execution

    def _arm(self, pod: records.Pod, life: PodLife, container: ContainerLife, began: float) -> None:
        """Send the container the signal that its Job asks for before its end, unless the time for that is over."""
        found = ends.signal_of(pod.metadata.annotations, began)
        number = getattr(signal, f"SIG{found[1]}", None) if found is not None else None
        if found is not None and isinstance(number, signal.Signals) and (pause := found[0] - self._now()) > 0:
            run = life.uid, container.name, container.restarts
            asyncio.get_running_loop().call_later(pause, self._signal, *run, number)

    async def terminate(self, pod: records.Pod, life: PodLife, container: ContainerLife) -> None:
        """Run the preStop hook, then send SIGTERM to the container's processes."""
        hook = (container.spec.lifecycle or {}).get("preStop") or {}
        command = (hook.get("exec") or {}).get("command")
        if "sleep" in hook:
            command = ["sleep", str(hook["sleep"].get("seconds", 0))]
        attempt = container.restarts
        if not command:
            self._signal(life.uid, container.name, attempt, signal.SIGTERM)
            return
        seconds = pod.metadata.deletion_grace_period_seconds or pod.spec.termination_grace_period_seconds or 30
        hook_run = asyncio.ensure_future(self._run_once(pod, life, container, command, float(seconds)))
        self._hooks.add(hook_run)
        hook_run.add_done_callback(self._hooks.discard)
        hook_run.add_done_callback(lambda _: self._signal(life.uid, container.name, attempt, signal.SIGTERM))

    async def kill(self, pod: records.Pod, life: PodLife, container: ContainerLife) -> None:
        """Send SIGKILL to the processes of the container."""
        del pod
        self._signal(life.uid, container.name, container.restarts, signal.SIGKILL)

    async def probe(self, pod: records.Pod, life: PodLife, container: ContainerLife, kind: ProbeKind) -> ProbeResult:
        """Run a probe of the container once."""
        if of_pod(pod.metadata.annotations).fail_probe == kind:
            return ProbeResult(ok=False, message=f"{kind} probe fails by annotation")
        probe = container.spec.probe(kind) or records.Probe()
        if probe.exec is None:
            ports = {str(port.get("name")): int(port.get("containerPort") or 0) for port in container.spec.ports}
            return await ask(probe, ports, life.pod_ip)
        code, said = await self._run_once(
            pod, life, container, list(probe.exec.get("command") or ()), max(1, probe.timeout_seconds)
        )
        return ProbeResult(ok=code == 0, message="" if code == 0 else said or f"command exited with {code}")

    async def lines(
        self, pod: records.Pod, life: PodLife, container: ContainerLife, *, previous: bool
    ) -> Sequence[LogLine] | None:
        """Return the output of the container. None if there was no such run."""
        del pod
        attempt = container.restarts - (1 if previous and container.retry_at is None else 0)
        return self._layout.lines(life.uid, container.name, attempt) if attempt >= 0 else None

    async def forget(self, uid: str) -> None:
        """Kill the containers of a pod and remove its files."""
        known = self._pods.pop(uid, None)
        for name, attempt in known.executions if known is not None else ():
            self._signal(uid, name, attempt, signal.SIGKILL)
        self._sources.forget(uid)
        await asyncio.to_thread(self._layout.forget, uid)

    async def execute(
        self, pod: records.Pod, life: PodLife, container: ContainerLife, command: list[str], *, tty: bool
    ) -> Attached | None:
        """Start a command as if in the container, with a terminal or pipes."""
        folder, variables, grant = self._beside(pod, life, container, f"exec-{container.name}")
        streams = Streams.open(tty=tty)
        work = Workload(command, {**variables, **({"TERM": "xterm"} if tty else {})})
        try:
            process = self._launcher.launch(pod, container.spec, work, folder, grant, streams=streams)
        finally:
            for descriptor in set(streams.child):
                os.close(descriptor)

        def leader() -> int | None:
            state = read(folder / "state")
            return None if state is None else int(state["pid"])

        def code() -> int:
            outcome = read(folder / "exit") or {"code": _LOST_STATUS}
            shutil.rmtree(folder, ignore_errors=True)
            return int(outcome["code"])

        return Attached(streams, process, leader, code)

    def _beside(self, pod: records.Pod, life: PodLife, container: ContainerLife, name: str) -> tuple[Path, dict[str, str], Grant]:
        """Return the folder, the variables and the grant of a command that runs as if in the container.

        Raises ConfigurationError: the container has no grant any more.
        """
        folder = self._layout.pod(life.uid) / "once" / f"{name}-{self._now():.6f}"
        variables = variables_of(self._layout.run(life.uid, container.name, container.restarts))
        grant = self._grant(self._pods.get(life.uid) or _Pod(pod, self._place(pod.spec.node_name, life.pod_ip)), container)
        if isinstance(grant, Trouble):
            raise ConfigurationError(grant.message)
        return folder, variables, replace(grant, is_owner=False)

    async def _run_once(
        self, pod: records.Pod, life: PodLife, container: ContainerLife, command: list[str], seconds: float
    ) -> tuple[int, str]:
        """Run a command as if in the container. Return its exit status and last line."""
        try:
            folder, variables, grant = self._beside(pod, life, container, container.name)
        except ConfigurationError as error:
            return 1, str(error)
        process = self._launcher.launch(pod, container.spec, Workload(command, variables), folder, grant)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.to_thread(process.wait)
        except TimeoutError:
            if (state := read(folder / "state")) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(state["pid"], signal.SIGKILL)
            return 1, "command timed out"
        finally:
            printed = (folder / "log").read_bytes().splitlines() if (folder / "log").exists() else []
            said = printed[-1].partition(b" ")[2].decode(errors="replace") if printed else ""
            outcome = read(folder / "exit") or {"code": 1}
            shutil.rmtree(folder, ignore_errors=True)
        return int(outcome["code"]), said

    # Observation of shims

    def _watch(self, pod: records.Pod, container: ContainerLife, shim: int, process: subprocess.Popen[bytes] | None) -> None:
        descriptor = os.pidfd_open(shim)
        self._watched[descriptor] = process
        run = (pod.key, pod.metadata.uid, container.name, container.restarts)
        asyncio.get_running_loop().add_reader(descriptor, self._ended, descriptor, run)

    def _ended(self, descriptor: int, run: tuple[Key, str, str, int]) -> None:
        self._unwatch(descriptor)
        process = self._watched.pop(descriptor)
        if process is not None:
            process.wait()
        self._take(*run)
        self._wake(run[0])

    @staticmethod
    def _unwatch(descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)

    def _take(self, key: Key, uid: str, name: str, attempt: int) -> None:
        """Copy the state of a start from the disk to its execution."""
        known = self._pods.get(uid)
        execution = known.executions.get((name, attempt)) if known is not None else None
        if execution is None:
            return
        running = self._layout.running(uid, name, attempt)
        is_alive = running is not None and is_shim(running.shim)  # before the outcome, which a shim writes before it ends
        outcome = self._layout.outcome(uid, name, attempt)
        if running is not None:
            execution.started_at = running.started_at
        if outcome is not None:
            execution.ends_at, execution.exit_code, execution.reason = outcome.ended_at, outcome.code, outcome.reason
            execution.message = self._message(known.pod, uid, name, attempt, outcome.code) if known is not None else ""
        elif not is_alive:
            log.warning("container.lost", pod=str(key), container=name)
            execution.started_at = execution.started_at or self._now()
            execution.ends_at, execution.exit_code = self._now(), _LOST_STATUS

    def _message(self, pod: records.Pod, uid: str, name: str, attempt: int, exit_code: int) -> str:
        spec = next((each for each in (*pod.spec.init_containers, *pod.spec.containers) if each.name == name), None)
        if spec is None:
            return ""
        file = self._layout.run(uid, name, attempt) / "termination-log"
        return message_of(spec, file, exit_code, self._layout.lines(uid, name, attempt) or ())

    def _signal(self, uid: str, name: str, attempt: int, number: signal.Signals) -> None:
        running = self._layout.running(uid, name, attempt)
        if running is None or self._layout.outcome(uid, name, attempt) is not None or not is_shim(running.shim):
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, number)

    def _grant(self, known: _Pod, container: ContainerLife) -> Grant | Trouble:
        """Return the account, the GPUs and the control group of a container, or why it cannot have them."""
        uid, limits = known.pod.metadata.uid, container.spec.resources.limits
        if self._submitters is not None:
            account = self._submitters.account(uid)
            if isinstance(account, str):
                return Trouble("CreateContainerError", account)
            known.account = account
        group = "" if self._groups is None else f"{uid}_{container.name}_{container.restarts}"
        if self._devices is None:
            return Grant(known.account, group=group)
        gpus = self._devices.take(uid, container.name, int(limits.get(GPU, 0)))
        if gpus is None:
            return Trouble("CreateContainerError", f"the machine has no {limits[GPU]} free GPUs, although the node counted them")
        denied = tuple(gpu for gpu in self._devices.gpus if gpu not in gpus) if known.account else ()
        return Grant(known.account, tuple(gpus), denied, group)

    # Files

    def _write_volumes(self, known: _Pod, files: Mapping[str, Mapping[str, File]]) -> None:
        owner = None if known.account is None else (known.account.uid, known.account.gid)
        for name, content in files.items():
            write_files(self._layout.volume(known.pod.metadata.uid, name), content, owner)

    def _write_hosts(self) -> None:
        by_namespace: dict[str, list[Named]] = {}
        for known in self._pods.values():
            spec, metadata = known.pod.spec, known.pod.metadata
            hostname = spec.hostname or metadata.name
            named = names_of(known.place.pod_ip, hostname=hostname, subdomain=spec.subdomain, namespace=metadata.namespace)
            if named is not None:
                by_namespace.setdefault(metadata.namespace, []).append(named)
        for uid, known in self._pods.items():
            own = (known.place.pod_ip, (known.pod.spec.hostname or known.pod.metadata.name,))
            text = hosts_file(own, by_namespace.get(known.pod.metadata.namespace, ()), known.pod.spec.host_aliases)
            path = self._layout.pod(uid) / "hosts"
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text() != text:
                path.write_text(text)  # written in place: the file is bind-mounted, so its inode must stay the same
