"""Messages to people about Jobs and budgets, by the rules of a file: at start, end, failure, a long wait and a spent budget.

A transition is found in the tables, so none is lost while the recorder is away. Its row in `notices` is written before its
message is sent, and marked when the target has taken it. If the recorder is killed in between, the message is sent again and
says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import structlog
import yaml
from sqlalchemy import ColumnElement, and_, literal, or_, select, update

from pyroclast.kube.basics.deadline import loop_time
from pyroclast.lifecycle.times import format_time
from pyroclast.resources import durations
from pyroclast.runtime.sending import NotSent, send
from pyroclast.views.readable import human_duration
from pyroclast_recorder.database.batches import insert_into
from pyroclast_recorder.database.connections import DatabaseUnavailable, read_rows
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import Row, jobs, notices

log = structlog.get_logger()

PERIOD_SECONDS: Final = 5.0
LATE_SECONDS: Final = 86_400
"""Transitions that are older, and messages that no target has taken for so long, are given up."""
PAUSES: Final = (10.0, 600.0)
MOST_AT_ONCE: Final = 200
AGAIN: Final = "(again: the recorder was stopped while it sent this)"
FAILED: Final = ("Failed", "Aborted", "Terminated")
What = Literal["start", "end", "failure", "longWait", "budget"]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is told of what. An empty user or queue is any. `after`: the wait of `longWait`.

    `digest`: the time for which messages are collected; 0 sends each at once.
    """

    on: tuple[What, ...]
    to: tuple[str, ...]
    user: str = ""
    queue: str = ""
    after: str = "1h"
    digest: str = "0s"


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file: URLs by the name of a target, and the rules."""

    targets: dict[str, str | tuple[str, ...]]
    rules: tuple[Rule, ...]

    def urls(self, target: str) -> Sequence[str]:
        """Return the URLs of a target; empty for one that the file has no more."""
        given = self.targets.get(target, ())
        return (given,) if isinstance(given, str) else given


def parse_rules(text: str) -> Rules:
    """Return the rules in YAML. Raises ValueError: they are not valid; the text has no URL."""
    try:
        rules = msgspec.convert(yaml.safe_load(text), Rules)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"line {mark.line + 1}: not YAML" if mark else "not YAML") from None
    for number, rule in enumerate(rules.rules, 1):
        if unknown := sorted(set(rule.to) - set(rules.targets)):
            raise ValueError(f"rule {number}: there is no target {unknown[0]}")
        _seconds(rule.after), _seconds(rule.digest)
    return rules


def _seconds(text: str) -> int:
    try:
        return int(durations.nanoseconds(text) / 10**9)
    except durations.DurationError as error:
        raise ValueError(f"{text[:32]} is no duration such as 2h") from error


def _due(rule: Rule, now: int) -> int:
    """Return when the present collection of a rule ends; 0 if its messages are sent at once, each alone."""
    digest = _seconds(rule.digest)
    return (now // digest + 1) * digest if digest > 0 else 0


def _conditions(rule: Rule, what: What, since: int, now: int) -> list[ColumnElement[bool]]:
    """Return which rows of Jobs a rule is about."""
    open_, recent = (jobs.c.ended.is_(None), jobs.c.removed.is_(None)), max(since, now - LATE_SECONDS)
    of: dict[str, list[ColumnElement[bool]]] = {
        "start": [jobs.c.started >= recent],
        "end": [jobs.c.ended >= recent, jobs.c.phase.not_in(FAILED)],
        "failure": [jobs.c.ended >= recent, jobs.c.phase.in_(FAILED)],
        "longWait": [*open_, jobs.c.started.is_(None), jobs.c.created <= now - _seconds(rule.after), jobs.c.created >= recent],
    }
    whose = [column == name for column, name in ((jobs.c.submitted_by, rule.user), (jobs.c.queue, rule.queue)) if name]
    return [*of[what], *whose]


def message_of(what: What, job: Row, now: int) -> tuple[int, str, str]:
    """Return the time of a transition, and the title and body of its message."""
    name, phase = f"{job['namespace']}/{job['name']}", job["phase"] or "Pending"
    waited = human_duration((job["started"] or job["ended"] or now) - (job["created"] or now))
    title, at = {
        "start": (f"Job {name} has started", job["started"]),
        "end": (f"Job {name} is {phase}", job["ended"]),
        "failure": (f"Job {name} is {phase}", job["ended"]),
        "longWait": (f"Job {name} has waited for {waited}", now),
    }[what]
    ran = f", ran {human_duration(job['ended'] - job['started'])}" if job["started"] and job["ended"] else ""
    why = ": ".join(filter(None, (job["reason"], job["message"])))
    lines = [f"{format_time(at)}, queue {job['queue']}, by {job['submitted_by'] or 'unknown'}; waited {waited}{ran}", why]
    return at, title, "\n".join(filter(None, (*lines, f"vcctl why -n {job['namespace']} {job['name']}")))


class Notifier:
    """Finds transitions and sends their messages, while this replica records."""

    def __init__(self, database: Database, file: Path, now: Callable[[], float]) -> None:
        self._database, self._file, self._now = database, file, now
        self._text, self._rules, self._complaint = "", Rules({}, ()), ""
        self._mine: set[tuple[str, str, str]] = set()
        self._rest: dict[str, tuple[float, float]] = {}
        self._since: int | None = None

    async def run(self) -> None:
        """Find and send, until cancelled."""
        while True:
            try:
                self._load()
                await self.find()
                await self.send()
            except DatabaseUnavailable as error:
                log.warning("recorder.notices_wait", error=str(error))
            await asyncio.sleep(PERIOD_SECONDS)

    def _load(self) -> None:
        """Load the file when it has changed. An invalid file does not replace a valid one."""
        try:
            text = self._file.read_text(encoding="utf-8")
            if text != self._text:
                self._text, self._rules = text, parse_rules(text)
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            if why != self._complaint:
                log.error("recorder.notifications_refused", file=str(self._file), reason=why)  # noqa: TRY400 - no trace of the file
            self._complaint = why

    async def find(self) -> None:
        """Write a row for each transition that a rule is about and that has none. What was before the first start is not told."""
        now = int(self._now())
        self._since = self._since if self._since is not None else await self._first(now)
        found: dict[tuple[str, str, str], Row] = {}
        async with self._database.reading() as connection:
            for rule, what, target in self._asked():
                of_job = (notices.c.cluster == jobs.c.cluster, notices.c.subject == jobs.c.uid)
                is_told = select(notices.c.what).where(*of_job, notices.c.what == what, notices.c.target == target).exists()
                where = (jobs.c.cluster == self._database.cluster, ~is_told, *_conditions(rule, what, self._since, now))
                for job in await read_rows(connection, select(jobs).where(*where).limit(MOST_AT_ONCE)):
                    at, title, body = message_of(what, job, now)
                    row = {"title": title, "body": body, "at": at, "due": _due(rule, now)}
                    found.setdefault((job["uid"], what, target), row)
        await self._insert(found)

    async def told_budget(self, queue: str, what: str, text: str) -> None:
        """Write a row for a part of a budget that is spent, for each rule about budgets of the queue."""
        now = int(self._now())
        rows: dict[tuple[str, str, str], Row] = {}
        for rule in self._rules.rules:
            if "budget" in rule.on and rule.queue in {"", queue} and not rule.user:
                row = {"title": f"Queue {queue}: budget", "body": text, "at": now, "due": _due(rule, now)}
                rows |= {(queue, what, target): row for target in rule.to}
        await self._insert(rows)

    async def send(self) -> None:
        """Send the messages that are due, those of one target together if one of them was collected."""
        now = int(self._now())
        due = (notices.c.cluster == self._database.cluster, notices.c.sent.is_(None), notices.c.at >= now - LATE_SECONDS)
        async with self._database.reading() as connection:
            chosen = select(notices).where(*due).order_by(notices.c.target, notices.c.at, notices.c.subject)
            rows = await read_rows(connection, chosen.limit(10 * MOST_AT_ONCE))
        for target, group in itertools.groupby(rows, key=lambda row: str(row["target"])):
            mine = list(group)
            if self._rest.get(target, (0.0, 0.0))[0] > loop_time() or not self._rules.urls(target):
                continue
            collected = [row for row in mine if 0 < row["due"] <= now]
            for lot in (*([row] for row in mine if not row["due"]), *([collected] if collected else ())):
                if not await self._deliver(target, lot, now):
                    break

    async def _deliver(self, target: str, rows: Sequence[Row], now: int) -> bool:
        keys = [(row["subject"], row["what"], row["target"]) for row in rows]
        again = any(row["begun"] is not None and key not in self._mine for row, key in zip(rows, keys, strict=True))
        self._mine.update(keys)
        await self._mark(keys, {"begun": now})
        title = rows[0]["title"] if len(rows) == 1 else f"{len(rows)} messages of Pyroclast"
        body = rows[0]["body"] if len(rows) == 1 else "\n\n".join(f"{row['title']}\n{row['body']}" for row in rows)
        try:
            key = hashlib.sha256(repr((self._database.cluster, keys)).encode()).hexdigest()[:32]
            await send(self._rules.urls(target), title, f"{AGAIN}\n{body}" if again else body, key=key)
        except NotSent as error:
            pause = min(max(PAUSES[0], 2 * self._rest.get(target, (0.0, 0.0))[1]), PAUSES[1])
            self._rest[target] = (loop_time() + pause, pause)
            log.warning("recorder.notice_not_sent", target=target, messages=len(rows), reason=str(error), again_in=pause)
            return False
        await self._mark(keys, {"sent": int(self._now())})
        self._rest.pop(target, None)
        self._mine.difference_update(keys)
        log.info("recorder.notice_sent", target=target, messages=len(rows))
        return True

    def _asked(self) -> Iterator[tuple[Rule, What, str]]:
        for rule in self._rules.rules:
            yield from ((rule, what, target) for what in rule.on if what != "budget" for target in rule.to)

    async def _first(self, now: int) -> int:
        """Return the time since which transitions are told: when messages were first switched on in this database."""
        key = {"cluster": self._database.cluster, "subject": "", "what": "", "target": ""}
        async with self._database.transaction() as connection:
            row = {**key, "title": "", "body": "", "at": now, "due": now, "begun": now, "sent": now}
            await connection.execute(insert_into(notices, connection.dialect.name).on_conflict_do_nothing(), [row])
            at = await connection.scalar(select(notices.c.at).where(*(notices.c[name] == value for name, value in key.items())))
        return int(at or now)

    async def _insert(self, rows: Mapping[tuple[str, str, str], Row]) -> None:
        if not rows:
            return
        names = ("subject", "what", "target")
        values = [{"cluster": self._database.cluster, **dict(zip(names, key, strict=True)), **row} for key, row in rows.items()]
        async with self._database.transaction() as connection:
            await connection.execute(insert_into(notices, connection.dialect.name).on_conflict_do_nothing(), values)

    async def _mark(self, keys: Sequence[tuple[str, str, str]], values: Mapping[str, Any]) -> None:
        columns = (notices.c.subject, notices.c.what, notices.c.target)
        same = or_(*(and_(*(column == value for column, value in zip(columns, key, strict=True))) for key in keys))
        async with self._database.transaction() as connection:
            await connection.execute(
                update(notices).where(notices.c.cluster == literal(self._database.cluster), same).values(**values)
            )
