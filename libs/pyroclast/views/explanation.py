"""The document `Explanation`: the stored cause of what waits, the trail of its causes, and the text for a terminal.

The scheduler alone explains why a gang waits: it knows the order, the holders and the likely start. Without its answer, readers
show the cause that the scheduler or a controller last wrote on the objects, and say that it is the last known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from pyroclast.api.types import JOBS
from pyroclast.api.waiting_codes import CODES, NEVER, TOLD_BY_SCHEDULER
from pyroclast.api.waiting_reasons import PendingReason, reason_of
from pyroclast.lifecycle.times import format_time
from pyroclast.views.contract import document
from pyroclast.views.groups import estimate_of, said_of
from pyroclast.views.jobs import Waiter, WaitingCause, seconds_since
from pyroclast.views.readable import as_text, clock_text, human_duration, readable

MOST_CAUSES: Final = 8
MOST_DIGITS: Final = 6


def stored_explanation(waiter: Waiter, now: float, *, trouble: WaitingCause | None = None) -> dict[str, Any]:
    """Return the document `Explanation` from the stored cause. `trouble`: what is wrong with a Job that runs."""
    named = {"metadata": {"namespace": waiter.namespace, "name": waiter.name}, "queue": waiter.queue or ""}
    as_of = {"asOf": format_time(now), "complete": False}
    cause = waiter.cause
    if cause is None:
        fields: dict[str, Any] = {"code": None, "never": False, "sentence": waiter.sentence, "phase": waiter.phase}
        if trouble is not None:
            sentence = f"it is {waiter.phase}; {trouble.sentence}"
            fields |= {
                "code": trouble.code,
                "never": trouble.is_final,
                "sentence": sentence,
                "since": trouble.since,
                **_advice(trouble.code),
            }
        return document("Explanation", {**named, **fields, **as_of})
    start = None if cause.is_final else estimate_of(waiter.group, now)
    reason = "waiting alone does not help" if cause.is_final else "no estimate is made"
    fields = {
        "phase": waiter.phase,
        "code": cause.code,
        "never": cause.is_final,
        "since": cause.since,
        **({"waitedSeconds": seconds_since(waiter.created, now)} if waiter.created else {}),
        "sentence": cause.sentence,
        "start": start,
        **({} if start else {"startReason": reason}),
        **_advice(cause.code),
        **as_of,
    }
    if cause.code in TOLD_BY_SCHEDULER:
        fields["seen"] = str(said_of(waiter.group).get("seen") or cause.since)
    return document("Explanation", {**named, **fields})


def unserved(job: Mapping[str, Any], absence: str, now: float) -> dict[str, Any]:
    """Return the document `Explanation` of a Job that does not exist, and whose scheduler does not run. `absence`: says so."""
    meta, queue = job["metadata"], str((job.get("spec") or {}).get("queue") or "default")
    cause = WaitingCause(PendingReason.NO_SCHEDULER, absence, format_time(now))
    return stored_explanation(Waiter(JOBS.qualified, meta["namespace"], meta["name"], "", cause, queue=queue), now)


def with_trail(answer: Mapping[str, Any], causes: Sequence[Mapping[str, Any]] | str) -> dict[str, Any]:
    """Return the answer about a waiting Job with its last causes, the current cause at the end.

    `causes` are those that the recorder stored, oldest first. A text says why there are none; the trail is then that of the
    scheduler, which begins when it began to lead.
    """
    if isinstance(causes, str):
        return {**answer, "trailReason": causes}
    causes_since = [(code, each["at"]) for each in causes if (code := _code(each))]
    causes_since.append((str(answer["code"]), answer["since"]))
    first_of_each = [pair for before, pair in pairwise([("", ""), *causes_since]) if pair[0] != before[0]]
    return {**answer, "trail": [{"code": code, "since": since} for code, since in first_of_each[-MOST_CAUSES:]]}


def _code(cause: Mapping[str, Any]) -> str:
    """Return the code of a stored cause; for Volcano's reasons, the message contains the code."""
    return str(cause["name"]) if cause["name"] in set(PendingReason) else reason_of(cause.get("message") or "")


def _advice(code: str) -> dict[str, str]:
    facts = CODES.get(PendingReason(code)) if code in set(PendingReason) else None
    return {"help": "" if facts is None else facts.help, "doc": f"docs/codes.md#{code.lower()}"}


def explanation_lines(answer: Mapping[str, Any], *, verb: str = "waits") -> list[str]:
    """Return the document `Explanation` as lines of text for a terminal. `verb`: `would wait` for a Job that does not exist."""
    queue = f" in queue {answer['queue']}" if answer["queue"] else ""
    name = f"{answer['metadata']['namespace']}/{answer['metadata']['name']}"
    if answer["code"] is None:
        return [f"{name}{queue}: {answer['sentence']}"]
    if "waitedSeconds" not in answer:
        head = f"{name}{queue}: {answer['code']}"
        return [head, f"why      {answer['sentence']}", f"help     {answer['help']}; see {answer['doc']}"]
    when = "never" if answer["never"] else "not now"
    waited = "" if verb != "waits" else f" for {human_duration(answer['waitedSeconds'])}"
    lines = [f"{name} {verb}{waited}{queue}: {answer['code']}, {when}"]
    lines.append(f"why      {answer['sentence'].removeprefix(f'{when}: ')}")
    if place := answer.get("position"):
        position = f"{place['position']} of {place['total']} in its queue by the scheduler's order"
        lines.append(f"before   {position}{_behind(answer['ahead'])}")
    if holders := answer.get("holders"):
        lines.append(f"holds    {', '.join(map(_holder, holders))}")
    lines.append(start_line(answer))
    if changes := answer.get("change"):
        lines.append(f"change   any one of: {' · '.join(each['text'] for each in changes)}")
    elif answer.get("changeReason"):
        lines.append(f"change   {answer['changeReason']}")
    if len(trail := answer.get("trail") or []) > 1:
        lines.append(f"trail    {' → '.join(_trail(trail))}")
    if reason := answer.get("trailReason"):
        lines.append(f"trail    {'older causes: ' if len(trail) > 1 else ''}not known: {reason}")
    if answer["help"]:
        lines.append(f"help     {answer['help']}; see {answer['doc']}")
    lines.append(f"as of    {_source(answer)}")
    return lines


def _source(answer: Mapping[str, Any]) -> str:
    if answer["complete"]:
        return f"{clock_text(answer['asOf'])}, from the scheduler"
    if seen := answer.get("seen"):
        return f"{clock_text(seen)}, the last that the scheduler wrote: it gives no answer now"
    return f"{clock_text(answer['asOf'])}, from the objects in the API server"


def _behind(ahead: Mapping[str, Any]) -> str:
    before = [f"{each['namespace']}/{each['name']} ({as_text(each['asks'])})" for each in ahead["jobs"]]
    before += [f"{ahead['others']} more"] if ahead["others"] else []
    total = f", {readable(ahead['resource'], ahead['amount'])} {ahead['resource']} in all" if ahead.get("amount") else ""
    return f"; before it {', '.join(before)}{total}" if before else ""


def listed_start(answer: Mapping[str, Any]) -> list[str] | str | None:
    """Return the likely start of a document of the scheduler in the form of lists: three times, `never` or None."""
    if answer["never"]:
        return NEVER
    start = answer["start"]
    return None if start is None else [start[name] for name in ("earliest", "likely", "latest")]


def start_line(answer: Mapping[str, Any]) -> str:
    """Return a line with the likely start of the Job, or why there is no estimate."""
    start = answer["start"]
    if not start:
        return f"start    {'never' if answer['never'] else 'not known'}: {answer['startReason']}"
    earliest, likely, latest = (clock_text(start[name]) for name in ("earliest", "likely", "latest"))
    basis = f"; by: {start['basis']}" if start.get("basis") else ""
    return f"start    between {earliest} and {latest}, most likely {likely}{basis}"


PARTS: Final = ("add", "queue", "capability", "job", "pods", "drain")


def what_if_body(given: Mapping[str, str], namespace: str) -> dict[str, Any]:
    """Return the question what a change would do, from texts such as `add` nvidia.com/gpu=8. ValueError: a text is invalid.

    `namespace`: that of a Job that is named without one.
    """
    body: dict[str, Any] = {}
    for name in ("add", "capability"):
        if text := given.get(name, ""):
            pairs = [each.partition("=") for each in text.split(",")]
            if not all(resource and value for resource, _, value in pairs):
                raise ValueError(f'{name}: "{text[:64]}" is not RESOURCE=AMOUNT, such as nvidia.com/gpu=8')
            body[name] = {resource.strip(): value.strip() for resource, _, value in pairs}
    if given.get("queue"):
        body["queue"] = given["queue"].removeprefix("queue/")
    if drained := given.get("drain", ""):
        body["drain"] = [each.strip().removeprefix("node/") for each in drained.split(",") if each.strip()]
    if job := given.get("job", "").removeprefix("job/"):
        space, _, name = job.rpartition("/")
        body["job"] = {"namespace": space or namespace, "name": name}
    if pods := given.get("pods", ""):
        if not pods.isdecimal() or len(pods) > MOST_DIGITS:
            raise ValueError(f'pods: "{pods[:64]}" is no number of pods')
        body["pods"] = int(pods)
    if not body:
        raise ValueError("say what would change: add, queue and capability, job and pods, or drain")
    return body


def what_if_summary(answer: Mapping[str, Any]) -> list[str]:
    """Return what a change would do, as sentences: the Job that it names, and how many start earlier or later."""
    lines = []
    if (trial := answer.get("trial")) is not None:
        evicted = f", and {trial['evictions']} pods would be evicted for it" if trial["evictions"] else ""
        waits = "the Job would still wait" + (f": {trial['code']}: {trial['sentence']}" if trial["code"] else "")
        lines.append(f"the Job would start at the next session{evicted}" if trial["starts"] else waits)
    total = answer["earlier"] + answer["later"] + answer["same"]
    lines.append(f"of {total} waiting Jobs, {answer['earlier']} would start earlier and {answer['later']} later")
    lines.append("room is counted as sums of the cluster and its queues, not node by node")
    if answer["hidden"]:
        lines.append(f"{answer['hidden']} of them are of others, which you may not see")
    return lines


def _trail(trail: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the last codes, each with its duration; the current code with its beginning."""
    begins = [datetime.fromisoformat(each["since"]) for each in trail]
    held = [human_duration(int((end - begin).total_seconds())) for begin, end in pairwise(begins)]
    past = [f"{each['code']} {duration}" for each, duration in zip(trail, held, strict=False)]
    return [*past, f"{trail[-1]['code']} since {clock_text(trail[-1]['since'])}"]


def _holder(holder: Mapping[str, Any]) -> str:
    who = f"{holder['others']} more" if holder["name"] is None else f"{holder['namespace']}/{holder['name']}"
    until = f" until ~{clock_text(holder['until'])}" if holder.get("until") else ""
    return f"{who} {holder['amount']} {holder['resource']}{until}"
