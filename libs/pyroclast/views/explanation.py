"""The answer to "why does my Job wait?", computed from the objects of the API server; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from pyroclast.api.waiting_codes import CODES
from pyroclast.api.waiting_reasons import PendingReason, reason_of
from pyroclast.views.amounts import added, amount, as_text, main_resources, readable
from pyroclast.views.documents import document
from pyroclast.views.flows import OpenEntry
from pyroclast.views.human_durations import human_duration
from pyroclast.views.jobs import WAITING_PHASES, Group, JobView, Reading, seconds_since
from pyroclast.views.starts import clock_text, estimate_of
from pyroclast.views.waiting_causes import is_waiting, running_cause

SHOWN: Final = 3
MOST_CAUSES: Final = 8
OF_THE_QUEUE: Final = frozenset({PendingReason.QUEUE_FULL, PendingReason.ABOVE_QUEUE_LIMIT})
OF_THE_CLUSTER: Final = frozenset({PendingReason.CLUSTER_FULL, PendingReason.NODES_FULL, PendingReason.HELD_BY_GUARANTEE})


def explanation(
    view: JobView,
    queue: Mapping[str, Any] | None,
    reading: Reading,
    now: float,
    may_name: Callable[[str], bool] = lambda _: True,
) -> dict[str, Any]:
    """Return the document `Explanation`.

    Args:
        view: the Job with its PodGroup and its cause.
        queue: the Queue object of the Job; None when it does not exist.
        reading: the PodGroups that the user may read.
        now: seconds since the epoch.
        may_name: whether the user may read the Jobs of a namespace. Jobs of other namespaces are counted and never named.
    """
    metadata, cause = {"namespace": view.namespace, "name": view.name}, view.cause
    if not is_waiting(view.job):
        fields = {"code": None, "never": False, "sentence": f"it is {view.phase} and does not wait", "phase": view.phase}
        if (wrong := running_cause(view.job)) is not None:
            sentence = f"it is {view.phase}; {wrong.sentence}"
            fields |= {"code": wrong.code, "sentence": sentence, "since": wrong.since, **_advice(wrong.code)}
        return document("Explanation", {"metadata": metadata, "queue": view.queue, **fields, **_as_of(reading, now)})
    ahead, total = _order(view, reading)
    start = None if cause.is_final else estimate_of(view.group)
    reason = {} if start else {"startReason": "waiting alone does not help" if cause.is_final else "no estimate is made"}
    return document(
        "Explanation",
        {
            "metadata": metadata,
            "queue": view.queue,
            "phase": view.phase,
            "code": cause.code,
            "never": cause.is_final,
            "since": cause.since,
            "waitedSeconds": seconds_since(view.job["metadata"]["creationTimestamp"], now),
            "sentence": cause.sentence,
            "resources": _resources(view, queue),
            "position": {"position": len(ahead) + 1, "total": total},
            "ahead": _ahead(ahead, may_name),
            "holders": _holders(view, reading, may_name),
            "start": start,
            **reason,
            **_advice(cause.code),
            **_as_of(reading, now),
        },
    )


def entry_explanation(entry: OpenEntry, now: float) -> dict[str, Any]:
    """Return the document `Explanation` of a Job that its flow has not created yet. `now`: seconds since the epoch."""
    fields = {
        "metadata": {"namespace": entry.namespace, "name": entry.name},
        "queue": "",
        "phase": "",
        "code": PendingReason.WAITS_FOR_ENTRY,
        "never": entry.is_final,
        "since": entry.created,
        "sentence": entry.sentence,
    }
    reading = Reading([], is_complete=True)
    return document("Explanation", {**fields, **_advice(PendingReason.WAITS_FOR_ENTRY), **_as_of(reading, now)})


def with_trail(answer: Mapping[str, Any], causes: Sequence[Mapping[str, Any]] | str) -> dict[str, Any]:
    """Return the answer about a waiting Job with its last causes, the current cause at the end.

    Args:
        answer: the document `Explanation`.
        causes: the causes that the recorder stored, oldest first, each with `at` and `name`. If this is a text, it says why there
            are none; the trail is then that of the scheduler, which begins when the scheduler began to lead.
    """
    if isinstance(causes, str):
        return {**answer, "trailReason": causes}
    told = [(code, each["at"]) for each in causes if (code := _code(each))]
    told.append((str(answer["code"]), answer["since"]))
    first_of_each = [pair for before, pair in pairwise([("", ""), *told]) if pair[0] != before[0]]
    return {**answer, "trail": [{"code": code, "since": since} for code, since in first_of_each[-MOST_CAUSES:]]}


def _code(cause: Mapping[str, Any]) -> str:
    """Return the code of a stored cause; for Volcano's reasons, the message contains the code."""
    return str(cause["name"]) if cause["name"] in set(PendingReason) else reason_of(cause.get("message") or "")


def _advice(code: PendingReason) -> dict[str, str]:
    return {"help": CODES[code].help, "doc": f"docs/codes.md#{code.lower()}"}


def _as_of(reading: Reading, now: float) -> dict[str, Any]:
    """Return time and source of the answer. `complete` is false, because the objects lack what only the scheduler knows."""
    stamp = datetime.fromtimestamp(now).astimezone().isoformat(timespec="seconds")
    return {"asOf": stamp, "complete": False, "seesWholeCluster": reading.is_complete}


def _order(view: JobView, reading: Reading) -> tuple[list[Group], int]:
    """Return the PodGroups ahead of this one in its queue, by priority and age, and how many PodGroups wait in the queue."""
    waiting = [each for each in reading.groups if _queue(each) == view.queue and _phase(each) in WAITING_PHASES]
    own = view.group
    if own is None:
        return [], len(waiting) + 1
    waiting.sort(key=_rank)
    before = [each for each in waiting if _rank(each) < _rank(own) and each["metadata"]["uid"] != own["metadata"]["uid"]]
    return before, max(len(waiting), len(before) + 1)


def _rank(group: Group) -> tuple[int, str, str, str]:
    metadata = group["metadata"]
    priority = int((group.get("spec") or {}).get("priority") or 0)
    return -priority, metadata["creationTimestamp"], metadata["namespace"], metadata["name"]


def _resources(view: JobView, queue: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the requests of the Job, beside the use and the limits of its queue."""
    spec, status = (queue or {}).get("spec") or {}, (queue or {}).get("status") or {}
    limits, used = spec.get("capability") or {}, status.get("allocated") or {}
    return [
        {
            "resource": name,
            "asked": readable(name, asked),
            "used": readable(name, used.get(name, 0)),
            "limit": readable(name, limits[name]) if name in limits else None,
        }
        for name, asked in sorted(view.asks.items())
        if amount(asked)
    ]


def _ahead(groups: Sequence[Group], may_name: Callable[[str], bool]) -> dict[str, Any]:
    named = [each for each in groups if may_name(each["metadata"]["namespace"])][:SHOWN]
    return {"jobs": [_asking(each) for each in named], "others": len(groups) - len(named)}


def _holders(view: JobView, reading: Reading, may_name: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Return the Jobs that have most of the scarce resource, in the queue or in the cluster."""
    if view.cause.code not in OF_THE_QUEUE | OF_THE_CLUSTER:
        return []
    at_work = [each for each in reading.groups if _phase(each) in {"Running", "Unknown"}]
    if view.cause.code in OF_THE_QUEUE:
        at_work = [each for each in at_work if _queue(each) == view.queue]
    short = next(
        (name for name in sorted(view.asks, key=lambda name: ("/" not in name, name)) if f" {name}" in view.cause.sentence), None
    )
    if short is None:
        return []
    having = [(amount(_asks(each).get(short, 0)), each) for each in at_work]
    having = sorted((pair for pair in having if pair[0]), key=lambda pair: (-float(pair[0]), _rank(pair[1])))
    named = [pair for pair in having if may_name(pair[1]["metadata"]["namespace"])][:SHOWN]
    found = [{**_asking(group), "amount": readable(short, has), "resource": short} for has, group in named]
    shown = {id(group) for _, group in named}
    if rest := [pair for pair in having if id(pair[1]) not in shown]:
        total = added({short: str(has)} for has, _ in rest)[short]
        found.append({"namespace": None, "name": None, "others": len(rest), "amount": readable(short, total), "resource": short})
    return found


def _asking(group: Group) -> dict[str, Any]:
    owner: Mapping[str, Any] = next(iter(group["metadata"].get("ownerReferences") or ()), {})
    name = owner.get("name") or group["metadata"]["name"]
    return {"namespace": group["metadata"]["namespace"], "name": name, "asks": _asks(group)}


def _asks(group: Group) -> dict[str, str]:
    return main_resources((group.get("spec") or {}).get("minResources") or {})


def _queue(group: Group) -> str:
    return str((group.get("spec") or {}).get("queue") or "default")


def _phase(group: Group) -> str:
    return str((group.get("status") or {}).get("phase", ""))


def explanation_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return the document `Explanation` as lines of text for a terminal."""
    name = f"{answer['metadata']['namespace']}/{answer['metadata']['name']}"
    if answer["code"] is None:
        return [f"{name} in queue {answer['queue']}: {answer['sentence']}"]
    if "position" not in answer:
        head = f"{name}{f' in queue {queue}' if (queue := answer['queue']) else ''}: {answer['code']}"
        return [head, f"why      {answer['sentence']}", f"help     {answer['help']}; see {answer['doc']}"]
    when = "never" if answer["never"] else "not now"
    waited = human_duration(answer["waitedSeconds"])
    lines = [f"{name} waits for {waited} in queue {answer['queue']}: {answer['code']}, {when}"]
    lines.append(f"why      {answer['sentence'].removeprefix(f'{when}: ')}")
    place, ahead = answer["position"], answer["ahead"]
    before = [f"{each['namespace']}/{each['name']} ({as_text(each['asks'])})" for each in ahead["jobs"]]
    before += [f"{ahead['others']} more"] if ahead["others"] else []
    in_all = f", {readable(ahead['resource'], ahead['amount'])} {ahead['resource']} in all" if ahead.get("amount") else ""
    behind = f"; before it {', '.join(before)}{in_all}" if before else ""
    order = "by the scheduler's order" if answer["complete"] else "by priority and age"
    lines.append(f"before   {place['position']} of {place['total']} in its queue {order}{behind}")
    if answer["holders"]:
        lines.append(f"holds    {', '.join(_holder(each) for each in answer['holders'])}")
    lines.append(start_line(answer))
    if changes := answer.get("change"):
        lines.append(f"change   any one of: {' · '.join(map(_change, changes))}")
    elif answer.get("changeReason"):
        lines.append(f"change   {answer['changeReason']}")
    if len(trail := answer.get("trail") or []) > 1:
        lines.append(f"trail    {' → '.join(_trail(trail))}")
    if reason := answer.get("trailReason"):
        lines.append(f"trail    {'older causes: ' if len(trail) > 1 else ''}not known: {reason}")
    lines.append(f"help     {answer['help']}; see {answer['doc']}")
    seen = "" if answer["seesWholeCluster"] else "; Jobs of other namespaces are not counted: you may not list PodGroups there"
    source = "from the scheduler" if answer["complete"] else "from the objects in the API server"
    lines.append(f"as of    {answer['asOf']}, {source}{seen}")
    return lines


def start_line(answer: Mapping[str, Any]) -> str:
    """Return a line with the likely start of the Job, or why there is no estimate."""
    start = answer["start"]
    if not start:
        return f"start    {'never' if answer['never'] else 'not known'}: {answer['startReason']}"
    earliest, likely, latest = (clock_text(start[name]) for name in ("earliest", "likely", "latest"))
    basis = f"; by: {start['basis']}" if start.get("basis") else ""
    return f"start    between {earliest} and {latest}, most likely {likely}{basis}"


def _change(change: Mapping[str, Any] | str) -> str:
    return change if isinstance(change, str) else str(change.get("text") or change)


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
