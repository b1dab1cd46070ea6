"""The spans of an ended Job, from recorded times. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyroclast.api import decisions
from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import JobPhase
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.runtime.traces import PastSpan, SpanEvent
from pyroclast_recorder.database.tables import PREPARED, SCHEDULED, Row, trace_step

ACTIONS: Final = {
    str(JobPhase.RESTARTING): "RestartJob",
    str(JobPhase.ABORTING): "AbortJob",
    str(JobPhase.TERMINATING): "TerminateJob",
    str(JobPhase.COMPLETING): "CompleteJob",
}
"""The action of a policy or a Command, by the phase in which the action is carried out."""

MOST_EVENTS: Final = 64


@dataclass(frozen=True, slots=True)
class JobHistory:
    """The rows of a Job in other tables: its phases, its rows in `job_causes`, and its pods."""

    phases: Sequence[Row] = ()
    causes: Sequence[Row] = ()
    pods: Sequence[Row] = ()


@dataclass(frozen=True, slots=True)
class _Trace:
    """The spans of one Job. `row`: the row of the Job. `context`: its trace context.

    `since`: the earlier end of a resumed Job, up to which the spans were sent already; minus infinity for other Jobs.
    """

    row: Row
    context: str
    since: float

    def span(
        self,
        name: str,
        key: object,
        begin: float,
        end: float,
        more: Mapping[str, str | int] | None = None,
        *,
        events: Sequence[SpanEvent] = (),
    ) -> PastSpan:
        row = self.row
        attributes = {"namespace": row["namespace"], "name": row["name"], "uid": row["uid"], "queue": row["queue"] or ""}
        return PastSpan(name, self.context, f"{row['uid']} {name} {key}", begin, end, {**attributes, **(more or {})}, events)


def spans_of(row: Row, context: str, told: JobHistory, since: float | None = None) -> list[PastSpan]:
    """Return all spans of an ended Job.

    `told`: the rows of the Job in other tables. `since`: the earlier end of a resumed Job; None when the Job had no earlier end.
    """
    trace = _Trace(row, context, float("-inf") if since is None else since)
    inner = [*_decisions(trace, told), *_bindings(trace, told), *_actions(trace, told), *_replacements(trace, told)]
    return [*_steps(trace, told), *(span for span in inner if span.begin > trace.since)]


def _steps(trace: _Trace, told: JobHistory) -> Iterator[PastSpan]:
    """Yield the consecutive spans from the creation to the end. A step without a recorded time is part of the previous step."""
    row, ended = trace.row, trace.row["ended"]
    created, prepared = row.get("created"), min((each["at"] for each in told.causes if each["name"] == PREPARED), default=None)
    times = [
        ("job.prepare", None if prepared is None else created),
        ("queue.wait", created if prepared is None else prepared),
        ("gang.wait", row.get("let_in")),
        ("pods.start", row.get("placed")),
        ("job.run", row.get("started")),
    ]
    steps: list[tuple[str, float]] = []
    for name, at in times:
        if at is not None:
            steps.append((name, min(ended, max(at, steps[-1][1] if steps else at))))
    for (name, begin), (_, end) in pairwise([*steps, ("job.end", ended)]):
        if end > trace.since:
            yield trace.span(name, ended, max(begin, trace.since), end)
    yield trace.span("job.end", ended, ended, ended, {"state": row["phase"] or "", "retries": row["retries"] or 0})


def _decisions(trace: _Trace, told: JobHistory) -> Iterator[PastSpan]:
    """Yield a span for each decision that placed the gang, with the code for which the gang waited before."""
    before = ""
    for cause in sorted(told.causes, key=lambda row: (row["at"], bool(trace_step(row["name"])), row.get("version") or 0)):
        name, message, step = cause["name"], cause["message"] or "", trace_step(cause["name"])
        if not step:
            before = name if name in set(PendingReason) else pending.reason_of(message) or name
        elif step == SCHEDULED and (decision := decisions.parse(message)) is not None:
            session, nodes = decision
            more: dict[str, str | int] = {"session": session, "code_before": before, "nodes_tried": nodes}
            yield trace.span("gang.decide", session, cause["at"], cause["at"], more)
            before = ""


def _bindings(trace: _Trace, told: JobHistory) -> Iterator[PastSpan]:
    """Yield a span for each try of the Job, from the first binding of a pod to the last."""
    tries: dict[int, list[Row]] = defaultdict(list)
    for pod in told.pods:
        if pod["bound"] is not None:
            tries[pod["job_version"] or 0].append(pod)
    for version, pods in sorted(tries.items()):
        pods.sort(key=lambda pod: (pod["bound"], pod["name"]))
        last, count = len(pods) - 1, min(len(pods), MOST_EVENTS)
        chosen = [pods[at * last // max(1, count - 1)] for at in range(count)]
        events = [SpanEvent("bound", pod["bound"], {"pod": pod["name"], "node": pod["node"] or ""}) for pod in chosen]
        more = {"pods": len(pods), "version": version}
        yield trace.span("gang.bind", version, pods[0]["bound"], pods[-1]["bound"], more, events=events)


def _actions(trace: _Trace, told: JobHistory) -> Iterator[PastSpan]:
    """Yield a span for each action on the whole Job, until the Job entered its next phase."""
    phases = sorted(told.phases, key=lambda phase: phase["at"])
    for number, phase in enumerate(phases):
        action, begin = ACTIONS.get(phase["name"]), phase["at"]
        if action is not None:
            end = next((each["at"] for each in phases[number + 1 :]), trace.row["ended"])
            yield trace.span("policy.action", f"{action} {begin}", begin, max(begin, end), {"action": action})


def _replacements(trace: _Trace, told: JobHistory) -> Iterator[PastSpan]:
    """Yield a span for the pods of a task that were created again at the same time while the Job was active."""
    places: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for pod in told.pods:
        if pod["task_index"] is not None and pod["created"] is not None:
            places[pod["job_version"], pod["task"], pod["task_index"]].append(pod)
    again: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for pods in places.values():
        pods.sort(key=lambda pod: (pod["created"], pod["uid"]))
        for old, new in pairwise(pods):
            if old["evicted_for"] is None:
                again[new["task"] or "", new["created"]].append(old)
    for (task, at), replaced in sorted(again.items()):
        begin = min([at, *(old["finished"] for old in replaced if old["finished"] is not None)])
        more: dict[str, str | int] = {"action": "RestartPod", "task": task, "pods": len(replaced)}
        yield trace.span("policy.action", f"RestartPod {task} {at}", begin, at, more)
