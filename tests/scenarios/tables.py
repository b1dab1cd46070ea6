"""Cases that are tables of one rule: each row is a case, run against the code of that rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.jobs import Job
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.jobs import JobFacts
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import task_of
from pyroclast_scheduler.plugins.gang import is_left_alone
from pyroclast_scheduler.plugins.predicates import Predicates

from . import objects
from .runner import Result


def gang_skip(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Whether a job that is not ready says nothing while its members go."""
    for number, row in enumerate(case["rows"], 1):
        book = ShapeBook()
        tasks = {}
        for i, text in enumerate(row["tasks"]):
            status, _, node = text.partition("@")
            task = task_of(objects.pod([f"p{i}", "j", "-", 1, "1G"]), book)
            tasks[task.uid] = task.moved(TaskStatus[status.upper()], node)
        group = objects.pod_group(["j", "q", row["min"]])
        job = Job(JobFacts(group, tasks, priority=0, queue="q"), Dimensions(), {})
        got = is_left_alone(job)
        yield Result(f"{name}.{number}", [] if got == row["skip"] else [f"got {got}, want {row['skip']}"])


def switches(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Which filters the switches of predicates leave."""
    for number, row in enumerate(case["rows"], 1):
        got = set(Predicates(Arguments(row["args"])).filters)
        wrong = sorted(set(row.get("filters", [])) - got) + sorted(got & set(row.get("missing", [])))
        yield Result(f"{name}.{number}", [f"wrong: {wrong}"] if wrong else [])


TABLE_KINDS: Mapping[str, Callable[[str, Mapping[str, Any]], Iterator[Result]]] = {
    "gangSkipTable": gang_skip,
    "switches": switches,
}
