"""Containers that are not run: how each goes is worked out from its command when it starts.

What depends on more than the command (files, variables, the node) is kept until the pod goes: a ConfigMap may go before it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from pyroclast_standalone.nodes import environment, records, volumes

from .environment import ConfigurationError, Place
from .injections import of_pod
from .lives import ContainerLife, Ending, Execution, PodLife, Trouble
from .logs import LogLine
from .probes import ProbeKind, ProbeResult
from .runtime import resolved_volumes, workload
from .shell.runs import Run, simulate
from .sources import Sources

__all__ = ["SimulatedRuntime"]

_OUTSIDE = re.compile(r"[$`<\[]|\b(cat|env|printenv|hostname|date|head|grep|wc|test)\b")  # depends on more than the words
_FILES = re.compile(r"[<\[]|\b(cat|head|grep|wc|test)\b")
_KILLED = 137  # 128 + SIGKILL
_MAX_PLAIN_RUNS = 1_000  # command lines remembered; jobs start hundreds of pods with the same one


class SimulatedRuntime:
    """A `Runtime` of virtual containers.

    Args:
        sources: reads ConfigMaps and Secrets.
        place: where a pod with this IP runs, by the name of its node and its IP.
        unknown_seconds: how long commands take that the simulation does not know.
        now: seconds since the epoch.
    """

    def __init__(
        self, sources: Sources, place: Callable[[str, str], Place], *, unknown_seconds: float, now: Callable[[], float]
    ) -> None:
        self._sources, self._place, self._now = sources, place, now
        self._unknown_seconds = unknown_seconds
        self._runs: dict[str, dict[tuple[str, float], Run]] = {}  # by uid of the pod: name of the container and start
        self._plain_run = functools.lru_cache(_MAX_PLAIN_RUNS)(self._simulate_plain)

    async def start(self, pod: records.Pod, life: PodLife, container: ContainerLife) -> Execution:
        """Work out how it will go."""
        started_at = self._now()
        try:
            if any(reference for reference in volumes.references(pod) if not reference.is_optional):
                await resolved_volumes(pod, self._place(pod.spec.node_name, life.pod_ip), self._sources)
            run = await self._run(pod, life, container.spec, started_at)
        except ConfigurationError as error:
            return Execution(trouble=Trouble("CreateContainerConfigError", str(error)))
        ends_at = None if run.seconds is None else started_at + run.seconds
        return Execution(started_at, ends_at, run.exit_code)

    async def resume(self, pod: records.Pod, life: PodLife, container: ContainerLife, started_at: float) -> Execution:
        """Work it out again; the start is known to the second."""
        try:
            run = await self._run(pod, life, container.spec, started_at)
        except ConfigurationError:
            return Execution(started_at)
        return Execution(started_at, None if run.seconds is None else started_at + run.seconds, run.exit_code)

    async def terminate(self, pod: records.Pod, life: PodLife, container: ContainerLife) -> None:
        """End it after its preStop hook, as its trap says."""
        execution = container.execution
        if execution is None:
            return
        stop = (await self._run(pod, life, container.spec, execution.started_at or self._now())).stop
        if stop is None:
            return
        ends_at = self._now() + _hook_seconds(container.spec) + stop.seconds
        if execution.ends_at is None or ends_at < execution.ends_at:
            execution.ends_at, execution.exit_code = ends_at, stop.exit_code

    async def kill(self, pod: records.Pod, life: PodLife, container: ContainerLife) -> None:
        """End it now."""
        del pod, life
        if container.execution is not None:
            container.execution.ends_at, container.execution.exit_code = self._now(), _KILLED
            if container.execution.started_at is None:
                container.execution.started_at = self._now()

    async def probe(self, pod: records.Pod, life: PodLife, container: ContainerLife, kind: ProbeKind) -> ProbeResult:
        """It succeeds, unless an annotation or the probe's own command says otherwise; and does so each time."""
        del life
        if of_pod(pod.metadata.annotations).fail_probe == kind:
            return ProbeResult(ok=False, message=f"{kind} probe fails by annotation", is_constant=True)
        spec = {
            ProbeKind.STARTUP: container.spec.startup_probe,
            ProbeKind.LIVENESS: container.spec.liveness_probe,
            ProbeKind.READINESS: container.spec.readiness_probe,
        }[kind]
        command = tuple((spec.exec or {}).get("command") or ()) if spec is not None else ()
        ok = not command or simulate(list(command), {}, read_file=lambda _: "").exit_code == 0
        return ProbeResult(ok=ok, message="" if ok else f"{command[0]}: exit status 1", is_constant=True)

    async def lines(
        self, pod: records.Pod, life: PodLife, container: ContainerLife, *, previous: bool
    ) -> Sequence[LogLine] | None:
        """What it has printed.

        Raises:
            ConfigurationError: it ran before the nodes were restarted, and what it read is gone since.
        """
        run = _run_of(container, previous=previous)
        if run is None:
            return None
        started_at, ended_at = run
        printed = (await self._run(pod, life, container.spec, started_at)).lines
        until = self._now() if ended_at is None else ended_at
        return [(started_at + after, line) for after, line in printed if started_at + after <= until]

    async def forget(self, uid: str) -> None:
        """Drop its runs and tokens."""
        self._runs.pop(uid, None)
        self._sources.forget(uid)

    async def _run(self, pod: records.Pod, life: PodLife, container: records.Container, started_at: float) -> Run:
        words = (*container.command, *container.args)
        if not words and _is_first(pod, container):
            return Run((), 0.0, 0)
        if not any(_OUTSIDE.search(word) for word in words):
            return self._plain_run(words)
        known, key = self._runs.setdefault(life.uid, {}), (container.name, started_at)
        if key not in known:
            known[key] = await self._worked_out(pod, life, container, started_at)
        return known[key]

    async def _worked_out(self, pod: records.Pod, life: PodLife, container: records.Container, started_at: float) -> Run:
        words = (*container.command, *container.args)
        place = self._place(pod.spec.node_name, life.pod_ip)
        reads_files = any(_FILES.search(word) for word in words)
        with_tokens = any(path in word for path in _token_paths(pod, container) for word in words)
        work = await workload(pod, container, place, self._sources, with_files=reads_files, with_tokens=with_tokens)

        def read(path: str) -> str | None:
            at = volumes.mounted(container, path)
            file = work.files.get(at[0], {}).get(at[1]) if at is not None else None
            return file.content.decode(errors="replace") if file is not None else None

        return simulate(work.argv, work.variables, read_file=read, unknown_seconds=self._unknown_seconds, now=started_at)

    def _simulate_plain(self, words: tuple[str, ...]) -> Run:
        return simulate([environment.expand(word, {}) for word in words], {}, unknown_seconds=self._unknown_seconds)


def _is_first(pod: records.Pod, container: records.Container) -> bool:
    """Whether the pod waits for the end of `container`: one without a command has done its work at once."""
    return container.restart_policy != "Always" and any(container.name == other.name for other in pod.spec.init_containers)


def _token_paths(pod: records.Pod, container: records.Container) -> list[str]:
    """Where volumes with tokens are mounted: a token is asked for only where the command reads there."""
    holders = {volume.get("name") for volume in pod.spec.volumes if volumes.tokens(volume)}
    return [mount.mount_path for mount in container.volume_mounts if mount.name in holders]


def _run_of(container: ContainerLife, *, previous: bool) -> tuple[float, float | None] | None:
    """Start and end of the run whose log is meant."""
    ending: Ending | None = container.ending
    if previous:
        ending = container.last if container.last is not None or container.retry_at is None else container.ending
    elif container.execution is not None and container.execution.started_at is not None:
        return container.execution.started_at, None
    return (ending.started_at, ending.finished_at + 1.0) if ending is not None else None


def _hook_seconds(container: records.Container) -> float:
    """How long the preStop hook takes."""
    hook = (container.lifecycle or {}).get("preStop") or {}
    if "sleep" in hook:
        return float(hook["sleep"].get("seconds") or 0)
    command = (hook.get("exec") or {}).get("command")
    return simulate(list(command), {}).seconds or 0.0 if command else 0.0
