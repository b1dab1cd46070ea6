"""The answers to "why does my Job wait?": code, numbers, order and holders. Only names that the user may see are included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from pyroclast.api.waiting_codes import CODES, Stage
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.times import format_time
from pyroclast.views.contract import document
from pyroclast.views.readable import main_resources
from pyroclast_scheduler.explaining.annotations import Start
from pyroclast_scheduler.explaining.book import WaitingBook, WaitingEntry
from pyroclast_scheduler.explaining.what_if import Compared
from pyroclast_scheduler.model.causes import Shortage
from pyroclast_scheduler.model.dimensions import summed
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.model.values import number

SHOWN: Final = 3
MOST_PROMISES: Final = 1000
_LOOKED_AT: Final = 100  # how many jobs ahead and how many holders are searched for namespaces
MOST_NAMESPACES: Final = 32
"""The number of namespaces whose access is checked for one answer. Jobs of further namespaces are only counted."""

_OF_CLUSTER: Final = frozenset({PendingReason.CLUSTER_FULL, PendingReason.HELD_BY_GUARANTEE})
_LIMITLESS: Final = frozenset({PendingReason.NO_NODE_BIG_ENOUGH, PendingReason.TOO_FEW_NODES, PendingReason.ABOVE_CLUSTER})

Names = Callable[[str], bool]
"""A function that tells whether Jobs of a namespace may be named."""


@dataclass(frozen=True, slots=True)
class Answerer:
    """The data from which requests for explanations are answered.

    `start` returns the estimated start of a job or a text that says why there is none, `end` the estimated end of a running job
    and its basis. `promised`: the gangs that were let in and may be owed room. `ended`: the keys of those whose promise ended by
    time.
    """

    book: WaitingBook
    jobs: Mapping[str, JobFacts]
    now: float
    reservations: Mapping[str, Reservation]
    start: Callable[[str], Start | str]
    end: Callable[[JobFacts], tuple[float, str] | None]
    promised: Collection[JobFacts] = ()
    ended: Collection[str] = ()

    def namespaces(self, entry: WaitingEntry, having: Sequence[tuple[JobFacts, int]]) -> list[str]:
        """Return the namespaces of the jobs that an answer may name, the most important first. `having`: see `holders`."""
        ahead = (each.key for each in self.book.between(entry.record.queue, 0, min(_LOOKED_AT, self.book.ahead(entry))))
        keys = [entry.key, entry.record.holder, *(facts.key for facts, _ in having[:_LOOKED_AT]), *ahead]
        return list(dict.fromkeys(key.partition("/")[0] for key in keys if key))[:MOST_NAMESPACES]

    def holders(self, entry: WaitingEntry) -> list[tuple[JobFacts, int]]:
        """Return the jobs with allocated amounts of the short resource, in the queue or the cluster, largest amount first."""
        short = _short(entry)
        if short is None or entry.code in _LIMITLESS:
            return []
        is_own = CODES[entry.code].stage is Stage.IN_QUEUE and entry.code not in _OF_CLUSTER
        queue = entry.record.queue
        having = [
            (facts, has)
            for facts in self.jobs.values()
            if (has := facts.sums.allocated.get(short.resource, 0)) > 0 and (not is_own or facts.queue == queue)
        ]
        return sorted(having, key=lambda each: (-each[1], each[0].key))


def answer_of(source: Answerer, entry: WaitingEntry, names: Names, having: Sequence[tuple[JobFacts, int]]) -> dict[str, Any]:
    """Return the document `Explanation` of a waiting job. `having`: see `Answerer.holders`."""
    facts = source.jobs.get(entry.key)
    place = source.book.ahead(entry)
    ahead = source.book.between(entry.record.queue, 0, place)
    start = source.start(entry.key)
    facts_of_code = CODES[entry.code]
    namespace, name = name_of(entry.key, facts)
    fields = {
        "metadata": {"namespace": namespace, "name": name},
        "queue": entry.record.queue or (facts.queue if facts is not None else ""),
        "phase": "" if facts is None else str(facts.phase),
        "code": str(entry.code),
        "never": entry.is_never,
        "since": format_time(entry.since),
        "waitedSeconds": 0 if facts is None else max(0, int(source.now - facts.created)),
        "sentence": entry.record.sentence,
        "resources": [_resource(each) for each in entry.short],
        "position": {"position": place + 1, "total": source.book.length(entry.record.queue)},
        "ahead": _ahead(source, entry, ahead, names),
        "holders": _holders(source, entry, names, having),
        "start": None if isinstance(start, str) else _start(start),
        "startReason": start if isinstance(start, str) else "",
        "trail": [{"code": str(past.code), "since": format_time(past.since)} for past in entry.past],
        "help": facts_of_code.help,
        "doc": f"docs/codes.md#{entry.code.lower()}",
        "asOf": format_time(source.now),
        "seen": format_time(entry.seen),
        "complete": True,
        "seesWholeCluster": True,
    }
    return document("Explanation", fields)


def queue_rows(source: Answerer, queue: str, names: Names, offset: int, limit: int) -> dict[str, Any]:
    """Return the document `QueueOrder`: a range of the waiting jobs of a queue, in the order of the scheduler."""
    rows = []
    for at, entry in enumerate(source.book.between(queue, offset, offset + limit), offset + 1):
        facts = source.jobs.get(entry.key)
        namespace, name = name_of(entry.key, facts)
        is_named = names(namespace)
        start = source.start(entry.key)
        rows.append({
            "position": at,
            "namespace": namespace if is_named else None,
            "name": name if is_named else None,
            "object": "" if facts is None else facts.group.kind.qualified,
            "code": str(entry.code),
            "never": entry.is_never,
            "since": format_time(entry.since),
            "waitedSeconds": 0 if facts is None else max(0, int(source.now - facts.created)),
            "priority": None if facts is None else facts.priority,
            "ranks": source.book.ranks(entry),
            "asks": {} if facts is None else _asks(facts),
            "start": None if isinstance(start, str) else _start(start),
        })  # fmt: skip
    total = source.book.length(queue)
    promises = _promises(source, queue, names)
    fields = {"queue": queue, "total": total, "offset": offset, "items": rows, "promises": promises}
    fields["asOf"] = format_time(source.now)
    return document("QueueOrder", fields)


def _promises(source: Answerer, queue: str, names: Names) -> list[dict[str, Any]]:
    """Return what the gangs of a queue are owed, and why or why not, the most important first; at most `MOST_PROMISES`."""
    gangs = sorted((each for each in source.promised if each.queue == queue), key=lambda each: (-each.priority, each.key))
    rows = []
    for facts in gangs[:MOST_PROMISES]:
        namespace, name = name_of(facts.key, facts)
        is_named, has_ended = names(namespace), facts.key in source.ended
        why = "its pods found no nodes for too long" if has_ended else str(facts.promise.why)
        amounts = facts.promise.amounts or summed(each.shape.request for each in facts.lost)
        owed = {} if has_ended else {each: number(each, amount) for each, amount in sorted(amounts.items())}
        who = {"namespace": namespace if is_named else None, "name": name if is_named else None}
        rows.append({**who, "priority": facts.priority, "owed": main_resources(owed), "why": why})
    return rows


def ends_of(source: Answerer, running: Sequence[JobFacts], names: Names) -> dict[str, Any]:
    """Return the document `RunningEnds`: when the running jobs that may be named end, as far as that is known, and its basis.

    A job of 10 similar ones that ended ends by its `until` with `basis` history in 9 cases.
    """
    rows = []
    for facts in running:
        namespace, name = name_of(facts.key, facts)
        if names(namespace) and (end := source.end(facts)) is not None:
            rows.append({"namespace": namespace, "name": name, "until": format_time(end[0]), "basis": end[1]})
    return document("RunningEnds", {"items": rows, "asOf": format_time(source.now)})


def compared_rows(
    source: Answerer, compared: Sequence[Compared], trial: Mapping[str, Any], visible: Collection[str]
) -> dict[str, Any]:
    """Return the document `WhatIf`: the starts of waiting jobs without and with a change; hidden jobs are only counted.

    `trial`: the decision of the next session about the Job that the change names; empty for none.
    """
    counts = Counter(each.effect for each in compared)
    rows = []
    for each in compared:
        facts = source.jobs.get(each.key)
        namespace, name = name_of(each.key, facts)
        if namespace in visible:
            starts = {"before": each.before, "after": each.after}
            sides = {side: None if isinstance(start, str) else _start(start) for side, start in starts.items()}
            reason = each.after if isinstance(each.after, str) else ""
            queue = "" if facts is None else facts.queue
            rows.append({"namespace": namespace, "name": name, "queue": queue, **sides, "reason": reason, "effect": each.effect})
    rows.sort(key=lambda row: row["effect"] == "same")
    fields: dict[str, Any] = {name: counts[name] for name in ("earlier", "later", "same")}
    fields |= {"hidden": len(compared) - len(rows), "items": rows, "asOf": format_time(source.now)}
    return document("WhatIf", {**fields, **({"trial": dict(trial)} if trial else {})})


def name_of(key: str, facts: JobFacts | None) -> tuple[str, str]:
    """Return namespace and name for users: those of the Job that controls the PodGroup, if there is one."""
    namespace, _, name = key.partition("/")
    owner = None if facts is None else facts.group.metadata.controller
    if owner is not None and owner.kind == "Job":
        return namespace, owner.name
    return namespace, name if facts is None else facts.group.metadata.name


def _ahead(source: Answerer, entry: WaitingEntry, ahead: Sequence[WaitingEntry], names: Names) -> dict[str, Any]:
    short = _short(entry)
    pairs = [(each, source.jobs.get(each.key)) for each in ahead]
    named = list(islice((pair for pair in pairs if names(pair[0].key.partition("/")[0])), SHOWN))
    answer: dict[str, Any] = {
        "jobs": [_asking(each.key, facts) for each, facts in named],
        "others": len(pairs) - len(named),
        "resource": None,
        "amount": None,
    }
    if short is not None:
        total = sum((facts.min_resources or {}).get(short.resource, 0) for _, facts in pairs if facts is not None)
        answer |= {"resource": short.resource, "amount": number(short.resource, total)}
    return answer


def _holders(source: Answerer, entry: WaitingEntry, names: Names, having: Sequence[tuple[JobFacts, int]]) -> list[dict[str, Any]]:
    if entry.record.holder:
        return [_keeper(source, entry.record.holder, names)]
    short = _short(entry)
    if short is None or not having:
        return []
    resource = short.resource
    named = list(islice((pair for pair in having if names(pair[0].namespace)), SHOWN))
    holders = [
        {
            **_asking(facts.key, facts),
            "amount": number(resource, has),
            "resource": resource,
            "until": None if (end := source.end(facts)) is None else format_time(end[0]),
        }
        for facts, has in named
    ]
    shown = {facts.key for facts, _ in named}
    if rest := [has for facts, has in having if facts.key not in shown]:
        others = {"namespace": None, "name": None, "others": len(rest), "resource": resource, "until": None}
        holders.append({**others, "amount": number(resource, sum(rest))})
    return holders


def _keeper(source: Answerer, key: str, names: Names) -> dict[str, Any]:
    """Return the target for which nodes are reserved, with the number of nodes and the promise."""
    reservation = source.reservations.get(key)
    facts = source.jobs.get(key)
    who = _asking(key, facts) if names(key.partition("/")[0]) else {"namespace": None, "name": None, "others": 1}
    promise = None if reservation is None else reservation.promise
    nodes = sorted(reservation.nodes) if reservation is not None else []
    return {
        **who,
        "amount": str(len(nodes)),
        "resource": "nodes",
        "nodes": nodes[:SHOWN],
        "until": None if promise is None else format_time(promise),
    }


def _short(entry: WaitingEntry) -> Shortage | None:
    return entry.short[0] if entry.short else None


def _resource(short: Shortage) -> dict[str, str | None]:
    names = ("resource", "asked", "used", "promised", "limit", "free", "largest")
    return {name: getattr(short, name) for name in names}


def _asking(key: str, facts: JobFacts | None) -> dict[str, Any]:
    namespace, name = name_of(key, facts)
    return {"namespace": namespace, "name": name, "asks": {} if facts is None else _asks(facts)}


def _asks(facts: JobFacts) -> dict[str, str]:
    return main_resources({name: number(name, amount) for name, amount in sorted((facts.min_resources or {}).items())})


def _start(start: Start) -> dict[str, Any]:
    return {
        "earliest": format_time(start.earliest),
        "likely": format_time(start.likely),
        "latest": format_time(start.latest),
        "basis": start.basis,
    }
