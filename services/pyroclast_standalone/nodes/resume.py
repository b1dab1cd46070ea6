"""Restores the life of a pod from its status in the API, so that restarted nodes neither lose nor repeat a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.resources.backoff import Backoff
from pyroclast_standalone import times
from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.lifecycle import seconds_before
from pyroclast_standalone.nodes.lives import ContainerLife, Ending, Phase, PodLife, Role, born

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
