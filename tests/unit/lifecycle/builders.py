"""Builders of Jobs, pods and PodGroups with defaults, and the facts of them."""

from __future__ import annotations

from typing import Any

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, PodGroupPhase, PodPhase
from pyroclast.api.records import Job, Pod, PodGroup, Queue
from pyroclast.lifecycle.gang import podgroups, pods
from pyroclast.lifecycle.gang.members import ObservedPods
from pyroclast.lifecycle.job import tracked_pods
from pyroclast.lifecycle.job.facts import JobFacts, Remembered
from pyroclast.lifecycle.times import format_time

NOW = 1_700_000_000.0
CREATED = format_time(NOW - 60)


def template(cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}]
    return {"spec": {"containers": containers, **spec}}


def task(name: str = "a", replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "minAvailable": replicas, "template": template(), **more}


def job(*tasks: dict[str, Any], phase: JobPhase = JobPhase.PENDING, status: dict[str, Any] | None = None, **spec: Any) -> Job:
    tasks = tasks or (task(),)
    gang = sum(each.get("minAvailable", each["replicas"]) for each in tasks)
    meta = spec.pop("metadata", {})
    state = {"state": {"phase": phase.value, "lastTransitionTime": CREATED}} if phase else {}
    body = {
        "metadata": {
            "name": "j",
            "namespace": "n",
            "uid": "u1",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": CREATED,
            **meta,
        },
        "spec": {
            "minAvailable": gang,
            "queue": "default",
            "schedulerName": "volcano",
            "maxRetry": 3,
            "tasks": list(tasks),
            **spec,
        },
        "status": {**state, **({"observedGeneration": 1} if phase else {}), **(status or {})},
    }
    return decode(body, Job)


def pod(owner: Job, name: str, phase: PodPhase = PodPhase.RUNNING, **more: Any) -> Pod:
    """A pod of `owner` called `task-index`.

    `version`, `marked`, `going`, `exit_code`, `restarts`, `uid`, `finished_at` vary it.
    """
    task_name, _, index = name.rpartition("-")
    spec = next((each for each in owner.spec.tasks if each.name == task_name), owner.spec.tasks[0])
    body = pods.build(owner, spec, int(index))
    meta = body["metadata"] | {
        "name": f"{owner.metadata.name}-{name}",
        "uid": more.get("uid", f"pod-{name}"),
        "creationTimestamp": format_time(more.get("created", NOW - 30)),
        "resourceVersion": "1",
    }
    meta["annotations"] |= {keys.JOB_VERSION: str(more.get("version", owner.status.version)), keys.TASK_SPEC: task_name}
    if more.get("marked"):
        meta["annotations"][keys.OUT_OF_SYNC] = "true"
    if more.get("going"):
        meta["deletionTimestamp"] = CREATED
    state: dict[str, Any] = {}
    if phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        code = more.get("exit_code", 0 if phase is PodPhase.SUCCEEDED else 1)
        state = {"terminated": {"exitCode": code, "finishedAt": format_time(more.get("finished_at", NOW - 10))}}
    container = {
        "name": "c",
        "ready": more.get("ready", phase is PodPhase.RUNNING),
        "restartCount": more.get("restarts", 0),
        "state": state,
    }
    return decode({**body, "metadata": meta, "status": {"phase": phase.value, "containerStatuses": [container]}}, Pod)


def pods_of(owner: Job, *pods: Pod) -> ObservedPods:
    return ObservedPods.of(owner, {each.metadata.name: each for each in pods}, tracked_pods.succeeded(owner).items())


def group(owner: Job, phase: PodGroupPhase = PodGroupPhase.RUNNING, **annotations: str) -> PodGroup:
    body = podgroups.manifest(owner, {})
    body["metadata"] |= {"uid": "g1", "resourceVersion": "1"}
    body["metadata"]["annotations"] |= annotations
    return decode({**body, "status": {"phase": phase.value}}, PodGroup)


def queue(**spec: Any) -> Queue:
    return decode({"metadata": {"name": "default"}, "spec": spec, "status": {"state": "Open"}}, Queue)


def facts(
    owner: Job,
    *members: Pod,
    group_phase: PodGroupPhase | None = PodGroupPhase.RUNNING,
    now: float = NOW,
    memory: Remembered | None = None,
    **more: Any,
) -> JobFacts:
    """Everything in order, unless said otherwise: the queue is there, the PodGroup is of the Job's version."""
    version = {keys.JOB_VERSION: str(owner.status.version)} if owner.status.version else {}
    return JobFacts(
        owner,
        now,
        pods=pods_of(owner, *members),
        **{
            "group": group(owner, group_phase, **version) if group_phase else None,
            "queue": queue(),
            "memory": memory or Remembered(),
            **more,
        },
    )


def decode(body: dict[str, Any], record: type[Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body), type=record)
