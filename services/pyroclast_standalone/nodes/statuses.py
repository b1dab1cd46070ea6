"""Computes the status of a pod in the API from its life. Pure."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from pyroclast_standalone import times
from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.injections import Injection
from pyroclast_standalone.nodes.lives import ContainerLife, Ending, Phase, PodLife, Role

Json = dict[str, Any]
_SCHEDULED: Final = "PodScheduled"


def pod_status(pod: records.Pod, life: PodLife, injection: Injection, *, host_ip: str, now: float) -> Json:
    """Return the status to write. Changes since the last call have the time `now` (seconds since the epoch)."""
    status: Json = {
        "phase": str(life.phase),
        "startTime": times.rfc3339(life.accepted_at),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "conditions": _conditions(pod, life, injection, now),
    }
    inits = life.of_role(Role.INIT, Role.SIDECAR)
    was_refused = life.phase.is_over and not any(container.ending for container in life.containers)
    if not was_refused:
        status["containerStatuses"] = [_container(pod, life, container) for container in life.of_role(Role.MAIN)]
    if inits and not was_refused:
        status["initContainerStatuses"] = [_container(pod, life, container) for container in inits]
    if life.pod_ip and (life.phase is not Phase.PENDING or any(container.is_alive or container.ending for container in inits)):
        status["podIP"] = life.pod_ip
        status["podIPs"] = [{"ip": life.pod_ip}]
    if life.reason:
        status["reason"] = life.reason
    if life.message:
        status["message"] = life.message
    return status


def _conditions(pod: records.Pod, life: PodLife, injection: Injection, now: float) -> list[Json]:
    inits, mains = life.of_role(Role.INIT, Role.SIDECAR), life.of_role(Role.MAIN)
    is_initialized = life.phase.is_over or all(
        container.is_started
        if container.role is Role.SIDECAR
        else container.ending is not None and container.ending.exit_code == 0
        for container in inits
    )
    unready = [c.name for c in [*life.of_role(Role.SIDECAR), *mains] if not c.is_ready or injection.never_ready]
    over = {Phase.SUCCEEDED: "PodCompleted", Phase.FAILED: "PodFailed"}.get(life.phase, "")
    gates = {str(gate.get("conditionType")) for gate in pod.spec.readiness_gates}
    closed = gates - {condition.type for condition in pod.status.conditions if condition.status == "True"}
    reason, message = over, ""
    if unready and not over:
        reason, message = "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    containers_ready = not unready and not over
    gated = ("ReadinessGatesNotReady", "") if containers_ready and closed else (reason, message)
    wanted = [
        ("PodReadyToStartContainers", not over, "", ""),
        ("Initialized", is_initialized, over if life.phase is Phase.SUCCEEDED else "", ""),
        ("Ready", containers_ready and not closed, *gated),
        ("ContainersReady", containers_ready, reason, message),
    ]
    if _SCHEDULED in life.conditions or not any(condition.type == _SCHEDULED for condition in pod.status.conditions):
        wanted.append((_SCHEDULED, True, "", ""))  # the pod was created with its node, so no scheduler bound it
    if not is_initialized:
        names = [c.name for c in inits if not c.is_done]
        wanted[1] = ("Initialized", False, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(names)}]")
    if life.reason == "Evicted":
        wanted.append(("DisruptionTarget", True, "TerminationByKubelet", life.message))
    return [_condition(life, now, *condition) for condition in wanted]


def _condition(life: PodLife, now: float, kind: str, holds: bool, reason: str, message: str) -> Json:  # noqa: PLR0917 - a row of the table above
    status = "True" if holds else "False"
    known, since = life.conditions.get(kind, ("", now))
    if known != status:
        since = now
        life.conditions[kind] = (status, since)
    condition: Json = {"type": kind, "status": status, "lastTransitionTime": times.rfc3339(since)}
    for key, text in (("reason", reason), ("message", message)):
        if text:
            condition[key] = text
        elif known:
            condition[key] = None  # the list of conditions is merged: a missing key would keep the old value
    return condition


def _container(pod: records.Pod, life: PodLife, container: ContainerLife) -> Json:
    execution = container.execution
    status: Json = {
        "name": container.name,
        "image": container.spec.image,
        "imageID": "",
        "restartCount": container.restarts,
        "ready": container.is_ready
        if container.role is not Role.INIT
        else bool(container.ending and container.ending.exit_code == 0),
        "started": container.is_started,
        "lastState": {},
    }
    last = container.last
    if execution is not None and execution.started_at is not None:
        status["state"] = {"running": {"startedAt": times.rfc3339(execution.started_at)}}
    elif container.ending is not None and container.retry_at is None:
        status["state"] = {"terminated": _terminated(container.ending)}
    elif container.ending is not None:
        last = container.ending
        waited = int(container.retry_at - container.ending.finished_at) if container.retry_at else 0
        where = f"{pod.metadata.name}_{pod.metadata.namespace}({life.uid})"
        text = f"back-off {waited}s restarting failed container={container.name} pod={where}"
        status["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
    elif container.trouble is not None:
        trouble = container.trouble
        shown = {"message": trouble.message} if trouble.message and trouble.event == "Failed" else {}
        status["state"] = {"waiting": {"reason": trouble.reason, **shown}}
    else:
        is_held_up = container.role is Role.MAIN and any(c.role is Role.INIT and c.ending is None for c in life.containers)
        status["state"] = {"waiting": {"reason": "PodInitializing" if is_held_up else "ContainerCreating"}}
    if last is not None:
        status["lastState"] = {"terminated": _terminated(last)}
    if "running" in status["state"] or "terminated" in status["state"]:
        status["imageID"] = f"{container.spec.image}@simulated"
        status["containerID"] = container_id(life.uid, container.name, container.restarts)
    return status


def container_id(uid: str, name: str, attempt: int) -> str:
    """Return the id of one run of a container, which is always the same."""
    return "simulated://" + hashlib.sha256(f"{uid}/{name}/{attempt}".encode()).hexdigest()


def _terminated(ending: Ending) -> Json:
    state: Json = {
        "exitCode": ending.exit_code,
        "reason": ending.reason or ("Completed" if ending.exit_code == 0 else "Error"),
        "startedAt": times.rfc3339(ending.started_at),
        "finishedAt": times.rfc3339(ending.finished_at),
    }
    if ending.message:
        state["message"] = ending.message
    return state
