"""The state of a Job: its phase, counts and waiting reason, and how a handle shows them, in a line and in HTML.

The HTML has no scripts and needs no other files. Every text in it is escaped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final, TextIO

from pyroclast.kube.http import servers
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.waiting_queries import group_of, schedulers_at_work
from pyroclast.views.explanation import explanation_lines, stored_explanation
from pyroclast.views.jobs import is_waiting, running_cause, waiter_of, waiting_cause

COLOURS: Final[Mapping[str, str]] = {"succeeded": "#2e7d32", "running": "#1565c0", "pending": "#9e9e9e", "failed": "#c62828"}
GOOD: Final = frozenset({"Completed", "Succeed", "Succeeded"})
BAD: Final = frozenset({"Failed", "Terminated", "Aborted"})


def card(kind: str, name: str, phase: str, content: str) -> str:
    """Return a box with a title. `content` is HTML."""
    title = f"<b>{escape(kind)} {escape(name)}</b> {badge(phase)}"
    return f'<div style="border:1px solid #ccc;border-radius:4px;padding:8px;max-width:48em">{title}{content}</div>'


def badge(phase: str) -> str:
    """Return the HTML of a phase, in the colour of the phase."""
    colour = COLOURS["succeeded"] if phase in GOOD else COLOURS["failed"] if phase in BAD else COLOURS["running"]
    return f'<span style="color:{colour}">{escape(phase)}</span>'


def bar(counts: Mapping[str, int]) -> str:
    """Return a bar with a section for each state, and the counts in words."""
    total = sum(counts.values()) or 1
    parts = "".join(
        f'<div style="background:{COLOURS[name]};width:{100 * count / total:.1f}%"></div>'
        for name, count in counts.items()
        if count
    )
    words = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "no pod yet"
    return f'<div style="display:flex;height:8px;background:#eee;margin:4px 0">{parts}</div><div>{escape(words)}</div>'


FINISHED: Final = frozenset({"Completed", "Failed", "Aborted", "Terminated"})
"""The phases in which no pod runs and none will run, unless a user resumes an Aborted Job."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The status of a Job. The counts are of pods. `restarts` counts the restarts of the Job or of its pods."""

    phase: str
    reason: str = ""
    message: str = ""
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    restarts: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether the Job has ended."""
        return self.phase in FINISHED


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a Job waits. `str()` of the object is what `vcctl explain` prints.

    Attributes:
        job: NAMESPACE/NAME of the Job.
        queue: the queue of the Job.
        phase: the phase of the Job.
        code: the documented code of the reason. Empty for a Job that does not wait.
        sentence: the reason as a sentence.
        never: whether the Job can never start by waiting alone.
        document: the requests of the Job, the jobs before it, and the users of the scarce resources. Empty when only the cause
            was read.
    """

    job: str
    queue: str
    phase: str
    code: str
    sentence: str
    never: bool = False
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def summary(self) -> str:
        """The reason why the Job waits, as one sentence."""
        if not self.code:
            return f"{self.job} in queue {self.queue}: {self.sentence}"
        when = "never" if self.never else "not now"
        return f"{self.job} waits in queue {self.queue}: {self.code}, {when}: {self.sentence.removeprefix(f'{when}: ')}"

    def _repr_html_(self) -> str:
        return card("Job", self.job, self.phase, f"<pre>{escape(str(self))}</pre>")

    def __str__(self) -> str:
        return "\n".join(explanation_lines(self.document)) if self.document else self.summary


def status_of(job: Mapping[str, Any]) -> JobStatus:
    """Return the status in a Job object. The phase is Pending before the controller has written a status."""
    status = job.get("status") or {}
    state = status.get("state") or {}
    return JobStatus(
        phase=str(state.get("phase") or "Pending"),
        reason=str(state.get("reason") or ""),
        message=str(state.get("message") or ""),
        restarts=int(status.get("retryCount") or 0),
        **{name: int(status.get(name) or 0) for name in ("pending", "running", "succeeded", "failed")},
    )


def explanation_of(job: Mapping[str, Any], document: Mapping[str, Any] | None = None) -> Explanation:
    """Return why the Job waits, from the document `Explanation`. Without one, the cause is read from the Job alone."""
    phase, metadata = status_of(job).phase, job["metadata"]
    name = f"{metadata.get('namespace', '')}/{metadata['name']}"
    queue = str((job.get("spec") or {}).get("queue") or "default")
    if not is_waiting(job):
        return Explanation(name, queue, phase, "", f"it is {phase} and does not wait", document=document or {})
    if document is not None:
        return Explanation(name, queue, phase, document["code"], document["sentence"], document["never"], document)
    cause = waiting_cause(job, None)
    return Explanation(name, queue, phase, cause.code, cause.sentence, cause.is_final)


BOLD, PLAIN, CLEAR = "\x1b[1m", "\x1b[0m", "\r\x1b[K"
WIDTH: Final = 100


class ProgressLine:
    """One line that is overwritten with each change. Nothing is shown if the output is not a terminal.

    With `calls`, the number of calls of a sweep, the line shows the sums of all its Jobs.
    """

    def __init__(self, output: TextIO | None = None, environ: Mapping[str, str] = os.environ, *, calls: int = 0) -> None:
        self._calls, self._jobs = calls, dict[str, Mapping[str, Any]]()
        self._output = sys.stderr if output is None else output
        self.is_shown = self._output.isatty()
        self._is_plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        self._last = ""

    def show(self, job: Mapping[str, Any] | None) -> None:
        """Show the state of `job` in the line on the terminal."""
        if not self.is_shown or job is None:
            return
        name, text = job["metadata"]["name"], line_of(job)[:WIDTH]
        if self._calls:
            self._jobs[name] = job
            name, text = min(self._jobs), line_of_calls(self._calls, map(status_of, self._jobs.values()))
        if text != self._last:
            self._last = text
            start = "\r" if self._is_plain else CLEAR
            shown = name if self._is_plain else f"{BOLD}{name}{PLAIN}"
            self._output.write(f"{start}{shown} {text:<{WIDTH if self._is_plain else 0}}")
            self._output.flush()

    def end(self) -> None:
        """End the line, so that its last state stays visible."""
        if self._last:
            self._output.write("\n")
            self._output.flush()


def line_of_calls(calls: int, statuses: Iterable[JobStatus]) -> str:
    """Return how many calls of a sweep have ended and run, in one line."""
    every = list(statuses)
    succeeded, failed, running = (sum(getattr(each, name) for each in every) for name in ("succeeded", "failed", "running"))
    return f"{succeeded} of {calls} calls succeeded, {failed} failed, {running} running"


def line_of(job: Mapping[str, Any]) -> str:
    """Return the phase, the pod counts, and why the Job waits, in one line."""
    status = status_of(job)
    counts = (
        (status.pending, "pending"),
        (status.running, "running"),
        (status.succeeded, "succeeded"),
        (status.failed, "failed"),
    )
    pods = ", ".join(f"{number} {word}" for number, word in counts if number)
    waits = explanation_of(job) if status.phase == "Pending" else None
    why = f"{waits.code}: {waits.sentence}" if waits is not None and waits.code else ""
    return "; ".join(filter(None, (status.phase, pods, why))).replace("\n", " ")


async def explained(kube: Client, job: Mapping[str, Any]) -> Explanation:
    """Return why the Job waits: the answer of the scheduler, or the cause that stands in the Job and its PodGroup."""
    waiter = waiter_of(job, await group_of(kube, job), await schedulers_at_work(kube))
    document = None
    if waiter.cause is not None and waiter.cause.is_scheduling:
        addresses = await servers.explainers(kube)
        document = (await servers.explained(kube, addresses, "jobs", waiter.namespace, waiter.name)).document
    return explanation_of(job, document or stored_explanation(waiter, kube.now(), trouble=running_cause(job)))


def job_html(kind: str, name: str, status: JobStatus, explanation: Explanation | None) -> str:
    """Return the HTML of a Job: its phase, a bar of its pods, and why it waits."""
    counts = {each: int(getattr(status, each)) for each in COLOURS}
    why = escape(explanation.summary if explanation is not None else status.message)
    return card(kind, name, status.phase, f"{bar(counts)}<div>{why}</div>")


def sweep_html(name: str, statuses: Iterable[JobStatus]) -> str:
    """Return the HTML of a sweep: the pods of all its Jobs in one bar."""
    every = list(statuses)
    counts = {each: sum(int(getattr(status, each)) for status in every) for each in COLOURS}
    phases = ", ".join(sorted({status.phase for status in every}))
    return card("Sweep", name, phases, bar(counts))


def flow_html(name: str, phase: str, entries: Mapping[str, str], messages: Mapping[str, str]) -> str:
    """Return the HTML of a flow: its entries with their phases."""
    rows = "".join(
        f"<tr><td>{escape(entry)}</td><td>{badge(state)}</td><td>{escape(messages.get(entry, ''))}</td></tr>"
        for entry, state in sorted(entries.items())
    )
    return card("Flow", name, phase, f"<table>{rows}</table>")
