"""Traces of batch systems in the Standard Workload Format: a line of 18 numbers per job, comments behind `;`, -1 for unknown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class TracedJob:
    """A job as it was: seconds since the begin of the trace, run time, processors; `said`: the run time that it asked for."""

    at: float
    seconds: float
    processors: int
    queue: str
    said: float | None


@dataclass(frozen=True)
class Trace:
    """The jobs by the time of their submission, and the processors of the machine."""

    jobs: tuple[TracedJob, ...]
    processors: int


def read(lines: Iterable[str]) -> Trace:
    """Read a trace. Jobs that never ran, or whose size nobody knows, are left out.

    Raises:
        ValueError: a line is none of the format.
    """
    found: list[TracedJob] = []
    processors = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(";"):
            name, _, value = text.lstrip("; ").partition(":")
            if name.strip() == "MaxProcs" and value.split()[:1]:
                processors = int(value.split()[0])
        elif text:
            fields = text.split()
            if len(fields) != 18:
                raise ValueError(f"line {number} has {len(fields)} fields; a job in the Standard Workload Format has 18")
            at, seconds, allocated, requested, said = (float(fields[index]) for index in (1, 3, 4, 7, 8))
            size = int(allocated if allocated > 0 else requested)
            if seconds > 0 and size > 0:
                queue = f"queue-{fields[14]}" if float(fields[14]) >= 0 else "queue"
                found.append(TracedJob(at, seconds, size, queue, said if said > 0 else None))
    found.sort(key=lambda job: job.at)
    begin = found[0].at if found else 0.0
    moved = tuple(TracedJob(job.at - begin, job.seconds, job.processors, job.queue, job.said) for job in found)
    return Trace(moved, max(processors, *(job.processors for job in moved), 1) if moved else max(processors, 1))
