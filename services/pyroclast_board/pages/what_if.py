"""The page of what a change would do: more devices, another limit, another size of a Job, or drained nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from pyroclast.views.explanation import PARTS, what_if_body, what_if_summary
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.pages.base import EMPTY, BadRequest, Page, Section, Templates, checked

OF: Final = "what_if.html"
SHOWN: Final = 100


def question(query: Mapping[str, str]) -> bytes | None:
    """Return the question to the scheduler. None when the query names no change."""
    given = checked(query, PARTS)
    if not given:
        return None
    try:
        return orjson.dumps(what_if_body(given, "default"))
    except ValueError as error:
        raise BadRequest(str(error)) from error


def what_if(
    cluster: Cluster, templates: Templates, query: Mapping[str, str], answer: tuple[int, bytes] | None, *, asked: bool
) -> Page:
    """Return the page. `answer`: the status and JSON of the scheduler. None when it gave none, or was not `asked`."""
    said: dict[str, Any] = {} if answer is None else orjson.loads(answer[1])
    missing = ""
    if asked and (answer is None or answer[0] != 200):
        missing = str(said.get("message") or "the scheduler gives no answer")
    uids = {(row.namespace, row.name): row.uid for row in cluster.table.rows if row.is_waiting}
    rows = [{**each, "uid": uids.get((each["namespace"], each["name"]), "")} for each in said.get("items", ())]
    lines = what_if_summary(said) if asked and not missing else []
    command = " ".join(["vcctl what-if", *(f"--{name} {query[name]}" for name in PARTS if query.get(name))])
    queues = sorted(each.metadata.name for each in cluster.queues.values())
    sections = [
        Section("form", templates.macro(OF, "form")(query, queues, missing)),
        Section("starts", templates.macro(OF, "starts")(lines, rows[:SHOWN], len(rows), command) if lines else EMPTY),
    ]
    return Page("What if", "what-if", sections, is_live=False)
