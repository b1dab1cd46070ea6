"""The list of Jobs, as a page and as CSV. Filters, groups, order and columns are in the URL."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Final

from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.jobs import JobRow
from pyroclast_board.pages.base import Page, Scope, Section, Templates
from pyroclast_board.pages.filters import COLUMNS, GROUPS, PAGE_SIZE, STATES, cell, grouped, job_filter, select, state_of

FIRST_OF_A_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
MOST_GROUPS: Final = 200


def jobs(cluster: Cluster, templates: Templates, scope: Scope, query: Mapping[str, str]) -> Page:
    """Return the page of Jobs.

    Raises:
        BadRequest: a parameter is invalid.
    """
    wanted = job_filter(query)
    selection = select(cluster.table.rows, wanted, scope, cluster.now())
    of = "jobs.html"
    shown = selection.page(wanted.page)
    counts = dict.fromkeys(STATES, 0)
    for row in selection.rows:
        counts[state_of(row)] += 1
    known = {"columns": COLUMNS, "groups": GROUPS, "states": STATES}
    last = max(1, -(-len(selection.rows) // PAGE_SIZE))
    sections = [
        Section("filters", templates.macro(of, "filters")(query, known)),
        Section("counts", templates.macro(of, "counts")(len(selection.rows), selection.unnamed, counts, query)),
    ]
    if wanted.group:
        groups = grouped(selection.rows, wanted.group)
        sections.append(
            Section("groups", templates.macro(of, "grouped")(wanted.group, groups[:MOST_GROUPS], len(groups), query, STATES))
        )
    rows = tuple((f"job-{row.uid}", templates.row(of, row.uid, row, wanted.columns)) for row in shown)
    sections.append(Section("jobs", head=templates.macro(of, "head")(wanted.columns, wanted.sort, query), rows=rows))
    sections.append(Section("pages", templates.macro(of, "pages")(wanted.page, last, query)))
    return Page("Jobs", "jobs", sections)


def jobs_csv(rows: Iterable[JobRow], scope: Scope, query: Mapping[str, str], now: float) -> str:
    """Return all selected Jobs as CSV. No spreadsheet interprets a cell of it as a formula.

    Raises:
        BadRequest: a parameter is invalid.
    """
    wanted = job_filter(query)
    text = io.StringIO()
    writer = csv.writer(text)
    columns = [*wanted.columns, "created"]
    writer.writerow(columns)
    for row in select(rows, wanted, scope, now).rows:
        writer.writerow([_harmless(str(cell(row, column))) for column in columns])
    return text.getvalue()


def _harmless(value: str) -> str:
    return f"'{value}" if value.startswith(FIRST_OF_A_FORMULA) else value
