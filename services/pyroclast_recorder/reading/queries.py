"""The queries of the HTTP API as SQL, and their results as JSON values."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import ColumnElement, Table, and_, case, func, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast.api.types import JOBS, Key
from pyroclast.lifecycle.times import format_time
from pyroclast_recorder.database.connections import read_rows
from pyroclast_recorder.database.tables import (
    Row,
    composites,
    gaps,
    job_causes,
    job_phases,
    jobs,
    node_states,
    owners,
    pod_use,
    pods,
    predictions,
    reservations,
    trace_step,
    usage_days,
)
from pyroclast_recorder.database.usage_rows import held_between, usage_rows
from pyroclast_recorder.facts.native_groups import oldest_pod
from pyroclast_recorder.hourly_usage import DAY, HOUR, asked_by
from pyroclast_recorder.reading.cluster_use import LENGTHS, cluster_rows, kept_names, period_of, reserved_amounts, spans
from pyroclast_recorder.reading.outcomes import (
    BY_REASON,
    ENDED_WELL,
    RUNNING,
    STATES,
    Measured,
    Try,
    measured_of,
    prediction_rows,
    state_of,
    tries_of,
    use_of,
)
from pyroclast_recorder.reading.questions import HistoryQuestion, UsageQuestion

COLUMNS: Final = {"user": "submitted_by"}
"""The columns of usage that have another name in query parameters."""

JOB_FLOW: Final = case((jobs.c.owner_kind == "JobFlow", func.coalesce(jobs.c.owner_name, "")), else_="")
JOB_COLUMNS: Final[Mapping[str, ColumnElement[Any]]] = {
    "queue": jobs.c.queue,
    "user": jobs.c.submitted_by,
    "namespace": jobs.c.namespace,
    "flow": JOB_FLOW,
}
MOST_PERIODS: Final = 64
"""The most weeks or months in one SQL query, because each row is compared with the ends of the periods in turn."""

FAILED: Final = ("Failed", "Aborted", "Terminated")
SIZE_CLASSES: Final = (1, 8, 64, 512)
"""The largest gang of each size class, in pods."""


async def namespaces(connection: AsyncConnection, cluster: str) -> list[str]:
    """Return all namespaces with recorded Jobs."""
    found = await connection.scalars(select(jobs.c.namespace).where(jobs.c.cluster == cluster).distinct())
    return sorted(name for name in found if name)


async def used_namespaces(connection: AsyncConnection, cluster: str, since: int, until: int) -> list[str]:
    """Return all namespaces with usage between two times, also of pods without a Job."""
    day = usage_days.c.day
    chosen = select(usage_days.c.namespace).where(usage_days.c.cluster == cluster, day.between(since // DAY * DAY, until))
    return sorted(filter(None, await connection.scalars(chosen.distinct())))


async def history(
    connection: AsyncConnection, cluster: str, question: HistoryQuestion, visible: Sequence[str], now: int
) -> tuple[list[dict[str, Any]], bool]:
    """Return the Jobs that match a question, newest first, and whether more Jobs match than the limit allows."""
    where = [jobs.c.cluster == cluster, jobs.c.created.between(question.since, question.until), jobs.c.namespace.in_(visible)]
    exact = {"namespace": jobs.c.namespace, "queue": jobs.c.queue, "user": jobs.c.submitted_by, "flow": JOB_FLOW}
    where += [column == value for name, column in exact.items() if (value := getattr(question, name))]
    if question.name:
        where.append(jobs.c.name.like(_like(question.name), escape="\\"))
    if question.state:
        where.append(_has_state(question.state))
    newest_first = select(jobs).where(*where).order_by(jobs.c.created.desc(), jobs.c.version.desc()).limit(question.limit + 1)
    found = await read_rows(connection, newest_first)
    rows = found[: question.limit]
    of_jobs = await _rows_of(connection, cluster, pods, [row["uid"] for row in rows])
    again = [row["uid"] for row in rows if row["retries"] or any(pod["job_version"] for pod in of_jobs.get(row["uid"], ()))]
    phases = await _rows_of(connection, cluster, job_phases, again)
    items = [_job(row, of_jobs.get(row["uid"], ()), _ordered(phases.get(row["uid"], ())), now)[0] for row in rows]
    return items, len(found) > question.limit


def _has_state(state: str) -> ColumnElement[bool]:
    """Return the condition of Jobs whose `state_of` is `state`, in upper or lower case.

    No column has the state, which follows from the pods. The database must decide it: reading Jobs page by page until enough of
    them have the state would read all Jobs of a cluster for a state that no Job has.
    """
    phase = func.coalesce(func.nullif(jobs.c.phase, ""), "Pending")
    is_named, is_open = func.lower(phase) == state.lower(), phase.in_(sorted(RUNNING))
    is_over = or_(jobs.c.removed.is_not(None), jobs.c.ended.is_not(None))
    is_bad = phase.not_in(sorted(RUNNING | ENDED_WELL))
    choices = [and_(is_named, phase.in_(sorted(ENDED_WELL))), and_(is_named, is_open, ~is_over)]
    if state.lower() == "removed":
        choices.append(and_(is_open, is_over))
    severer: frozenset[str] = frozenset()
    for name, reasons in BY_REASON:
        if state.lower() == name.lower():
            choices.append(and_(is_bad, _has_pod(reasons), ~_has_pod(severer)))
        severer |= reasons
    choices.append(and_(is_named, is_bad, ~_has_pod(severer)))
    return or_(*choices)


def _has_pod(reasons: frozenset[str]) -> ColumnElement[bool]:
    of_job = (pods.c.cluster == jobs.c.cluster, pods.c.job == jobs.c.uid)
    return select(pods.c.uid).where(*of_job, pods.c.reason.in_(sorted(reasons))).exists()


async def key_of(connection: AsyncConnection, cluster: str, uid: str) -> Key | None:
    """Return the namespace and the name of the Job with this uid; None when there is none."""
    of_uid = (jobs.c.cluster == cluster, jobs.c.uid == uid, jobs.c.version > 0)
    row = (await connection.execute(select(jobs.c.namespace, jobs.c.name).where(*of_uid))).first()
    return None if row is None else Key(row[0], row[1])


async def tries(connection: AsyncConnection, cluster: str, namespace: str, name: str, now: int) -> list[dict[str, Any]]:
    """Return the Jobs that had this name, at most 100, newest first, with their tries, phases, causes, tasks and evictions."""
    of_name = (jobs.c.cluster == cluster, jobs.c.namespace == namespace, jobs.c.name == name)
    newest = select(jobs).where(*of_name).order_by(jobs.c.created.desc(), jobs.c.version.desc())
    rows = await read_rows(connection, newest.limit(100))
    uids = [row["uid"] for row in rows]
    of_jobs, phases, causes = [await _rows_of(connection, cluster, table, uids) for table in (pods, job_phases, job_causes)]
    made_by = await _owners(connection, cluster, [row["owner_uid"] for row in rows if row["owner_uid"]])
    of_pods = await _rows_of(connection, cluster, pod_use, [pod["uid"] for of_job in of_jobs.values() for pod in of_job], "pod")
    measured = measured_of(itertools.chain.from_iterable(of_pods.values()))
    items = []
    for row in rows:
        of_job, steps = of_jobs.get(row["uid"], ()), _ordered(phases.get(row["uid"], ()))
        item, tries_ = _job(row, of_job, steps, now)
        more = {
            "madeBy": made_by.get(row["owner_uid"]),
            "use": use_of(of_job, measured, now),
            "tries": _tries(tries_, of_job, now),
            "phases": _steps(steps),
            "causes": _steps(_ordered(causes.get(row["uid"], ()))),
            "tasks": _tasks(of_job, measured, now),
            "evictions": _evictions(tries_, of_job),
        }
        items.append(item | more)
    return items


async def usage(
    connection: AsyncConnection, cluster: str, question: UsageQuestion, visible: Sequence[str]
) -> list[dict[str, Any]]:
    """Return requests and measured use by group and period, with the numbers of ended and of failed Jobs.

    `measured` is the part of the requests whose pods were measured. `used` is None when no pod was measured.
    """
    whose = [each for each in question.by if each in JOB_COLUMNS]
    failed = func.sum(case((jobs.c.phase.in_(FAILED), 1), else_=0))
    filters = {name: value for name in ("queue", "user", "namespace") if (value := getattr(question, name))}
    chosen = {COLUMNS.get(name, name): [value] for name, value in filters.items()}
    within = [name for name in visible if name == filters.get("namespace", name)]
    since, by_hour = question.since // HOUR * HOUR, question.per == "hour"
    found = usage_rows(cluster, since, question.until, {**chosen, "namespace": within}, by_hour=by_hour).c
    sums = [func.sum(found[name]) for name in ("asked", "doubtful", "measured", "used")]
    of_jobs = [jobs.c.cluster == cluster, jobs.c.namespace.in_(visible)]
    of_jobs += [JOB_COLUMNS[name] == value for name, value in filters.items()]
    amounts = _Grouping(found.at, since, [found[COLUMNS.get(each, each)] for each in question.by], sums, ())
    ended = _Grouping(jobs.c.ended, question.since, [JOB_COLUMNS[each] for each in whose], (func.count(), failed), of_jobs)
    counts = {key: values async for key, values in _per_period(connection, question, ended)}
    rows = []
    async for (period, *group), (asked, doubtful, measured, used) in _per_period(connection, question, amounts):
        row: dict[str, Any] = {"period": period, **dict(zip(question.by, group, strict=True))}
        total, bad = counts.get((period, *(row[each] for each in whose)), (0, 0))
        known = {"used": used, "measured": measured} if measured else {"used": None, "measured": 0}
        rows.append({**row, "asked": asked, **known, "doubtful": doubtful, "jobs": total, "failed": bad})
    return sorted(rows, key=lambda row: (row["period"], *(row[each] for each in question.by)))


class _Grouping(NamedTuple):
    """A query for sums of rows, by groups.

    `time`: the column by which rows are assigned to periods. `since`: the first time. `groups`: the columns by which rows are
    grouped. `where`: further conditions.
    """

    time: ColumnElement[int]
    since: int
    groups: Sequence[ColumnElement[Any]]
    sums: Sequence[ColumnElement[Any]]
    where: Sequence[ColumnElement[bool]]


async def _per_period(
    connection: AsyncConnection, question: UsageQuestion, asked: _Grouping
) -> AsyncIterator[tuple[tuple[str, ...], list[int]]]:
    """Yield the name of the period and the group, with their sums.

    The database computes periods of a fixed length. For weeks and months, the query has the bounds of the periods.
    """
    time, since, groups, sums, where = asked
    if length := LENGTHS.get(question.per):
        period = time // length * length
        chosen = select(period, *groups, *sums).where(*where, time.between(since, question.until)).group_by(period, *groups)
        for row in await connection.execute(chosen):
            begin, *values = row
            yield (period_of(begin, question.per), *_texts(values[: len(groups)])), _numbers(values[len(groups) :])
        return
    periods = list(spans(since, question.until, question.per))
    for some in (periods[at : at + MOST_PERIODS] for at in range(0, len(periods), MOST_PERIODS)):
        number = case(*((time <= end, at) for at, (_, _, end) in enumerate(some)), else_=0) if len(some) > 1 else literal(0)
        within = time.between(some[0][1], some[-1][2])
        grouped = (number, *groups) if len(some) > 1 else tuple(groups)
        chosen = select(number, *groups, *sums).where(*where, within).group_by(*grouped)
        for row in await connection.execute(chosen):
            at, *values = row
            yield (some[int(at)][0], *_texts(values[: len(groups)])), _numbers(values[len(groups) :])


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(value or "" for value in values)


def _numbers(values: Sequence[Any]) -> list[int]:
    return [int(value or 0) for value in values]


async def cluster_use(connection: AsyncConnection, cluster: str, since: int, until: int) -> list[dict[str, Any]]:
    """Return the division of the resources of all nodes between two times, which are starts of hours."""
    rows = usage_rows(cluster, since, until - 1, {}).c
    held = await connection.execute(select(rows.resource, func.sum(rows.asked)).group_by(rows.resource))
    allocated = {resource: int(amount) for resource, amount in held}
    ordered = select(node_states).where(node_states.c.cluster == cluster, node_states.c.at < until)
    states = await read_rows(connection, ordered.order_by(node_states.c.uid, node_states.c.at))
    reserved = await _reserved(connection, cluster, states, since, until)
    return cluster_rows(states, allocated, reserved, since, until)


async def _reserved(
    connection: AsyncConnection, cluster: str, states: Sequence[Row], since: int, until: int
) -> Mapping[str, int]:
    """Return the amounts that were free on reserved nodes, by resource."""
    mine = select(reservations).where(reservations.c.cluster == cluster, reservations.c.at < until)
    kept = await read_rows(connection, mine.order_by(reservations.c.uid, reservations.c.at))
    names = kept_names(kept)
    if not names:
        return {}
    on_them = select(pods).where(*held_between(cluster, since, until), pods.c.node.in_(sorted(names)))
    of_nodes = await read_rows(connection, on_them)
    return reserved_amounts([state for state in states if state["name"] in names], kept, of_nodes, since, until)


async def waits(
    connection: AsyncConnection, cluster: str, since: int, until: int, visible: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the waiting times of Jobs that started between two times, by queue and size."""
    found = await connection.execute(
        select(jobs.c.queue, jobs.c.gang_size, jobs.c.started - jobs.c.created).where(
            jobs.c.cluster == cluster, jobs.c.started.between(since, until), jobs.c.namespace.in_(visible)
        )
    )
    waited: dict[tuple[str, int], list[int]] = defaultdict(list)
    for queue, size, seconds in found:
        waited[queue or "", _size_class(size or 0)].append(max(0, seconds))
    return [
        {"queue": queue, "pods": _class_name(size), "jobs": len(times), **_quantiles(sorted(times))}
        for (queue, size), times in sorted(waited.items())
    ]


async def estimates(
    connection: AsyncConnection, cluster: str, since: int, until: int, visible: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the accuracy of the predicted starts of Jobs and trees of PodGroups that started between two times, by queue."""
    placed_first = and_(jobs.c.placed.is_not(None), jobs.c.placed < jobs.c.started)
    placed = case((placed_first, jobs.c.placed), else_=jobs.c.started)  # the earliest recorded time of the placement
    rows: list[Row] = []
    for table, actual in ((jobs, placed), (composites, composites.c.started)):
        same = and_(predictions.c.cluster == table.c.cluster, predictions.c.job == table.c.uid)
        of_table = select(predictions, table.c.queue, actual.label("actual")).join_from(predictions, table, same)
        started = (table.c.cluster == cluster, table.c.started.between(since, until), table.c.namespace.in_(visible))
        rows += await read_rows(connection, of_table.where(*started).order_by(predictions.c.job, predictions.c.at))
    return prediction_rows(rows)


_EVICTED_FOR: Final = re.compile(r" \((?P<action>[a-z]+)\)(?: for \S+ in queue (?P<queue>[^\s,]+))?")
"""The end of the condition DisruptionTarget that the scheduler writes to a pod: the action, and the queue that gets the room."""


async def evictions(
    connection: AsyncConnection, cluster: str, since: int, until: int, visible: Sequence[str]
) -> list[dict[str, Any]]:
    """Return who took room from whom: the number of evicted pods and their Jobs, by both queues and action, most pods first."""
    ended = (pods.c.cluster == cluster, pods.c.evicted_for.is_not(None), pods.c.released_high.between(since, until))
    chosen = select(pods.c.queue, pods.c.job, pods.c.evicted_for).where(*ended, pods.c.namespace.in_(visible))
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for queue, job, message in await connection.execute(chosen):
        told = _EVICTED_FOR.search(message)
        taker, action = (told["queue"] or "", told["action"]) if told is not None else ("", "")
        found[queue or "", taker, action].append(job or "")
    rows = [
        {"queue": queue, "for": taker, "action": action, "pods": len(listed), "jobs": len(set(listed))}
        for (queue, taker, action), listed in found.items()
    ]
    return sorted(rows, key=lambda row: (-row["pods"], row["queue"], row["for"], row["action"]))


async def gap_seconds(connection: AsyncConnection, cluster: str, since: int, until: int, kind: str = "pods") -> int:
    """Return the seconds between two times in which the events of a kind were lost."""
    found = await connection.execute(
        select(gaps.c.since, gaps.c.until).where(
            gaps.c.cluster == cluster, gaps.c.kind == kind, gaps.c.until >= since, gaps.c.since <= until
        )
    )
    return sum(min(end, until) - max(begin, since) for begin, end in found)


async def _rows_of(
    connection: AsyncConnection, cluster: str, table: Table, uids: Sequence[str], column: str = "job"
) -> Mapping[str, Sequence[Row]]:
    """Return the rows of a table by the uid in a column."""
    found: dict[str, list[Row]] = defaultdict(list)
    for begin in range(0, len(uids), 500):
        chosen = select(table).where(table.c.cluster == cluster, table.c[column].in_(uids[begin : begin + 500]))
        for row in await read_rows(connection, chosen):
            found[row[column]].append(row)
    return found


async def _owners(connection: AsyncConnection, cluster: str, uids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the owners of Jobs, by uid."""
    chosen = select(owners).where(owners.c.cluster == cluster, owners.c.uid.in_(uids))
    return {
        row["uid"]: {
            **{name: row[name] for name in ("kind", "namespace", "name", "uid", "phase")},
            "user": row["submitted_by"],
            **{name: _time(row[name]) for name in ("created", "ended", "removed")},
        }
        for row in await read_rows(connection, chosen)
    }


def _ordered(steps: Iterable[Row]) -> list[Row]:
    """Return phases or causes by time, without the steps of a trace."""
    found = (row for row in steps if not trace_step(row["name"]))
    return sorted(found, key=lambda row: (row["at"], _rank(row["name"]), row["name"]))


def _steps(ordered: Iterable[Row]) -> list[dict[str, Any]]:
    return [{"at": _time(row["at"]), "name": row["name"], "message": row["message"]} for row in ordered]


def _tries(tries_: Sequence[Try], of_job: Sequence[Row], now: int) -> list[dict[str, Any]]:
    """Return the tries of a Job in the form of the HTTP API, each with the pods that were created in it."""
    of_try: dict[int, list[Row]] = defaultdict(list)
    for pod in of_job:
        of_try[_number_of(tries_, pod)].append(pod)
    return [
        {
            "number": number,
            "since": _time(each.since),
            "waitedSeconds": each.waited(now),
            "started": _time(each.started),
            "ranSeconds": each.ran(now),
            "ended": _time(each.ended),
            "state": each.state,
            "message": each.message,
            "pods": len(of_try[number]),
            "nodes": len({pod["node"] for pod in of_try[number] if pod["node"]}),
        }
        for number, each in enumerate(tries_, 1)
    ]


def _number_of(tries_: Sequence[Try], pod: Row) -> int:
    """Return the number of the try in which a pod was created: 1 for the first."""
    created = pod["created"] or pod["bound"] or 0
    return max(1, sum(each.since <= created for each in tries_))


def _rank(name: str) -> int:
    """Return the order of a phase among phases that a Job entered in the same second."""
    return STATES.index(name) if name in STATES else 0


def _job(job: Row, of_job: Sequence[Row], phases: Sequence[Row], now: int) -> tuple[dict[str, Any], list[Try]]:
    """Return a Job in the form of the HTTP API, and its tries. What it waited and ran is the sum over its tries.

    What its pods say is None when it had pods that are no longer kept, or were never seen.
    """
    state = state_of(job, {pod["reason"] for pod in of_job})
    tries_ = tries_of(job, phases, state)
    end = job["ended"] or job["removed"]
    began = job["started"]
    runs = [seconds for each in tries_ if (seconds := each.ran(now)) is not None]
    codes = [pod["exit_code"] for pod in of_job if pod["exit_code"]]
    asked, doubtful = _sums(of_job, now)
    is_known = began is None or bool(of_job)
    item = {
        "object": job["kind"] or JOBS.qualified,
        "namespace": job["namespace"],
        "name": job["name"],
        "uid": job["uid"],
        "queue": job["queue"],
        "user": job["submitted_by"],
        "flow": job["owner_name"] if job["owner_kind"] == "JobFlow" else None,
        "owner": f"{job['owner_kind']}/{job['owner_name']}" if job["owner_kind"] else None,
        "state": state,
        "reason": job["reason"],
        "message": job["message"],
        "exitCode": max(codes, default=0 if end and of_job else None),
        "submitted": _time(job["created"]),
        "started": _time(began),
        "ended": _time(end),
        "waitedSeconds": sum(each.waited(now) for each in tries_) if tries_ else None,
        "elapsedSeconds": sum(runs) if runs else None,
        "gangSize": job["gang_size"],
        "pods": len(of_job) if is_known else None,
        "nodes": len({pod["node"] for pod in of_job if pod["node"]}) if is_known else None,
        "domains": sorted({pod["domain"] for pod in of_job if pod["domain"]})[:64],
        "retries": job["retries"],
        "shape": job["shape"],
        "image": job["image"],
        "estimate": job["estimate"] or (_declared(of_job) if job["kind"] else None),
        "labels": orjson.loads(job["labels"]) if job["labels"] else {},
        "asked": asked if is_known else None,
        "doubtful": doubtful if is_known else None,
    }
    return item, tries_


def _declared(of_group: Sequence[Row]) -> str | None:
    """Return the estimate of the oldest pod, for a group without an estimate; None without pods."""
    oldest = oldest_pod(of_group)
    return None if oldest is None else oldest["estimate"]


def _tasks(of_job: Sequence[Row], measured: Mapping[str, Mapping[str, Measured]], now: int) -> list[dict[str, Any]]:
    by_task: dict[str, list[Row]] = defaultdict(list)
    for pod in of_job:
        by_task[pod["task"] or ""].append(pod)
    return [
        {
            "task": task,
            "pods": len(of_task),
            "failed": sum(pod["phase"] == "Failed" for pod in of_task),
            "evicted": sum(pod["evicted_for"] is not None for pod in of_task),
            "nodes": sorted({pod["node"] for pod in of_task if pod["node"]})[:64],
            "asked": _sums(of_task, now)[0],
            "use": use_of(of_task, measured, now),
        }
        for task, of_task in sorted(by_task.items())
    ]


def _evictions(tries_: Sequence[Try], of_job: Sequence[Row]) -> list[dict[str, Any]]:
    evicted = [pod for pod in of_job if pod["evicted_for"] is not None]
    evicted.sort(key=lambda pod: (pod["released_high"] or 0, pod["name"]))
    return [
        {
            "at": _time(pod["released_high"]),
            "pod": pod["name"],
            "reason": pod["reason"],
            "message": pod["evicted_for"],
            "try": _number_of(tries_, pod),
        }
        for pod in evicted
    ]


def _sums(of_pods: Iterable[Row], now: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return the requests of pods in amounts × seconds, by resource, and the doubtful part of these amounts."""
    asked: Counter[str] = Counter()
    doubtful: Counter[str] = Counter()
    for pod in of_pods:
        for total, part in zip((asked, doubtful), asked_by(pod, now), strict=True):
            total.update(part)
    return dict(sorted(asked.items())), dict(sorted(doubtful.items()))


def _like(glob: str) -> str:
    """Return the LIKE pattern of a glob with `*` and `?`."""
    escaped = glob.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%").replace("?", "_")


def _size_class(pods_: int) -> int:
    return next((most for most in SIZE_CLASSES if pods_ <= most), 0)


def _class_name(most: int) -> str:
    if most == 0:
        return f"{SIZE_CLASSES[-1] + 1}+"
    below = max((each for each in SIZE_CLASSES if each < most), default=0)
    return str(most) if below + 1 >= most else f"{below + 1}-{most}"


def _quantiles(times: Sequence[int]) -> dict[str, int]:
    return {f"p{share}Seconds": times[min(len(times) - 1, len(times) * share // 100)] for share in (50, 90, 99)}


def _time(seconds: int | None) -> str | None:
    return None if seconds is None else format_time(seconds)
