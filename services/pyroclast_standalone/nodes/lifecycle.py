"""Decides the next actions of a pod from its spec, the state of its containers, and the time. No I/O and no clock of its own.

A life cannot be planned ahead, because annotations, probes and deletions change it at any time. So `advance` looks at the pod
anew at every event and at `life.wake_at`. It compares the times in `life` with now, and returns what is due. A second call at
the same time returns nothing, so callers repeat it until then. A life can be restored from the pod's status in the API:
restarted nodes neither lose nor repeat a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.resources.backoff import Backoff
from pyroclast_standalone import times
from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.injections import Injection
from pyroclast_standalone.nodes.lives import (
    AskProbe,
    ContainerLife,
    Effect,
    Ending,
    Kill,
    Phase,
    PodLife,
    ProbeKind,
    ProbeState,
    Role,
    Start,
    Stopping,
    Terminate,
    Trouble,
    Verdict,
    born,
)

_DEFAULT_GRACE_SECONDS = 30
_STABLE_SECONDS = 600.0  # after this running time, a container's back-off starts again
_TROUBLE_SECONDS = 2.0  # pause before a failed start is tried again
_PULL_BACKOFF_SECONDS = 10.0  # ErrImagePull becomes ImagePullBackOff


def seconds_before(restart: int, backoff: Backoff) -> float:
    """Return the seconds before restart number `restart`, from 1: none before the first restart."""
    return 0.0 if restart <= 1 else backoff.after(restart - 2)


def grace_seconds(pod: records.Pod) -> int:
    """Return the seconds between SIGTERM and SIGKILL for the pod's containers."""
    asked = pod.metadata.deletion_grace_period_seconds
    if asked is None:
        asked = pod.spec.termination_grace_period_seconds
    return _DEFAULT_GRACE_SECONDS if asked is None else asked


def advance(pod: records.Pod, life: PodLife, now: float, injection: Injection, backoff: Backoff) -> list[Effect]:
    """Update `life` to the time `now`. Return the effects to carry out. Call again until the result is empty.

    Afterwards `life.wake_at` is the time of the next call without any event. `life.may_be_deleted` is true when the object can be
    removed.
    """
    return _Step(pod, life, now, injection, backoff).take()


class _Step:
    def __init__(self, pod: records.Pod, life: PodLife, now: float, injection: Injection, backoff: Backoff) -> None:
        self._pod, self._life, self._now, self._injection, self._backoff = pod, life, now, injection, backoff
        self._effects: list[Effect] = []

    def take(self) -> list[Effect]:
        life = self._life
        life.wake_at = None
        if not life.phase.is_over:
            for container in life.containers:
                self._observe(container)
            self._begin_stopping()
            if life.stopping is None:
                self._run()
            if life.stopping is not None:
                self._stop(life.stopping)
        life.may_be_deleted = (
            life.phase.is_over and self._pod.metadata.deletion_timestamp is not None and not self._injection.stuck_terminating
        )
        return self._effects

    def _wake(self, when: float) -> None:
        if self._life.wake_at is None or when < self._life.wake_at:
            self._life.wake_at = when

    # State changes of the containers

    def _observe(self, container: ContainerLife) -> None:
        execution = container.execution
        if execution is None:
            return
        if execution.trouble is not None:
            container.trouble, container.execution = execution.trouble, None
            container.retry_at = self._now + _TROUBLE_SECONDS
            return
        if execution.started_at is None:
            return
        container.trouble = None
        ends_at, exit_code, is_injected = self._end(container, execution.started_at)
        if ends_at is None or ends_at > self._now:
            if ends_at is not None:
                self._wake(ends_at)
            self._probe(container, execution.started_at)
            return
        if is_injected and (execution.ends_at is None or execution.ends_at > self._now):
            self._effects.append(Kill(container.name))
        reason = "Completed" if exit_code == 0 else execution.reason or "Error"
        container.ending = Ending(exit_code, execution.started_at, ends_at, reason, execution.message)
        container.execution = None
        container.probes = {}
        container.terminating_since, container.is_killed = None, False

    def _end(self, container: ContainerLife, started_at: float) -> tuple[float | None, int, bool]:
        """Return when the run ends, with which code, and whether an annotation determines that."""
        execution = container.execution
        assert execution is not None  # noqa: S101 - the caller has checked
        asked = None if container.role is not Role.MAIN else self._injection.ending(container.name, container.restarts)
        if asked is None or container.terminating_since is not None:
            return execution.ends_at, execution.exit_code, False
        after, exit_code = asked
        if after is None:
            return execution.ends_at, exit_code, False
        ends_early = execution.ends_at is not None and execution.ends_at < started_at + after
        if ends_early and self._injection.run_for is None:
            return execution.ends_at, execution.exit_code, False
        return started_at + after, exit_code, True

    def _probe(self, container: ContainerLife, started_at: float) -> None:
        spec = container.spec
        if not container.probes and spec.startup_probe is not None:
            container.probes[ProbeKind.STARTUP] = ProbeState.begin(ProbeKind.STARTUP, spec.startup_probe, started_at)
        startup = container.probes.get(ProbeKind.STARTUP)
        if startup is None or startup.verdict is Verdict.SUCCESS:
            since = started_at if startup is None else self._now
            for kind in (ProbeKind.LIVENESS, ProbeKind.READINESS):
                if (probe := spec.probe(kind)) is not None and kind not in container.probes:
                    container.probes[kind] = ProbeState.begin(kind, probe, since)
        for kind, state in container.probes.items():
            if state.next_at is None or state.is_asked or container.terminating_since is not None:
                continue
            if state.next_at <= self._now:
                state.is_asked = True
                self._effects.append(AskProbe(container.name, kind))
            else:
                self._wake(state.next_at)
        if any(state.verdict is Verdict.FAILURE and state.kind is not ProbeKind.READINESS for state in container.probes.values()):
            self._terminate(container, self._now + grace_seconds(self._pod))

    # Running

    def _run(self) -> None:
        if not self._may_start():
            return
        life = self._life
        for container in life.of_role(Role.INIT, Role.SIDECAR):
            if container.role is Role.INIT and container.ending is not None and container.ending.exit_code == 0:
                continue
            if self._is_final(container):
                life.stopping = Stopping(self._now + grace_seconds(self._pod))
                return
            self._start_when_due(container)
            if container.role is Role.INIT or not container.is_started:
                return
        mains = life.of_role(Role.MAIN)
        if all(self._is_final(container) for container in mains):
            life.stopping = Stopping(self._now + grace_seconds(self._pod))
            return
        for container in mains:
            if not self._is_final(container):
                self._start_when_due(container)
        if any(container.execution and container.execution.started_at is not None for container in mains):
            life.phase = Phase.RUNNING

    def _may_start(self) -> bool:
        delayed_until = self._life.accepted_at + self._injection.start_delay
        if self._now < delayed_until:
            self._wake(delayed_until)
            return False
        if self._injection.image_pull_fails:
            failing_since = self._life.accepted_at + self._injection.start_delay
            is_new = self._now < failing_since + _PULL_BACKOFF_SECONDS
            if is_new:
                self._wake(failing_since + _PULL_BACKOFF_SECONDS)
            for container in self._life.containers:
                if not container.is_alive and container.ending is None:
                    container.trouble = _pull_trouble(container.spec.image, is_new=is_new)
            return any(container.is_alive for container in self._life.containers)
        return True

    def _is_final(self, container: ContainerLife) -> bool:
        """Return whether the container has ended and will not restart."""
        if container.ending is None:
            return False
        policy = self._pod.spec.restart_policy
        match container.role:
            case Role.SIDECAR:
                return False
            case Role.INIT:
                return policy == "Never" or container.ending.exit_code == 0
            case Role.MAIN:
                return policy == "Never" or (policy == "OnFailure" and container.ending.exit_code == 0)

    def _start_when_due(self, container: ContainerLife) -> None:
        if container.is_alive:
            return
        ending = container.ending
        if ending is not None and container.retry_at is None:
            if ending.finished_at - ending.started_at >= _STABLE_SECONDS:
                container.retry_at = ending.finished_at
            else:
                container.retry_at = ending.finished_at + seconds_before(container.restarts + 1, self._backoff)
        if container.retry_at is not None and container.retry_at > self._now:
            self._wake(container.retry_at)
            return
        container.retry_at = None
        if ending is not None:
            container.last, container.ending = ending, None
            container.restarts += 1
        self._effects.append(Start(container.name))

    # Stopping

    def _begin_stopping(self) -> None:
        pod, life, now = self._pod, self._life, self._now
        deleted_at = times.epoch(pod.metadata.deletion_timestamp)
        if deleted_at is not None:
            if life.stopping is None:
                life.stopping = Stopping(deleted_at)
            life.stopping.kill_at = min(life.stopping.kill_at, deleted_at)
        if life.stopping is not None:
            return
        kill_at = now + grace_seconds(pod)
        if pod.spec.active_deadline_seconds is not None:
            deadline = life.accepted_at + pod.spec.active_deadline_seconds
            if now >= deadline:
                message = "Pod was active on the node longer than the specified deadline"
                life.stopping = Stopping(kill_at, "DeadlineExceeded", message)
                return
            self._wake(deadline)
        if self._injection.evict_after is not None:
            evicted_at = life.accepted_at + self._injection.evict_after
            if now >= evicted_at:
                life.stopping = Stopping(now, "Evicted", "The node had condition: [MemoryPressure]. ")
                return
            self._wake(evicted_at)

    def _stop(self, stopping: Stopping) -> None:
        life = self._life
        alive = [container for container in life.containers if container.is_alive]
        if self._injection.stuck_terminating and self._pod.metadata.deletion_timestamp is not None:
            return
        for container in alive:
            self._terminate(container, stopping.kill_at)
        if alive:
            return
        mains = life.of_role(Role.MAIN)
        went_well = all(container.ending is not None and container.ending.exit_code == 0 for container in mains)
        life.phase = Phase.SUCCEEDED if went_well and not stopping.reason else Phase.FAILED
        life.reason, life.message = stopping.reason, stopping.message
        for container in life.containers:
            container.trouble = container.retry_at = None

    def _terminate(self, container: ContainerLife, kill_at: float) -> None:
        if container.terminating_since is None:
            container.terminating_since = self._now
            self._effects.append(Terminate(container.name))
        if self._now < kill_at:
            self._wake(kill_at)
        elif not container.is_killed:
            container.is_killed = True
            self._effects.append(Kill(container.name))


def _pull_trouble(image: str, *, is_new: bool) -> Trouble:
    if is_new:
        return Trouble("ErrImagePull", f'failed to pull image "{image}": not found')
    return Trouble(
        "ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: failed to pull image "{image}": not found'
    )


Json = Mapping[str, Any]


def resumed(pod: records.Pod, now: float, backoff: Backoff) -> tuple[PodLife, dict[str, float]]:
    """Return the life of `pod`, and the start times of the containers that ran when the status was written."""
    status = pod.status
    life = born(pod, status.pod_ip, times.epoch(status.start_time) or now)
    life.phase = Phase(status.phase) if status.phase in tuple(Phase) else Phase.PENDING
    life.reason = status.reason
    for condition in status.conditions:
        life.conditions[condition.type] = (condition.status, times.epoch(condition.last_transition_time) or now)
    running: dict[str, float] = {}
    written = {str(entry.get("name")): entry for entry in (*status.init_container_statuses, *status.container_statuses)}
    for container in life.containers:
        entry = written.get(container.name)
        if entry is not None:
            started_at = _take(container, entry, backoff)
            if started_at is not None:
                running[container.name] = started_at
    if life.phase is Phase.RUNNING:
        for container in life.of_role(Role.INIT):  # a status may omit containers that ended long ago
            container.ending = container.ending or Ending(0, life.accepted_at, life.accepted_at)
    return life, running


def _take(container: ContainerLife, entry: Json, backoff: Backoff) -> float | None:
    """Set `container` from its status. Return the start time if it was running."""
    state = entry.get("state") or {}
    container.restarts = int(entry.get("restartCount") or 0)
    container.last = _ending((entry.get("lastState") or {}).get("terminated"))
    running = state.get("running")
    if running is not None:
        return times.epoch(running.get("startedAt"))
    container.ending = _ending(state.get("terminated"))
    if container.ending is None and container.last is not None:  # the container waits for its next start
        container.ending, container.last = container.last, None
        container.retry_at = container.ending.finished_at + seconds_before(container.restarts + 1, backoff)
    return None


def _ending(terminated: Json | None) -> Ending | None:
    if not terminated:
        return None
    finished_at = times.epoch(terminated.get("finishedAt")) or 0.0
    started_at = times.epoch(terminated.get("startedAt")) or finished_at
    exit_code, reason = int(terminated.get("exitCode") or 0), str(terminated.get("reason") or "")
    return Ending(exit_code, started_at, finished_at, reason, str(terminated.get("message") or ""))
