"""The rows of pods: their Job, their requests, and the time for which they held the requests."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import orjson

from pyroclast.api import keys
from pyroclast.api.enums import PodPhase
from pyroclast.api.records.meta import Record
from pyroclast.api.records.pods import Pod
from pyroclast.resources.pods import effective
from pyroclast_recorder.facts.units import clipped, seconds, whole_amounts

JOB_KIND: Final = "Job"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""The annotation with the index of a pod in a native Job. A replacement of a failed pod has the same index."""

ENDED: Final = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def is_ours(pod: Pod, schedulers: frozenset[str]) -> bool:
    """Whether a pod belongs to a Volcano Job or names one of our schedulers."""
    return job_of(pod) is not None or pod.spec.scheduler_name in schedulers


def job_of(record: Record) -> str | None:
    """Return the uid of the Volcano Job that controls an object; None when no Job does."""
    owner = record.metadata.controller
    return owner.uid if owner and owner.kind == JOB_KIND and owner.api_version.startswith("batch.volcano.sh/") else None


def pod_facts(pod: Pod, now: int, *, is_deleted: bool) -> dict[str, Any]:
    """Return the row of a pod, without the columns `cluster` and `version`.

    `now`: the time of the event, by the clock of the API server.
    """
    meta, status = pod.metadata, pod.status
    annotations = meta.annotations
    queue = annotations.get(keys.SCHEDULING_QUEUE_NAME) or annotations.get(keys.QUEUE_NAME)
    disruption = next((each for each in status.conditions if each.type == "DisruptionTarget" and each.status == "True"), None)
    code, reason = _end(pod)
    job, group = job_of(pod), pod.spec.scheduling_group
    row: dict[str, Any] = {
        "uid": meta.uid,
        "seen": now,
        "job": job,
        "pod_group": clipped(group.pod_group_name, 253) if group is not None and job is None else None,
        "namespace": meta.namespace,
        "name": meta.name,
        "queue": clipped(queue, 253) if queue else None,
        "task": clipped(annotations.get(keys.TASK_SPEC, ""), 253) or None,
        "task_index": _number(annotations.get(keys.TASK_INDEX) or annotations.get(COMPLETION_INDEX)),
        "estimate": clipped(annotations.get(keys.RUNNING_ESTIMATE, ""), 63) or None,
        "job_version": _number(annotations.get(keys.JOB_VERSION)),
        "node": pod.spec.node_name or None,
        "requests": orjson.dumps(requested(pod), option=orjson.OPT_SORT_KEYS).decode(),
        "phase": str(status.phase),
        "reason": clipped(disruption.reason if disruption else status.reason or reason, 128) or None,
        "evicted_for": clipped(disruption.message) if disruption else None,
        "exit_code": code,
        "created": seconds(meta.creation_timestamp),
        "bound": _bound(pod),
        "started": seconds(status.start_time),
        "removed": now if is_deleted else None,
        "gone": None if is_deleted else 0,
    }
    if status.phase in ENDED or is_deleted:
        row |= _released(pod, now)
    return row


def requested(pod: Pod) -> dict[str, int]:
    """Return the effective requests of a pod, as the kubelet counts them."""
    return whole_amounts(effective(msgspec.to_builtins(pod.spec), "requests"))


def _bound(pod: Pod) -> int | None:
    """Return the time at which a pod was bound, by the clock of the API server; None for an unbound pod.

    A pod that was created on its node is bound from its creation, although kubelets write the condition later.
    """
    if not pod.spec.node_name:
        return None
    if keys.CREATED_ON_NODE in pod.metadata.annotations:
        return seconds(pod.metadata.creation_timestamp)
    scheduled = next((each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "True"), None)
    return seconds(scheduled.last_transition_time if scheduled else None) or seconds(pod.metadata.creation_timestamp)


def _released(pod: Pod, now: int) -> dict[str, int | None]:
    """Return the columns for the end of a pod: the time when its last container ended, and `now` as the upper bound.

    If the containers report no end, the pod ended between its deletion timestamp and `now`.
    """
    ends = [
        seconds(each.state.terminated.finished_at if each.state.terminated else None) for each in pod.status.container_statuses
    ]
    if ends and all(ends):
        return {"finished": max(end for end in ends if end), "released_high": now}
    asked = seconds(pod.metadata.deletion_timestamp)
    return {"released_low": None if asked is None else min(asked, now), "released_high": now}


def _end(pod: Pod) -> tuple[int | None, str]:
    """Return the exit code and the reason of the ended container with the worst result.

    The init containers count in a failed pod in which no container has ended. None and an empty reason when nothing has ended.
    """
    status = pod.status
    ends = [each.state.terminated for each in status.container_statuses if each.state.terminated]
    if not ends and status.phase == PodPhase.FAILED:
        ends = [each.state.terminated for each in status.init_container_statuses if each.state.terminated]
    if not ends:
        return None, ""
    worst = max(ends, key=lambda end: (end.reason == "OOMKilled", end.exit_code != 0, end.exit_code))
    return worst.exit_code, worst.reason


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 10 else None
