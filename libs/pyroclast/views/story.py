"""The story of a Job: who submitted it, what it waited for, who evicted it and why it ended. Pure.

The page, the command `vcctl explain` and JSON show the same story. A source that did not answer is named, with the reason.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase
from pyroclast.views.jobs import BESIDE, WAITS, is_waiting, phase_of
from pyroclast.views.readable import clock_text, ranges_of

Object = Mapping[str, Any]
Step = dict[str, str | None]
"""Something that happened to a Job: `what`, a `text`, and `at`, an API timestamp, None when unknown."""

LOG_LINES: Final = 20
MOST_STEPS: Final = 64
LONGEST_LINE: Final = 400
NO_CODE: Final = "with no exit code"
_WELL: Final = frozenset({JobPhase.COMPLETED})
_ENDS: Final = frozenset(phase for phase in JobPhase if phase.is_finished)
_WORDS: Final = {"Running": "started", "Restarting": "restarted", "Aborting": "suspended", "Terminating": "terminated"}
_FOR: Final = re.compile(r"\((?P<action>[a-z]+)\)(?P<whom> for \S+(?: in queue [^\s,]+)?)?")
_PREFIXES: Final = ("Pod is evicted, because of ", "preempting to accommodate a higher priority pod ")


@dataclass(frozen=True, slots=True)
class LogSource:
    """The container whose last lines explain the end of a Job. `is_previous`: its log before the last restart."""

    pod: str
    container: str
    is_previous: bool

    @property
    def query(self) -> dict[str, str]:
        """The parameters of a request for the last lines."""
        previous = {"previous": "true"} if self.is_previous else {}
        return {"container": self.container, "tailLines": str(LOG_LINES), "limitBytes": str(64 * 1024), **previous}


@dataclass(frozen=True, slots=True)
class StoryFacts:
    """What is known of a Job. `job`: None for a deleted Job, of which `record`, the recorder's, tells.

    `record` is None if the recorder has none. `away`: the nodes that are not ready, each with the time since when. `unknown`:
    the sources that did not answer, each with the reason.
    """

    namespace: str
    name: str
    job: Object | None
    pods: Sequence[Object] = ()
    events: Sequence[Object] = ()
    record: Object | None = None
    away: Mapping[str, str] = field(default_factory=dict)
    unknown: Sequence[str] = ()
    log: Sequence[str] = ()
    log_unknown: str = ""


def story_of(facts: StoryFacts) -> dict[str, Any]:
    """Return the story as JSON: the record `Story` of the contract."""
    end, source = _end_of(facts), log_source(facts.pods)
    steps = sorted(_steps(facts, end), key=lambda step: step["at"] or "")
    if len(steps) > MOST_STEPS:  # the middle of a long life says least
        left_out = _step(None, "…", f"{len(steps) - MOST_STEPS} steps are left out")
        steps = [*steps[: MOST_STEPS // 2], left_out, *steps[-MOST_STEPS // 2 :]]
    return {
        "steps": steps,
        "end": end,
        "log": [printable(line) for line in facts.log[-LOG_LINES:]],
        "logOf": f"{source.pod}/{source.container}" if source and facts.log else None,
        "unknown": [*facts.unknown, *([f"the log is not known: {facts.log_unknown}"] if facts.log_unknown else [])],
        "next": _next(facts, end),
    }


def log_source(pods: Iterable[Object]) -> LogSource | None:
    """Return the container whose log says why pods fail: of failed pods, else of restarted ones; None without any."""
    ended, restarted = [], []
    for pod in pods:
        for each in _containers(pod):
            name, states = each.get("name", ""), (each.get("state") or {}, each.get("lastState") or {})
            now, before = (state.get("terminated") for state in states)
            if now is not None and now.get("exitCode"):
                ended.append((now.get("finishedAt") or "", LogSource(pod["metadata"]["name"], name, is_previous=False)))
            elif before is not None:
                restarted.append((before.get("finishedAt") or "", LogSource(pod["metadata"]["name"], name, is_previous=True)))
    found = min(ended, key=lambda each: (each[0], each[1].pod), default=None) or max(
        restarted, key=lambda each: (each[0], each[1].pod), default=None
    )
    return None if found is None else found[1]


def nodes_of(pods: Iterable[Object]) -> set[str]:
    """Return the nodes of pods that have not ended."""
    at_work = (pod for pod in pods if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"})
    return {node for pod in at_work if (node := (pod.get("spec") or {}).get("nodeName"))}


def away_since(node: Object) -> str | None:
    """Return since when a node is not ready; None for a ready node."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((each for each in conditions if each.get("type") == "Ready"), None)
    if ready is not None and ready.get("status") == "True":
        return None
    return str((ready or {}).get("lastTransitionTime") or "an unknown time")


def _step(at: str | None, what: str, text: str) -> Step:
    return {"at": at, "what": what, "text": text}


def _steps(facts: StoryFacts, end: Mapping[str, Any] | None) -> Iterator[Step]:
    record = facts.record or {}
    yield _submitted(facts)
    for cause in record.get("causes") or ():
        yield _step(cause["at"], "waited", _said(cause))
    if not record and facts.job is not None and (message := _state(facts.job).get("message", "")).startswith(WAITS):
        yield _step(_state(facts.job).get("lastTransitionTime"), "waits", message.removeprefix(WAITS))
    yield from _placed(facts.pods)
    if end is not None:
        yield _step(end["ended"], "container", _end_text(end))
    yield from _phases(facts)
    yield from _evictions(facts)
    for node, since in sorted(facts.away.items()):
        names = [pod["metadata"]["name"] for pod in facts.pods if (pod.get("spec") or {}).get("nodeName") == node]
        text = f"node {node} does not answer since {_clock(since)}: {len(names)} pods of this Job are on it ({ranges_of(names)})"
        yield _step(since if "T" in since else None, "node away", text)


def _submitted(facts: StoryFacts) -> Step:
    if facts.job is None:
        record = facts.record or {}
        return _step(record.get("submitted"), "submitted", f"by {record.get('user') or 'unknown'} to queue {record.get('queue')}")
    meta = facts.job["metadata"]
    user = (meta.get("annotations") or {}).get(keys.SUBMITTED_BY) or "unknown"
    owner = next((each for each in meta.get("ownerReferences") or () if each.get("controller")), None)
    made = f", made by {owner.get('kind')} {owner.get('name')}" if owner else ""
    queue = (facts.job.get("spec") or {}).get("queue") or "default"
    return _step(meta.get("creationTimestamp"), "submitted", f"by {user} to queue {queue}{made}")


def _placed(pods: Sequence[Object]) -> Iterator[Step]:
    """Yield when the pods of the present try got their nodes."""
    bound = [(at, pod["spec"]["nodeName"]) for pod in pods if (at := _bound_at(pod)) and (pod.get("spec") or {}).get("nodeName")]
    if bound:
        nodes = sorted({node for _, node in bound})
        where = ranges_of(nodes) if len(nodes) <= 16 else f"{len(nodes)} nodes"
        yield _step(max(at for at, _ in bound), "placed", f"{len(bound)} of {len(pods)} pods, on {where}")


def _phases(facts: StoryFacts) -> Iterator[Step]:
    """Yield the phases of the Job, by its conditions, or by the recorder's for a deleted Job."""
    record, job = facts.record or {}, facts.job
    reasons = {(each["at"], each["name"]): each.get("message") or "" for each in record.get("phases") or ()}
    phases = list(reasons)
    if job is not None:
        conditions = (job.get("status") or {}).get("conditions") or ()
        phases = [(str(each.get("lastTransitionTime") or ""), str(each.get("status") or "")) for each in conditions]
    last = phases[-1] if phases else None
    present = _state(job) if job is not None else record
    for phase in phases:
        at, name = phase
        if name in {"", JobPhase.PENDING}:
            continue
        message = reasons.get(phase, "")
        if phase == last and not message.startswith(WAITS):
            own = str(present.get("message") or "").partition(BESIDE)[0]  # what it waits for now is told elsewhere
            message = ": ".join(filter(None, (present.get("reason") or "", own))) or message
        text = f"{name}: {message}" if message and not message.startswith(WAITS) else name
        if name == JobPhase.RESTARTING and text == name:
            text = "its pods are made anew; the reason was not recorded"
        yield _step(at or None, _WORDS.get(name, "ended" if name in _ENDS else name.lower()), text)
    if job is not None and (at := job["metadata"].get("deletionTimestamp")):
        held = ", ".join(job["metadata"].get("finalizers") or ())
        yield _step(at, "deleted", f"it stays until its finalizers are removed: {held}" if held else "its deletion goes on")
    if job is None and record.get("removed"):
        yield _step(record["removed"], "deleted", "the Job does not exist any more")


def _evictions(facts: StoryFacts) -> Iterator[Step]:
    """Yield the evictions, with the action and the Job that got the room. Pods that were evicted for it at once are one step."""
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    for each in (facts.record or {}).get("evictions") or ():
        if text := _whom(each.get("message") or ""):
            seen.setdefault((each["pod"], text), (each.get("at") or "", text))
    for event in facts.events:
        about, text = event.get("involvedObject") or {}, _whom(event.get("message") or "")
        if event.get("reason") == "Evict" and about.get("kind") == "Pod" and is_pod_of(facts, about.get("name", "")):
            seen[about["name"], text] = (str(event.get("lastTimestamp") or event.get("eventTime") or ""), text)
    rows = sorted((text, at[:16], at, pod) for (pod, _), (at, text) in seen.items())
    for (text, _), group in groupby(rows, key=lambda row: row[:2]):
        listed = list(group)
        yield _step(listed[0][2] or None, "evicted", f"{len(listed)} pods ({ranges_of(row[3] for row in listed)}) by {text}")


def is_pod_of(facts: StoryFacts, name: str) -> bool:
    """Whether a name is that of a pod of the Job, also of one that is gone: the Job's name, a task's name and an index."""
    rest = name.removeprefix(f"{facts.name}-")
    return rest != name and rest.rpartition("-")[2].isdecimal()


def _whom(message: str) -> str:
    """Return by which action a pod was evicted and for whom, as far as the message of the scheduler says it."""
    found = _FOR.search(message)
    if found is None:
        for prefix in _PREFIXES:
            message = message.rpartition(prefix)[2]
        return message
    return f"{found['action']}{found['whom'] or ', it is not known for whom'}"


def _end_of(facts: StoryFacts) -> dict[str, Any] | None:
    """Return the first container that failed, in pods that exist; of a deleted Job what the recorder has."""
    source = log_source(facts.pods)
    if source is not None:
        pod = next(each for each in facts.pods if each["metadata"]["name"] == source.pod)
        status = next(each for each in _containers(pod) if each.get("name", "") == source.container)
        ended = (status.get("state") or {}).get("terminated") or (status.get("lastState") or {}).get("terminated") or {}
        return {
            "pod": source.pod,
            "container": source.container,
            "node": (pod.get("spec") or {}).get("nodeName"),
            "exitCode": ended.get("exitCode"),
            "signal": ended.get("signal") or None,
            "reason": ended.get("reason") or None,
            "ended": ended.get("finishedAt"),
        }
    record = facts.record or {}
    if record.get("exitCode") and (facts.job is None or phase_of(facts.job) in _ENDS):
        empty = dict.fromkeys(("pod", "container", "node", "signal"))
        return {**empty, "exitCode": record["exitCode"], "reason": record.get("state"), "ended": record.get("ended")}
    return None


def _end_text(end: Mapping[str, Any]) -> str:
    where = f"container {end['container']} of pod {end['pod']} on node {end['node']}" if end["pod"] else "a container"
    code = NO_CODE if end["exitCode"] is None else f"with exit code {end['exitCode']}"
    return f"{where} ended {code}" + (f" ({end['reason']})" if end["reason"] not in {None, "Error"} else "")


def _next(facts: StoryFacts, end: Mapping[str, Any] | None) -> str:
    """Return the command that helps next."""
    of = f"-n {facts.namespace} {facts.name}"
    if facts.job is None:
        return f"vcctl history {of}"
    phase = phase_of(facts.job)
    if facts.job["metadata"].get("deletionTimestamp"):
        return f"kubectl get vcjob {of} -o jsonpath={{.metadata.finalizers}}"
    if phase in {JobPhase.ABORTED, JobPhase.ABORTING}:
        return f"vcctl job resume -n {facts.namespace} -N {facts.name}"
    if is_waiting(facts.job):
        return f"vcctl order {(facts.job.get('spec') or {}).get('queue') or 'default'}"
    if facts.away:
        return f"vcctl explain node/{min(facts.away)}"
    if end is not None and end["reason"] in {"OOMKilled", "OutOfMemory"}:
        return f"vcctl efficiency {of}"
    if phase in _ENDS and phase not in _WELL:
        return f"vcctl logs {of} --failed" if end is not None and end["pod"] else f"vcctl history {of}"
    if phase in _WELL:
        return f"vcctl efficiency {of}"
    return f"vcctl logs {of} --previous" if end is not None else f"vcctl logs {of} -f"


def story_lines(story: Mapping[str, Any], *, width: int = 79) -> list[str]:
    """Return a story as lines of text for a terminal."""
    lines = ["story"] if story["steps"] else []
    for step in story["steps"]:
        head = f"  {_clock(step['at']) if step['at'] else '?':<8} {step['what']:<9} "
        lines += textwrap.wrap(step["text"], width, initial_indent=head, subsequent_indent=" " * 21, break_long_words=False)
    if story["log"]:
        number = len(story["log"])
        lines.append(f"log      the last {f'{number} lines' if number > 1 else 'line'} of {story['logOf']}")
        lines += [f"  | {line}" for line in story["log"]]
    for each in story["unknown"]:
        lines += textwrap.wrap(each, width, initial_indent="unknown  ", subsequent_indent=" " * 9, break_long_words=False)
    return [*lines, f"next     {story['next']}"]


def with_log(facts: StoryFacts, text: str) -> StoryFacts:
    """Return the facts with the text of a log."""
    return replace(facts, log=tuple(text.splitlines()[-LOG_LINES:]))


def printable(line: str) -> str:
    """Return a line of a log without characters that would change the terminal."""
    kept = "".join(each if each.isprintable() or each == "\t" else "\N{REPLACEMENT CHARACTER}" for each in line[:LONGEST_LINE])
    return kept + ("…" if len(line) > LONGEST_LINE else "")


def _clock(at: str) -> str:
    """Return an API timestamp as local time to the second, with the date if it is not today's."""
    return clock_text(at, seconds=True) if "T" in at else at


def _said(step: Mapping[str, Any]) -> str:
    return f"{step['name']}: {step['message']}" if step.get("message") else str(step["name"])


def _state(job: Object) -> Mapping[str, Any]:
    return (job.get("status") or {}).get("state") or {}


def _containers(pod: Object) -> Sequence[Mapping[str, Any]]:
    status = pod.get("status") or {}
    return (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))


def _bound_at(pod: Object) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((str(each.get("lastTransitionTime") or "") for each in conditions if each.get("type") == "PodScheduled"), "")
