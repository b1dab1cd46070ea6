"""The command `vcctl array`: the states of the indexes of arrays, and the cancellation of single indexes and ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroclast.api.records import Array, ArrayStatus, reading
from pyroclast.api.types import JOBS, Key
from pyroclast.lifecycle.gang.arrays import Progress, read
from pyroclast.resources import indexes
from pyroclast.views.jobs import phase_of
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.tree import Group, OwnLeaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table, columns, write
from pyroclast_cli.views.scope import NAMESPACE, existing, namespace_of

_ENDS: Final = ("Completed", "Failed", "Terminated", "Aborted")
_WIDEST: Final = 28
"""The most characters of the ranges of a column; `-o json` has all of them."""


async def _show(context: Context) -> None:
    if len(context.arguments) != 1:
        raise Failure(f"name one job; there are {len(context.arguments)} names")
    job = await _job(context)
    rows = [row for task in arrays_of(job) for row in _rows(job, task)]
    write(context, Table("ArrayState", _COLUMNS, rows, "job.batch.volcano.sh"))


async def cancel(context: Context) -> None:
    """Cancel the indexes of the second argument in the Job of the first."""
    from pyroclast.kube.http.client import PatchKind  # noqa: PLC0415 - it loads what other commands do not need

    if len(context.arguments) != len(("JOB", "INDEXES")):
        raise Failure('name a job and indexes, such as "vcctl array cancel sweep 7,100-199"')
    text = context.arguments[1]
    try:
        given = indexes.parse(text)
    except ValueError as error:
        raise Failure(f"{text}: {error}") from None
    if any(each.step > 1 and len(each) > 1 for each in given):
        raise Failure(f"{text}: write ranges without steps, such as 100-199")
    job = await _job(context)
    position, task = _chosen(job, context.text("task"))
    if phase_of(job) in _ENDS:
        raise Failure(f"Job {context.arguments[0]} is {phase_of(job)}: no index of it runs any more")
    progress = progress_of(job, task)
    wanted = indexes.joined(progress.ranges, indexes.read(text))
    if not progress.count(wanted):
        raise Failure(f"task {task['name']} has none of the indexes {text}; it has {task['array'].get('indexes')}")
    left = indexes.without(wanted, progress.recorded)
    if not (number := progress.count(left)):
        raise Failure(f"all of these indexes have ended already; see vcctl array show {context.arguments[0]}")
    before = str(task["array"].get("cancelled") or "")
    path = f"/spec/tasks/{position}/array"
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": job["metadata"]["uid"]},
        {"op": "test", "path": f"{path}/indexes", "value": task["array"].get("indexes")},
        *([{"op": "test", "path": f"{path}/cancelled", "value": before}] if before else []),
        {"op": "add", "path": f"{path}/cancelled", "value": indexes.written(indexes.union(indexes.read(before), wanted))},
    ]
    await context.client.patch(JOBS, Key(namespace_of(context), context.arguments[0]), patch, PatchKind.JSON)
    context.say(f"{number} {'index' if number == 1 else 'indexes'} of task {task['name']} cancelled")


async def _job(context: Context) -> Mapping[str, Any]:
    key = Key(namespace_of(context), context.arguments[0].removeprefix("job/"))
    job = await existing(context, JOBS, key, f"Job {key}")
    if not any(True for _ in arrays_of(job)):
        raise Failure(f"Job {key} has no array; see vcctl job view -N {key.name} -n {key.namespace}")
    return job


def arrays_of(job: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the tasks of a Job that are arrays."""
    return (task for task in (job.get("spec") or {}).get("tasks") or () if task.get("array"))


def _chosen(job: Mapping[str, Any], name: str) -> tuple[int, Mapping[str, Any]]:
    """Return the position and the array task with `name`; an empty name means the only one."""
    tasks = list(enumerate(job["spec"]["tasks"]))
    own = [(position, task) for position, task in tasks if task.get("array") and name in ("", task.get("name"))]
    if len(own) != 1:
        names = ", ".join(task["name"] for task in arrays_of(job))
        raise Failure(f"name the task with -t; the arrays are {names}" if not name else f"no array is {name}; there are {names}")
    return own[0]


def progress_of(job: Mapping[str, Any], task: Mapping[str, Any]) -> Progress:
    """Return the states of the indexes of an array."""
    status = ((job.get("status") or {}).get("arrays") or {}).get(task.get("name"), {})
    return read(reading.convert(dict(task["array"]), Array), reading.convert(dict(status), ArrayStatus))


def _rows(job: Mapping[str, Any], task: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each state that some indexes have, in the order in which an index passes them."""
    progress, meta = progress_of(job, task), job["metadata"]
    status = progress.written()
    waiting = tuple(waiting_spans(progress))
    states = (
        ("Waiting", progress.left - progress.count(progress.running), waiting),
        ("Running", progress.count(progress.running), progress.running),
        ("Completed", progress.count(progress.completed), indexes.joined(progress.ranges, progress.completed)),
        ("Failed", progress.count(progress.failed), indexes.read(status.failed)),
        ("Cancelled", progress.count(progress.cancelled), indexes.read(status.cancelled)),
    )
    for state, number, spans in states:
        if number:
            of = {"namespace": meta["namespace"], "name": meta["name"], "task": task["name"]}
            yield {**of, "state": state, "count": number, "indexes": indexes.written(spans)}


def waiting_spans(progress: Progress) -> Iterator[tuple[int, int]]:
    """Yield the spans of the indexes that have neither ended nor run."""
    everything = tuple((each.start, each[-1] + 1) for each in progress.ranges)
    yield from indexes.joined(progress.ranges, indexes.without(everything, indexes.union(progress.ended, progress.running)))


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST].rpartition(',')[0]},…"


_COLUMNS: Final = (
    *columns("task", "state", "count"),
    Column("INDEXES", "indexes", text=_short),
)

ARRAY: Final = Group(
    "array",
    "show the indexes of an array, and cancel some",
    (
        OwnLeaf(
            "show", "show how many indexes of an array wait, run and have ended", _show, (NAMESPACE, *TABLE_FLAGS), takes="JOB"
        ),
        OwnLeaf(
            "cancel",
            "cancel indexes of an array: their pods end, and no others are made",
            cancel,
            (NAMESPACE, Flag("task", "t", "", "the task, where several have an array")),
            takes="JOB INDEXES",
        ),
    ),
)
