"""The measured use of pods in relation to their requests. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from pyroclast_recorder.database.tables import Row
from pyroclast_recorder.hourly_usage import held

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
        requests = orjson.loads(pod["requests"])
        for resource, use in measured.get(pod["uid"], {}).items():
            sums = found.setdefault(resource, {"used": 0, "of": 0, "peak": -1, "peakPod": "", "peakOf": 0, "samples": 0})
            sums["used"] += use.mean * seconds
            sums["of"] += requests.get(resource, 0) * seconds
            sums["samples"] += use.samples
            if use.largest > sums["peak"]:
                sums |= {"peak": use.largest, "peakPod": pod["name"], "peakOf": requests.get(resource, 0)}
    return found
