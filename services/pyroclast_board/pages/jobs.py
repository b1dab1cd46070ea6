"""The list of Jobs, as a page and as CSV, with the filters, groups, order and columns that stand in the URL."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.jobs import JobRow
from pyroclast_board.cluster.records import ShownNode
from pyroclast_board.pages.base import BadRequest, Page, Scope, Section, Templates, checked

PAGE_SIZE: Final = 100
COLUMNS: Final = (
    *("namespace", "name", "queue", "user", "state", "code", "priority", "pods", "ready", "asks", "flow", "start", "age"),
)
SHOWN: Final = ("namespace", "name", "queue", "user", "state", "code", "pods", "ready", "asks", "start", "age")
GROUPS: Final = ("namespace", "queue", "user", "state", "code", "flow", "priority")
STATES: Final = ("waiting", "running", "completed", "failed", "other")
TEXTS: Final = ("namespace", "queue", "user", "phase", "code", "flow")
PARAMETERS: Final = (*TEXTS, "state", "label", "age", "text", "group", "sort", "columns", "page")
UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
MOST_LABELS: Final = 8
UNKNOWN: Final = "~"
"""Sorts after all times and words."""

_AGE = re.compile(r"([<>]?)(\d{1,6})([smhdw])", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """The conditions that a Job must all satisfy, and the order of the list; a leading `-` of `sort` reverses it.

    `age`: the least age in seconds, or the greatest with `is_younger`.
    """

    exact: tuple[tuple[str, str], ...] = ()
    state: str = ""
    label: tuple[str, str | None] | None = None
    age: int | None = None
    is_younger: bool = False
    text: str = ""
    group: str = ""
    sort: str = "age"
    columns: tuple[str, ...] = SHOWN
    page: int = 1


def job_filter(query: Mapping[str, str]) -> JobFilter:
    """Return the filter in a URL."""
    given = checked(query, PARAMETERS)
    age, is_younger = _age(given.get("age", ""))
    for name, known in (("group", GROUPS), ("state", STATES)):
        if (value := given.get(name, "")) and value not in known:
            raise BadRequest(f'{name}: there is no "{value[:64]}"; there are {", ".join(known)}')
    sort = given.get("sort", "age")
    columns = tuple(dict.fromkeys(given.get("columns", "").split(","))) if given.get("columns") else SHOWN
    for name, values in (("sort", (sort.removeprefix("-"),)), ("columns", columns)):
        if wrong := next((each for each in values if not _is_column(each)), None):
            raise BadRequest(f'{name}: there is no column "{wrong[:64]}"; there are {", ".join(COLUMNS)} and label:KEY')
    if sum(each.startswith("label:") for each in columns) > MOST_LABELS:
        raise BadRequest(f"columns: at most {MOST_LABELS} of them label:KEY")
    page = given.get("page", "1")
    if not page.isdecimal() or not 0 < int(page[:9]) <= 1_000_000:
        raise BadRequest(f'page: "{page[:64]}" is no number from 1')
    key, equals, value = given.get("label", "").partition("=")
    return JobFilter(
        exact=tuple((name, given[name]) for name in TEXTS if name in given),
        state=given.get("state", ""),
        label=(key, value if equals else None) if key else None,
        age=age,
        is_younger=is_younger,
        text=given.get("text", "").lower(),
        group=given.get("group", ""),
        sort=sort,
        columns=columns,
        page=int(page),
    )


def select(rows: Iterable[JobRow], wanted: JobFilter, scope: Scope, now: float) -> tuple[list[JobRow], int]:
    """Return the Jobs that satisfy the filter in order, and the number of further Jobs whose names the viewer may not see.

    Jobs that the viewer may not see are counted if the filter uses only queue, phase, code, state and age. A filter by namespace,
    user, flow, label or text would reveal whether a hidden Job has that value.
    """
    hides = wanted.label is not None or wanted.text or any(name in {"namespace", "user", "flow"} for name, _ in wanted.exact)
    found, unnamed = [], 0
    for row in rows:
        if scope.sees(row.namespace):
            if _fits(row, wanted, now):
                found.append(row)
        elif not hides and _fits(row, wanted, now):
            unnamed += 1
    column = wanted.sort.removeprefix("-")
    found.sort(key=lambda row: (row.namespace, row.name))
    found.sort(
        key=lambda row: cell(row, column) if column != "start" else _start(row) or UNKNOWN,
        reverse=wanted.sort.startswith("-") != (column == "age"),
    )
    return found, unnamed


def grouped(rows: Iterable[JobRow], by: str) -> list[tuple[str, Counter[str]]]:
    """Count the Jobs of each value by state. The largest group is first."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(str(cell(row, by)), Counter())[state_of(row)] += 1
    return sorted(counts.items(), key=lambda each: (-each[1].total(), each[0]))


def cell(row: JobRow, column: str) -> str | int:
    """Return the value of a row in one column, by which the rows are sorted."""
    if column.startswith("label:"):
        return row.labels.get(column.removeprefix("label:"), "")
    match column:
        case "state":
            return row.phase
        case "age":
            return row.created
        case "asks":
            return str(row.asks.get("cpu", ""))
        case "start":
            return _start(row)
    value: str | int = getattr(row, column)
    return value


def _start(row: JobRow) -> str:
    """Return the interval of the estimated start in ISO 8601, which sorts by the earliest start. Empty if it is unknown."""
    if row.is_final:
        return "never"
    return f"{row.start[0]}/{row.start[2]}" if row.start else ""


def state_of(row: JobRow) -> str:
    """Return the state of a Job, one of `STATES`."""
    if row.is_waiting:
        return "waiting"
    if row.has_failed:
        return "failed"
    if row.phase == "Completed":
        return "completed"
    return "other" if row.has_ended else "running"


def _fits(row: JobRow, wanted: JobFilter, now: float) -> bool:
    if any(getattr(row, name) != value for name, value in wanted.exact):
        return False
    if wanted.state and state_of(row) != wanted.state:
        return False
    if wanted.label is not None:
        key, value = wanted.label
        if key not in row.labels or (value is not None and row.labels[key] != value):
            return False
    if wanted.age is not None:
        age = now - datetime.fromisoformat(row.created).timestamp() if row.created else 0.0
        if (age > wanted.age) if wanted.is_younger else (age < wanted.age):
            return False
    return not wanted.text or wanted.text in f"{row.namespace}/{row.name} {row.sentence}".lower()


def _age(text: str) -> tuple[int | None, bool]:
    if not text:
        return None, False
    found = _AGE.fullmatch(text)
    if found is None:
        raise BadRequest(f'age: "{text[:64]}" is no duration such as 30m (at least), >12h or <2d')
    return int(found[2]) * UNITS[found[3]], found[1] == "<"


def _is_column(name: str) -> bool:
    return name in COLUMNS or (name.startswith("label:") and len(name) > len("label:"))


FIRST_OF_A_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
MOST_GROUPS: Final = 200


def jobs(cluster: Cluster, templates: Templates, scope: Scope, query: Mapping[str, str]) -> Page:
    """Return the page of Jobs."""
    wanted = job_filter(query)
    selected, unnamed = select(cluster.table.rows, wanted, scope, cluster.now())
    of = "jobs.html"
    silent = {each.metadata.name for each in cluster.nodes.values() if is_silent(each) is not None}
    shown = [with_lost(cluster, row, silent) for row in selected[(wanted.page - 1) * PAGE_SIZE : wanted.page * PAGE_SIZE]]
    counts = dict.fromkeys(STATES, 0)
    for row in selected:
        counts[state_of(row)] += 1
    known = {"columns": COLUMNS, "groups": GROUPS, "states": STATES}
    last = max(1, -(-len(selected) // PAGE_SIZE))
    sections = [
        Section("filters", templates.macro(of, "filters")(query, known)),
        Section("counts", templates.macro(of, "counts")(len(selected), unnamed, counts, query)),
    ]
    if wanted.group:
        groups = grouped(selected, wanted.group)
        sections.append(
            Section("groups", templates.macro(of, "grouped")(wanted.group, groups[:MOST_GROUPS], len(groups), query, STATES))
        )
    rows = tuple((f"job-{row.uid}", templates.row(of, row.uid, row, wanted.columns)) for row in shown)
    sections.append(Section("jobs", head=templates.macro(of, "head")(wanted.columns, wanted.sort, query), rows=rows))
    sections.append(Section("pages", templates.macro(of, "pages")(wanted.page, last, query)))
    return Page("Jobs", "jobs", sections)


def with_lost(cluster: Cluster, row: JobRow, silent: Collection[str]) -> JobRow:
    """Return the row with the number of its pods on the nodes in `silent`."""
    lost = sum(count for name, count in cluster.books.nodes_of(row.uid).items() if name in silent) if silent else 0
    return replace(row, lost=lost) if lost else row


def is_silent(node: ShownNode) -> str | None:
    """Return since when a node is not ready; empty if it never reported. None when it is ready."""
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    return None if ready is not None and ready.status == "True" else (ready.last_transition_time or "" if ready else "")


def jobs_csv(rows: Iterable[JobRow], scope: Scope, query: Mapping[str, str], now: float) -> str:
    """Return all selected Jobs as CSV. No spreadsheet interprets a cell of it as a formula."""
    wanted = job_filter(query)
    written = io.StringIO()
    writer = csv.writer(written)
    columns = [*wanted.columns, "created"]
    writer.writerow(columns)
    for row in select(rows, wanted, scope, now)[0]:
        texts = [str(cell(row, column)) for column in columns]
        writer.writerow([f"'{text}" if text.startswith(FIRST_OF_A_FORMULA) else text for text in texts])
    return written.getvalue()
