"""Who did what: the submission and the removal of Jobs, Commands, and changes of queues with their budgets, newest first.

A user is known where admission wrote the user, and None otherwise: no object says afterwards who changed or deleted it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import orjson
from sqlalchemy import Column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast.api.types import JOBS, QUEUES
from pyroclast.lifecycle.times import format_time
from pyroclast_recorder.database.connections import read_rows
from pyroclast_recorder.database.tables import Row, commands, jobs, queue_settings
from pyroclast_recorder.facts.jobs import UNKNOWN_USER
from pyroclast_recorder.reading.questions import HistoryQuestion

LONGEST_CHANGE = 512


async def actions(
    connection: AsyncConnection, cluster: str, question: HistoryQuestion, visible: Sequence[str]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the actions between two times, newest first, and whether there are more than the limit allows.

    `question`: its `name` is the exact name of a Job or a queue, and its `user` the user of an action.
    """
    found: list[tuple[int, dict[str, Any]]] = []
    for row in await _rows(connection, cluster, jobs.c.created, question, visible):
        if row["kind"] is None:
            owner = f"by {row['owner_kind']}/{row['owner_name']}" if row["owner_kind"] else None
            found.append((row["created"], _action(row, "Submitted", JOBS.kind, user=row["submitted_by"], message=owner)))
    for row in await _rows(connection, cluster, commands.c.at, question, visible):
        told = {"user": row["submitted_by"], "message": row["message"]}
        found.append((row["at"], _action({**row, "uid": row["target"]}, row["action"], row["kind"], **told)))
    if not question.user:
        removed = await _rows(connection, cluster, jobs.c.removed, question, visible)
        found += [(row["removed"], _action(row, "Deleted", JOBS.kind)) for row in removed if row["kind"] is None]
    if not question.user and (question.name or not question.namespace):
        found += [each for each in await _of_queues(connection, cluster, question) if each[0] >= question.since]
    found.sort(key=lambda each: (-each[0], each[1]["kind"], each[1]["name"], each[1]["verb"]))
    items = [{"at": format_time(at), **each} for at, each in found[: question.limit]]
    return items, len(found) > question.limit


def _action(row: Row, verb: str, kind: str, *, user: str | None = None, message: str | None = None) -> dict[str, Any]:
    known = None if user == UNKNOWN_USER else user
    names = {"namespace": row.get("namespace"), "name": row["name"], "uid": row["uid"]}
    return {"user": known, "verb": verb, "kind": kind, **names, "message": message}


async def _rows(
    connection: AsyncConnection, cluster: str, time: Column[int], question: HistoryQuestion, visible: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the newest rows of the table of `time` that match a question."""
    of = time.table.c
    where = [of.cluster == cluster, time.between(question.since, question.until), of.namespace.in_(visible)]
    for column, value in ((of.namespace, question.namespace), (of.name, question.name), (of.submitted_by, question.user)):
        if value:
            where.append(column == value)
    return await read_rows(connection, select(time.table).where(*where).order_by(time.desc()).limit(question.limit + 1))


async def _of_queues(connection: AsyncConnection, cluster: str, question: HistoryQuestion) -> list[tuple[int, dict[str, Any]]]:
    """Return the changes of queues until the end of the time of a question, with their times."""
    of = queue_settings.c
    where = [of.cluster == cluster, of.at <= question.until, *([of.name == question.name] if question.name else [])]
    rows = await read_rows(connection, select(queue_settings).where(*where).order_by(of.uid, of.at))
    found = []
    for before, row in pairwise([{"uid": None}, *rows]):
        if before["uid"] != row["uid"]:
            found.append((row["at"], _action(row, "Created", QUEUES.kind)))
        elif row["settings"]:
            text = "; ".join(changes(before["settings"], row["settings"]))[:LONGEST_CHANGE]
            found.append((row["at"], _action(row, "Changed", QUEUES.kind, message=text)))
        else:
            found.append((row["at"], _action(row, "Deleted", QUEUES.kind)))
    return found


def changes(old: str, new: str) -> Iterator[str]:
    """Yield the differences between two settings of a queue, each as `PATH: OLD → NEW`."""
    before, after = (_flat(orjson.loads(text or "{}")) for text in (old, new))
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{name}: {before.get(name, 'none')} → {after.get(name, 'none')}"


def _flat(value: Any, path: str = "") -> dict[str, str]:  # noqa: ANN401 - a JSON value
    """Return the values of a JSON object by their path, without those that are not set."""
    if isinstance(value, dict):
        return {name: text for key, each in value.items() for name, text in _flat(each, f"{path}.{key}" if path else key).items()}
    return {} if value is None else {path: str(value)}
