"""Rows of what waits, of what runs, and of the pods of a Job over time.

Jobs, Jobs that a flow will create, and native PodGroups have one form.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from pyroclast.api.keys import GROUP_NAME, SUBMITTED_BY
from pyroclast.api.types import JOBS
from pyroclast.api.waiting_codes import NEVER
from pyroclast.pictures.timeline import Lane, Span
from pyroclast.resources import durations
from pyroclast.views.contract import Row
from pyroclast.views.groups import OBJECT, position_of, queue_of_pod, start_of
from pyroclast.views.jobs import Waiter, running_cause, seconds_since
from pyroclast.views.readable import clock_text, human_duration, start_text

STAGES: Final = (("boundSeconds", "placed"), ("startedSeconds", "started"), ("readySeconds", "ready"), ("endedSeconds", "ended"))


def timeline_rows(job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return a row for each pod, in the order of creation; all times are seconds since the creation of the Job."""
    begin = datetime.fromisoformat(job["metadata"]["creationTimestamp"])

    def since(timestamp: str | None) -> int | None:
        return None if not timestamp else max(0, int((datetime.fromisoformat(timestamp) - begin).total_seconds()))

    rows = [_row(pod, since) for pod in pods]
    return sorted(rows, key=lambda row: (row["createdSeconds"] or 0, row["name"]))


def _row(pod: Mapping[str, Any], since: Any) -> Row:  # noqa: ANN401 - a local function
    metadata, status = pod["metadata"], pod.get("status") or {}
    conditions = {
        each["type"]: each.get("lastTransitionTime") for each in status.get("conditions") or () if each.get("status") == "True"
    }
    containers = status.get("containerStatuses") or ()
    states = [(each.get("state") or {}) for each in containers]
    starts = [(state.get("running") or state.get("terminated") or {}).get("startedAt") for state in states]
    ends = [(state.get("terminated") or {}).get("finishedAt") for state in states]
    return {
        "name": metadata["name"],
        "node": (pod.get("spec") or {}).get("nodeName"),
        "createdSeconds": since(metadata.get("creationTimestamp")),
        "boundSeconds": since(conditions.get("PodScheduled")),
        "startedSeconds": since(max(filter(None, starts), default=None)),
        "readySeconds": since(conditions.get("Ready")),
        "endedSeconds": since(max(filter(None, ends), default=None)) if ends and all(ends) else None,
        "restarts": sum(int(each.get("restartCount", 0)) for each in containers),
        "phase": status.get("phase"),
    }


def slowest_lines(rows: Iterable[Row]) -> list[str]:
    """Return for each stage that several pods have reached the last of these pods, and its delay behind the first."""
    lines = []
    for field, word in STAGES:
        reached = sorted((row[field], row["name"]) for row in rows if row[field] is not None)
        if len(reached) > 1 and reached[-1][0] > reached[0][0]:
            behind = human_duration(reached[-1][0] - reached[0][0])
            lines.append(f"last {word}: {reached[-1][1]}, {behind} behind the first")
    return lines


def lanes(rows: Iterable[Row], now: int) -> list[Lane]:
    """Return the lane of each pod in the picture. An unfinished stage ends at `now`, in seconds since the creation of the Job.

    A Job that waited before it had pods has a lane of its own for that time.
    """
    of_pods = [Lane(row["name"], tuple(_spans(row, now))) for row in rows]
    first = min((lane.spans[0].begin for lane in of_pods if lane.spans), default=now)
    return [Lane("(no pods yet)", (Span("waiting", 0, first),)), *of_pods] if first else of_pods


def _spans(row: Row, now: int) -> Iterable[Span]:
    created, bound, started, ended = (row[f"{name}Seconds"] for name in ("created", "bound", "started", "ended"))
    last = now if ended is None else ended
    reached = [
        (stage, begin) for stage, begin in (("waiting", created), ("starting", bound), ("running", started)) if begin is not None
    ]
    ends = [begin for _, begin in reached[1:]] + [last]
    return [Span(stage, begin, max(begin, end)) for (stage, begin), end in zip(reached, ends, strict=True)]


AT_WORK: Final = frozenset({"Running", "Restarting", "Completing", "Terminating"})


def waiting_rows(waiters: Iterable[Waiter], now: float) -> list[Row]:
    """Return a row for each of `waiters` that waits, the oldest first. `now` is in seconds since the epoch."""
    rows: list[Row] = []
    for each in sorted(waiters, key=lambda waiter: waiter.created):
        if (cause := each.cause) is None:
            continue
        row = {
            "object": each.object,
            "position": position_of(each.group),
            "namespace": each.namespace,
            "name": each.name,
            "queue": each.queue,
            "priority": each.priority,
            "pods": each.pods,
            "asks": each.asks,
            "waitedSeconds": seconds_since(each.created, now),
            "code": cause.code,
            "start": NEVER if cause.is_final else start_of(each.group, now),
            "never": cause.is_final,
            "sentence": cause.sentence,
            "since": cause.since,
        }
        rows.append(row)
    return rows


STATE_ORDER: Final = ("Running", "Restarting", "Completing", "Terminating", "Aborting", "Pending", "")


def job_rows(jobs: Iterable[Waiter], now: float) -> list[Row]:
    """Return a row for each Job in any state, with where it stands: those that run, those that wait, and the last that ended."""
    rows = []
    for each in jobs:
        start = start_of(each.group, now)
        if (cause := each.cause) is not None:
            likely = f"; starts {start_text(start)}" if start and not cause.is_final else ""
            note = f"{cause.code}{likely}: {cause.sentence}"
        elif each.phase in AT_WORK:
            trouble, ends = running_cause(each.job), _ends(each)
            note = f"{trouble.code}: {trouble.sentence}" if trouble else f"ends ~{clock_text(ends)}" if ends else "it runs"
        else:
            note = each.sentence
        rows.append({
            "object": JOBS.qualified,
            "namespace": each.namespace,
            "name": each.name,
            "queue": each.queue,
            "user": (each.job["metadata"].get("annotations") or {}).get(SUBMITTED_BY),
            "phase": each.phase or "Pending",
            "pods": each.pods,
            "ready": int((each.job.get("status") or {}).get("running") or 0),
            "since": each.since,
            "sinceSeconds": seconds_since(each.since, now),
            "note": note,
        })  # fmt: skip
    places = {phase: at for at, phase in enumerate(STATE_ORDER)}
    return sorted(rows, key=lambda row: (places.get(row["phase"], len(places)), row["sinceSeconds"], row["name"]))


def running_rows(jobs: list[Waiter], pods: Iterable[Mapping[str, Any]], now: float) -> list[Row]:
    """Return a row for each Job that has started and not ended, longest running first. `pods` are the pods of all Jobs."""
    by_job: dict[str, list[Mapping[str, Any]]] = {}
    for pod in pods:
        for owner in pod["metadata"].get("ownerReferences") or ():
            by_job.setdefault(owner["uid"], []).append(pod)
    started = [(each, each.job["status"]) for each in jobs if each.phase in AT_WORK]
    started.sort(key=lambda pair: pair[1]["state"].get("lastTransitionTime", ""))
    return [
        {
            "object": JOBS.qualified,
            "namespace": each.namespace,
            "name": each.name,
            "queue": each.queue,
            "pods": each.pods,
            "ready": status.get("running", 0),
            "nodes": nodes_of(by_job.get(each.job["metadata"]["uid"], ())),
            "asks": each.asks,
            "elapsedSeconds": seconds_since(_started(each), now),
            "ends": _ends(each),
            "health": health_of(each.pods or 0, by_job.get(each.job["metadata"]["uid"], ())),
            "phase": each.phase,
            "retries": status.get("retryCount", 0),
        }
        for each, status in started
    ]


def _started(view: Waiter) -> str:
    """Return the time at which the Job entered its first phase after Pending, since it last waited."""
    conditions = view.job["status"].get("conditions") or ()
    times = [
        each["lastTransitionTime"] for each in conditions if each.get("status") == "Running" and each.get("lastTransitionTime")
    ]
    return str(times[-1] if times else view.job["metadata"]["creationTimestamp"])


def _ends(view: Waiter) -> str | None:
    """Return the estimated end of the Job as an API timestamp. None when the Job has no running estimate."""
    try:
        seconds = durations.nanoseconds(str((view.job.get("spec") or {}).get("runningEstimate") or "")) / 10**9
    except durations.DurationError:
        return None
    return (datetime.fromisoformat(_started(view)) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def running_group_rows(groups: Iterable[Waiter | None], pods: Iterable[Mapping[str, Any]], now: float) -> list[Row]:
    """Return a row in the form of a Job's row for each PodGroup without a Job that has started and has unfinished pods."""
    by_group: dict[tuple[bool, str, str], list[Mapping[str, Any]]] = {}
    for pod in pods:
        meta = pod["metadata"]
        native = ((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName")
        named = native or (meta.get("annotations") or {}).get(GROUP_NAME)
        if named and (pod.get("status") or {}).get("phase") not in ENDED:
            by_group.setdefault((bool(native), meta["namespace"], named), []).append(pod)
    rows: list[Row] = []
    for group in groups:
        if group is None or group.cause is not None:
            continue
        own = by_group.get((group.object == OBJECT, group.namespace, group.name))
        if not own:
            continue
        rows.append(
            {
                "object": group.object,
                "namespace": group.namespace,
                "name": group.name,
                "priority": group.priority,
                "queue": group.queue or next(filter(None, (queue_of_pod(pod["metadata"]) for pod in own)), None),
                "pods": len(own),
                "ready": sum((pod.get("status") or {}).get("phase") == "Running" for pod in own),
                "nodes": nodes_of(own),
                "asks": {},
                "elapsedSeconds": seconds_since(group.since, now),
                "ends": None,
                "health": health_of(len(own), own),
                "phase": "Running",
                "retries": 0,
            }
        )
    return sorted(rows, key=lambda row: -row["elapsedSeconds"])


Pod = Mapping[str, Any]
REFUSED_IMAGES: Final = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"})
RESTARTING: Final = "CrashLoopBackOff"
ENDED: Final = frozenset({"Succeeded", "Failed"})


def nodes_of(pods: Iterable[Pod]) -> int:
    """Return how many nodes have at least one of the pods that have not ended."""
    at_work = (pod for pod in pods if (pod.get("status") or {}).get("phase") not in ENDED)
    return len({name for pod in at_work if (name := (pod.get("spec") or {}).get("nodeName"))})


def health_of(wanted: int, pods: Sequence[Pod]) -> str:
    """Return `ok`, or the problems of the `wanted` pods with the number of pods for each, the worst first."""
    counts = {
        "failed": sum(_phase(pod) == "Failed" for pod in pods),
        "crash": sum(_waits_for(pod, {RESTARTING}) for pod in pods),
        "without image": sum(_waits_for(pod, REFUSED_IMAGES) for pod in pods),
        "missing": max(0, wanted - len(pods)),
        "not placed": sum(_phase(pod) == "Pending" and not (pod.get("spec") or {}).get("nodeName") for pod in pods),
    }
    counted = sum(counts.values())
    counts["not ready"] = max(0, wanted - counted - sum(_is_well(pod) for pod in pods))
    counts["restarted"] = sum(any(each.get("restartCount") for each in _statuses(pod)) for pod in pods if _is_well(pod))
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "ok"


def _is_well(pod: Pod) -> bool:
    """Whether a pod works or has succeeded."""
    if _phase(pod) == "Succeeded":
        return True
    conditions = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    return _phase(pod) == "Running" and is_ready


def _waits_for(pod: Pod, reasons: Container[str]) -> bool:
    states = (each.get("state") or {} for each in _statuses(pod))
    return any(str((state.get("waiting") or {}).get("reason")) in reasons for state in states)


def _statuses(pod: Pod) -> Sequence[Mapping[str, Any]]:
    return (pod.get("status") or {}).get("containerStatuses") or ()


def _phase(pod: Pod) -> str:
    return str((pod.get("status") or {}).get("phase", ""))
