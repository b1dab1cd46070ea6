"""Simulated containers: the run of each container is computed from its command when it starts.

A run that depends on variables is cached until the pod is deleted, as a ConfigMap may be deleted earlier.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from pyroclast_standalone.nodes import environment, records, volumes
from pyroclast_standalone.nodes.attaching import Attached
from pyroclast_standalone.nodes.environment import ConfigurationError, Place
from pyroclast_standalone.nodes.injections import of_pod
from pyroclast_standalone.nodes.lives import ContainerLife, Ending, Execution, PodLife, ProbeKind, ProbeResult
from pyroclast_standalone.nodes.runtime import LogLine, resolved_volumes, trouble_of, workload
from pyroclast_standalone.nodes.shell import TERMINATED, Run, simulate
from pyroclast_standalone.nodes.sources import Sources

_KILLED = 137  # 128 + SIGKILL
_MAX_PLAIN_RUNS = 1_000  # cached command lines; Jobs start hundreds of pods with the same command


class SimulatedRuntime:
    """Runs simulated containers.

    `place` returns the place of a pod from the name of its node and its IP. Unknown commands take `unknown_seconds`.
    """

    def __init__(
        self, sources: Sources, place: Callable[[str, str], Place], *, unknown_seconds: float, now: Callable[[], float]
    ) -> None:
        self._sources, self._place, self._now = sources, place, now
        self._unknown_seconds = unknown_seconds
        self._runs: dict[str, dict[tuple[str, float], Run]] = {}  # by UID of the pod: by name of the container and start time
        self._plain_run = functools.lru_cache(_MAX_PLAIN_RUNS)(self._simulate_plain)

    async def start(self, pod: records.Pod, life: PodLife, container: ContainerLife) -> Execution:
        """Compute when and how the run of the container will end."""
        started_at = self._now()
        try:
            place = self._place(pod.spec.node_name, life.pod_ip)
            if not all(reference.is_optional for reference in volumes.references(pod)):
                await resolved_volumes(pod, place, self._sources)
            if not all(reference.is_optional for reference in environment.references(pod, container.spec)):
                await workload(pod, container.spec, place, self._sources)
            run = await self._run(pod, life, container.spec, started_at)
        except ConfigurationError as error:
            return Execution(trouble=trouble_of(error))
        ends_at = None if run.seconds is None else started_at + run.seconds
        return Execution(started_at, ends_at, run.exit_code)

    async def resume(self, pod: records.Pod, life: PodLife, container: ContainerLife, started_at: float) -> Execution:
        """Compute the run again. The start time is known to the second."""
        try:
            run = await self._run(pod, life, container.spec, started_at)
        except ConfigurationError:
            return Execution(started_at)
        return Execution(started_at, None if run.seconds is None else started_at + run.seconds, run.exit_code)

    async def terminate(self, pod: records.Pod, life: PodLife, container: ContainerLife) -> None:
        """End the container after its preStop hook, as its trap determines."""
        execution = container.execution
        if execution is None:
            return
        try:
            stop = (await self._run(pod, life, container.spec, execution.started_at or self._now())).stop
        except ConfigurationError:  # an object was deleted since, and the nodes were restarted: the trap, if any, is unknown
            stop = TERMINATED
        if stop is None:
            return
        ends_at = self._now() + _hook_seconds(container.spec) + stop.seconds
        if execution.ends_at is None or ends_at < execution.ends_at:
            execution.ends_at, execution.exit_code = ends_at, stop.exit_code

    async def kill(self, pod: records.Pod, life: PodLife, container: ContainerLife) -> None:
        """End the run of the container now."""
        del pod, life
        if container.execution is not None:
            container.execution.ends_at, container.execution.exit_code = self._now(), _KILLED
            if container.execution.started_at is None:
                container.execution.started_at = self._now()

    async def probe(self, pod: records.Pod, life: PodLife, container: ContainerLife, kind: ProbeKind) -> ProbeResult:
        """Return success, unless an annotation or the probe's own command determines a failure. The result is constant."""
        del life
        if of_pod(pod.metadata.annotations).fail_probe == kind:
            return ProbeResult(ok=False, message=f"{kind} probe fails by annotation", is_constant=True)
        spec = container.spec.probe(kind)
        command = tuple((spec.exec or {}).get("command") or ()) if spec is not None else ()
        ok = not command or simulate(list(command), {}).exit_code == 0
        return ProbeResult(ok=ok, message="" if ok else f"{command[0]}: exit status 1", is_constant=True)

    async def lines(
        self, pod: records.Pod, life: PodLife, container: ContainerLife, *, previous: bool
    ) -> Sequence[LogLine] | None:
        """Return the output of the container.

        Raises ConfigurationError: the container ran before a restart of the nodes, and an object that it read was deleted since.
        """
        run = _run_of(container, previous=previous)
        if run is None:
            return None
        started_at, ended_at = run
        printed = (await self._run(pod, life, container.spec, started_at)).lines
        until = self._now() if ended_at is None else ended_at
        return [(started_at + after, line) for after, line in printed if started_at + after <= until]

    async def admit(self, pod: records.Pod) -> None:
        """Accept every pod: a simulated one needs nothing of this machine."""

    def release(self, uid: str) -> None:
        """Do nothing, for the same reason."""

    async def execute(
        self, pod: records.Pod, life: PodLife, container: ContainerLife, command: list[str], *, tty: bool
    ) -> Attached | None:
        """Return None: nothing runs here."""
        del pod, life, container, command, tty
        return None

    async def forget(self, uid: str) -> None:
        """Remove the pod's runs and tokens."""
        self._runs.pop(uid, None)
        self._sources.forget(uid)

    async def _run(self, pod: records.Pod, life: PodLife, container: records.Container, started_at: float) -> Run:
        words = (*container.command, *container.args)
        if not words and _is_first(pod, container):
            return Run((), 0.0, 0)
        if not any("$" in word for word in words):
            return self._plain_run(words)
        known, key = self._runs.setdefault(life.uid, {}), (container.name, started_at)
        if key not in known:
            known[key] = await self._worked_out(pod, life, container)
        return known[key]

    async def _worked_out(self, pod: records.Pod, life: PodLife, container: records.Container) -> Run:
        place = self._place(pod.spec.node_name, life.pod_ip)
        work = await workload(pod, container, place, self._sources)
        return simulate(work.argv, work.variables, unknown_seconds=self._unknown_seconds)

    def _simulate_plain(self, words: tuple[str, ...]) -> Run:
        return simulate([environment.expand(word, {}) for word in words], {}, unknown_seconds=self._unknown_seconds)


def _is_first(pod: records.Pod, container: records.Container) -> bool:
    """Return whether the pod waits for the end of `container`. Such a container without a command ends at once."""
    return container.restart_policy != "Always" and any(container.name == other.name for other in pod.spec.init_containers)


def _run_of(container: ContainerLife, *, previous: bool) -> tuple[float, float | None] | None:
    """Return the start and end of the run whose log is requested."""
    ending: Ending | None = container.ending
    if previous:
        ending = container.last if container.last is not None or container.retry_at is None else container.ending
    elif container.execution is not None and container.execution.started_at is not None:
        return container.execution.started_at, None
    return (ending.started_at, ending.finished_at + 1.0) if ending is not None else None


def _hook_seconds(container: records.Container) -> float:
    """Return the duration of the preStop hook in seconds."""
    hook = (container.lifecycle or {}).get("preStop") or {}
    if "sleep" in hook:
        return float(hook["sleep"].get("seconds") or 0)
    command = (hook.get("exec") or {}).get("command")
    return simulate(list(command), {}).seconds or 0.0 if command else 0.0
