"""The tries of Jobs and how they ended, how well starts were predicted, and how much of the requests was used. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import orjson

from pyroclast_recorder.database.tables import Row
from pyroclast_recorder.hourly_usage import asked_by, held

BY_REASON: Final = (
    ("OutOfMemory", frozenset({"OOMKilled"})),
    ("NodeFailed", frozenset({"NodeLost", "DeletionByTaintManager", "DeletionByPodGC", "NodeShutdown", "TerminationByKubelet"})),
    ("TimedOut", frozenset({"DeadlineExceeded"})),
    ("Evicted", frozenset({"Evicted", "PreemptionByScheduler", "GangReleased", "EvictionByEvictionAPI"})),
)
"""The state of a Job that did not complete, by the reasons of its pods, most severe first."""

ENDED_WELL: Final = frozenset({"Completed"})
RUNNING: Final = frozenset({"Pending", "Running", "Restarting", "Completing", "Aborting", "Terminating"})
STATES: Final = (
    *("Pending", "Running", "Restarting", "Completing", "Completed", "Aborting", "Aborted", "Terminating", "Terminated"),
    *("Failed", *(state for state, _ in BY_REASON), "Removed"),
)


def state_of(job: Row, reasons: Collection[str | None]) -> str:
    """Return the state of a Job. `reasons`: the reasons for which the pods of the Job ended."""
    phase = str(job["phase"] or "Pending")
    if phase in ENDED_WELL:
        return phase
    if phase in RUNNING:
        is_over = job["removed"] is not None or job["ended"] is not None
        return "Removed" if is_over else phase
    return next((state for state, words in BY_REASON if words.intersection(reasons)), phase)


@dataclass(slots=True)
class Try:
    """One try of a Job: it waits from `since`, runs from `started`, and ends at `ended` in `state`; None for what is not there.

    `message`: why the try ended, as far as the phase of its end says it.
    """

    since: int
    started: int | None = None
    ended: int | None = None
    state: str = ""
    message: str | None = None

    def waited(self, now: int) -> int:
        """Return for how long the try waited, also before its pods existed, in seconds."""
        return max(0, (self.started or self.ended or now) - self.since)

    def ran(self, now: int) -> int | None:
        """Return for how long the try ran, in seconds; None when it did not start."""
        return None if self.started is None else max(0, (self.ended or now) - self.started)


ENDS: Final = frozenset({"Completed", "Failed", "Aborted", "Terminated"})


def tries_of(job: Row, phases: Iterable[Row], state: str) -> list[Try]:
    """Return the tries of a Job, the oldest first. A restart, and the resumption of an aborted Job, begin a new one.

    `phases`: the rows of `job_phases` of the Job, ordered by time. A Job without any has one try, from its own row. `state`: the
    state of the Job, which is that of its last try.
    """
    if job["created"] is None:
        return []
    found = [Try(job["created"])]
    has_phases = False
    for phase in phases:
        has_phases, at, name, last = True, phase["at"], phase["name"], found[-1]
        if name in {"Restarting", "Pending", "Running"} and last.ended is not None:
            found.append(last := Try(at))
        if name == "Running":
            last.started = at if last.started is None else last.started
        elif name == "Restarting" and at > last.since:
            last.ended, last.state, last.message = at, "Restarted", phase["message"]
            found.append(Try(at))
        elif name in ENDS:
            last.ended, last.state, last.message = at, name, phase["message"]
    last, end = found[-1], job["ended"] or job["removed"]
    if not has_phases:
        last.started = job["started"]
    if end is not None and last.ended is None:
        last.ended = max(last.since, end)
    last.state = state
    return found


EVERY_SECONDS: Final = 3600
"""The least seconds between two predictions of a Job that count, so that each hour of waiting has the same weight."""

_BASIS: Final = re.compile(r"(\d{1,9}) (declared|from history|not known)")
_WORDS: Final = {"declared": "declared", "from history": "history", "not known": "unknown"}


def prediction_rows(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return a row for each queue: the number of predictions, how many were right, and the width of the predicted intervals.

    `held` counts the starts inside of the interval from p10 to p90, `early` the starts before it, and `late` the starts after it.
    `rows`: the predictions of started Jobs, with `queue` and with `actual`, the time of the start, ordered by Job and time.
    """
    by_queue: dict[str, list[Row]] = defaultdict(list)
    job, counted_until = "", 0
    for row in rows:
        if row["job"] != job:
            job, counted_until = row["job"], 0
        if row["at"] < row["actual"] and row["at"] >= counted_until:  # later predictions belong to another try
            counted_until = row["at"] + EVERY_SECONDS
            by_queue[row["queue"] or ""].append(row)
    return [{"queue": queue, **_summed(of_queue)} for queue, of_queue in sorted(by_queue.items())]


def _summed(rows: Sequence[Row]) -> dict[str, Any]:
    early = sum(row["actual"] < row["p10"] for row in rows)
    late = sum(row["actual"] > row["p90"] for row in rows)
    bases: Counter[str] = Counter()
    for row in rows:
        for count, words in _BASIS.findall(row["basis"] or ""):
            bases[_WORDS[words]] += int(count)
    return {
        "predictions": len(rows),
        "held": len(rows) - early - late,
        "early": early,
        "late": late,
        "p50WidthSeconds": int(median(row["p90"] - row["p10"] for row in rows)),
        "p50ErrorSeconds": int(median(abs(row["actual"] - row["p50"]) for row in rows)),
        "basis": dict(sorted(bases.items())),
    }


LEAST: Final = 3
"""The least number of samples of a pod. The use of a pod with fewer samples is not reported."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The use of one resource by one pod: the mean, the 95th percentile and the maximum of `samples` samples."""

    mean: int
    p95: int
    largest: int
    samples: int


def measured_of(rows: Iterable[Row]) -> dict[str, dict[str, Measured]]:
    """Return the measured use by pod and resource. The rows that several replicas of the recorder wrote are combined."""
    parts: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        parts[row["pod"], row["resource"]].append(row)
    found: dict[str, dict[str, Measured]] = defaultdict(dict)
    for (pod, resource), of_pod in parts.items():
        samples = sum(row["samples"] for row in of_pod)
        if samples < LEAST:
            continue
        mean = sum(row["mean"] * row["samples"] for row in of_pod) // samples
        found[pod][resource] = Measured(mean, max(row["p95"] for row in of_pod), max(row["largest"] for row in of_pod), samples)
    return found


def use_of(pods: Iterable[Row], measured: Mapping[str, Mapping[str, Measured]], now: int) -> dict[str, dict[str, Any]]:
    """Return the use of pods by resource.

    `used` and `of` are the use and the requests of the same pods, in amounts × seconds. `peak` is the largest use of one pod,
    `peakPod` is the name of this pod, and `peakOf` its request. Pods that were not measured are left out, because their requests
    would look idle.
    """
    found: dict[str, dict[str, Any]] = {}
    for pod in pods:
        time = held(pod)
        if time is None:
            continue
        seconds = max(0, (now if time.end is None else time.end) - time.begin)
        requests, asked = orjson.loads(pod["requests"]), asked_by(pod, now)[0]
        for resource, use in measured.get(pod["uid"], {}).items():
            sums = found.setdefault(resource, {"used": 0, "of": 0, "peak": -1, "peakPod": "", "peakOf": 0, "samples": 0})
            sums["used"] += use.mean * seconds
            sums["of"] += asked[resource]
            sums["samples"] += use.samples
            if use.largest > sums["peak"]:
                sums |= {"peak": use.largest, "peakPod": pod["name"], "peakOf": requests.get(resource, 0)}
    return found
