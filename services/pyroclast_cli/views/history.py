"""The commands `vcctl history`, which lists past Jobs, also deleted ones, and `vcctl efficiency`.

`vcctl efficiency` compares the requests of a Job with its usage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.api.types import Key
from pyroclast.views.contract import Row, document
from pyroclast.views.groups import OBJECT, is_native
from pyroclast.views.readable import hours_text, human_duration, in_hours
from pyroclast.views.usage import advice_of, efficiency_rows
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.servers import RECORDER, WINDOW_FLAGS, asked, history_path
from pyroclast_cli.tree import OwnLeaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table, columns, with_kind, write, write_one
from pyroclast_cli.views.scope import ALL_NAMESPACES, NAMESPACE, NO_SUCH_OBJECT, job_key, namespaces_of

GPU: Final = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915")
FILTERS: Final = ("state", "queue", "user", "flow", "name")
MOST: Final = 10_000
REFERENCE: Final = "vcjob.batch.volcano.sh"


COLUMNS: Final = (
    *columns("namespace", "name", "queue", "user", "state"),
    Column("EXIT", "exitCode"),
    Column("SUBMITTED", "submitted", lambda text: text.removesuffix("Z").replace("T", " ")),
    Column("WAITED", "waitedSeconds", human_duration),
    Column("ELAPSED", "elapsedSeconds", human_duration),
    Column("PODS", "pods"),
    Column("CPU-H", "cpuHours", hours_text),
    Column("GPU-H", "gpuHours", hours_text),
    Column("KIND", "object", is_wide=True),
    *columns("reason", "retries", "nodes", "flow", "uid", is_wide=True),
    Column("±", "doubtfulCpuHours", hours_text, is_wide=True),
)
EFFICIENCY_COLUMNS: Final = (
    *columns("task", "resource"),
    Column("ASKED-H", "askedHours", hours_text),
    Column("USED-H", "usedHours", hours_text),
    *columns("peak", "efficiency"),
    Column("PEAK-POD", "peakPod", is_wide=True),
)


FORGOTTEN: Final = "not known, its pods are no longer kept or were not seen"


def history_row(job: Mapping[str, Any]) -> Row:
    """Return the table row of a past Job from the data of the recorder. What its pods held is None if it is no longer known."""
    if job["asked"] is None:
        return {**job, "cpuHours": None, "gpuHours": None, "doubtfulCpuHours": None}
    asked_for, doubtful = job["asked"], job["doubtful"]
    gpus = [in_hours(name, asked_for[name]) for name in GPU if name in asked_for]
    return {
        **job,
        "cpuHours": in_hours("cpu", asked_for.get("cpu", 0)),
        "gpuHours": sum(gpus) if gpus else None,
        "doubtfulCpuHours": in_hours("cpu", doubtful["cpu"]) if doubtful.get("cpu") else None,
    }


ACTIONS: Final = (
    Column("TIME", "at", lambda text: text.removesuffix("Z").replace("T", " ")),
    Column("USER", "user", absent="?"),
    Column("ACTION", "verb"),
    *columns("kind", "namespace", "name", "message"),
    Column("UID", "uid", is_wide=True),
)


async def _actions(context: Context) -> None:
    query = {name: context.text(name) for name in ("since", "until", "user")} | {"namespace": namespaces_of(context)}
    if context.arguments:
        query["name"] = context.arguments[0]
    if limit := context.number("limit"):
        query["limit"] = str(limit)
    answer = await asked(context, history_path("actions"), query)
    notes = ["There were more; --limit, --since and --until show others"] if answer["isCut"] else []
    write(context, Table("ActionRecord", ACTIONS, answer["items"], empty="Nobody did anything in that time", notes=notes))


async def _history(context: Context) -> None:
    if context.is_set("actions"):
        await _actions(context)
        return
    if context.arguments:
        await _one(context)
        return
    limit = context.number("limit")
    if not 0 <= limit <= MOST:
        raise Failure(f"--limit: {limit} is not between 0 and {MOST}")
    query = {name: context.text(name) for name in ("since", "until", *FILTERS)}
    query |= {"namespace": namespaces_of(context), "limit": str(limit) if limit else ""}
    answer = await asked(context, history_path("jobs"), query)
    rows = [history_row(job) for job in answer["items"]]
    natives = [row for row in rows if is_native(row)]
    if context.text("output") == "name":  # the form `name` prints names of Jobs only
        rows = [row for row in rows if not is_native(row)]
    write(context, Table("JobRecord", with_kind(COLUMNS, natives), rows, REFERENCE, "No Jobs were submitted in that time"))
    if answer["isCut"] and not limit and context.text("output") in {"table", "wide", ""}:
        context.say(f"These are the {len(rows)} newest; --limit shows up to {MOST}, --since and --until others")


async def _tries(context: Context) -> tuple[Key, list[dict[str, Any]]]:
    """Return all Jobs that have had the name in the arguments, the newest first."""
    key = job_key(context)
    tries = (await asked(context, history_path("jobs", key.namespace, key.name), {}))["items"]
    if not tries:
        raise Failure(f"the recorder has no Job {key}", status=NO_SUCH_OBJECT)
    return key, tries


async def _one(context: Context) -> None:
    key, tries = await _tries(context)
    shown = tries if context.is_set("all") else tries[:1]
    lines = [line for number, job in enumerate(shown) for line in ([""] if number else []) + _lines(job)]
    if len(tries) > len(shown):
        lines += ["", f"There were {len(tries)} Jobs of this name; --all shows all of them"]
    reference = f"{OBJECT if is_native(shown[0]) else REFERENCE}/{key.name}"
    rows = [{column.field: history_row(job).get(column.field) for column in COLUMNS} for job in shown]
    write_one(context, document("JobRecordList", {"items": shown}), lines, reference=reference, rows=rows)


def _lines(job: Mapping[str, Any]) -> list[str]:
    """Return one Job as text."""
    where = _in(job.get("domains") or ())
    queue = f", to queue {job['queue']}" if job["queue"] else ""
    shape = f"; {job['shape']}" if job["shape"] else ""
    reason = f" ({job['reason']}: {job['message']})" if job["reason"] and job["message"] else ""
    pods = FORGOTTEN if job["pods"] is None else f"{job['pods']} on {job['nodes']} nodes{where}"
    tries = job.get("tries") or ()
    in_tries = f" in {len(tries)} tries" if len(tries) > 1 else ""
    lines = [
        f"{'PodGroup' if is_native(job) else 'Job'} {job['namespace']}/{job['name']}, uid {job['uid']}",
        f"State:      {job['state']}{reason}",
        f"Submitted:  {job['submitted']} by {job['user']}{queue}",
        f"Waited:     {_duration(job['waitedSeconds'])}{in_tries}",
        f"Ran:        {_duration(job['elapsedSeconds'])}{in_tries}, until {job['ended'] or 'now'}",
        f"Pods:       {pods}, {job['retries']} retries{shape}",
    ]
    if job["owner"]:
        lines.append(f"Made by:    {job['owner']}{_told_of(job.get('madeBy'))}")
    usage = ", ".join(f"{hours_text(in_hours(name, amount))} {name}" for name, amount in (job["asked"] or {}).items())
    lines.append(f"Hours held: {FORGOTTEN if job['asked'] is None else usage or '-'}")
    if in_tries:
        lines.append("Tries:")
        for each in tries:
            waited, ran = _duration(each["waitedSeconds"]), _duration(each["ranSeconds"])
            why = f" ({each['message']})" if each["message"] else ""
            lines.append(f"  {each['number']}  {each['since']}  waited {waited}, ran {ran}: {each['state']}{why}")
    for title, steps in (("Phases", job["phases"]), ("Waited for", job["causes"])):
        if steps:
            lines.append(f"{title}:")
            lines += [f"  {step['at']}  {step['name']}" + (f": {step['message']}" if step["message"] else "") for step in steps]
    if job["tasks"]:
        lines.append("Tasks:")
        lines += [
            f"  {task['task'] or '-'}: {task['pods']} pods, {task['failed']} failed, {task['evicted']} evicted"
            for task in job["tasks"]
        ]
    if job["evictions"]:
        lines.append("Evictions:")
        lines += [f"  {each['at']}  {each['pod']}: {each['message']}" for each in job["evictions"]]
    return lines


def _in(domains: Sequence[str]) -> str:
    """Return the HyperNodes of the Job's nodes as text, empty without any."""
    if not domains:
        return ""
    return f" in {', '.join(domains[:3])}" + (f" and {len(domains) - 3} more" if len(domains) > 3 else "")


def _told_of(owner: Mapping[str, Any] | None) -> str:
    """Return the phase and the end, as text, of the object that created a Job, such as a flow."""
    if owner is None:
        return ""
    parts = [owner["phase"], *(f"{word} {owner[word]}" for word in ("ended", "removed") if owner[word])]
    return "".join(f", {each}" for each in parts if each)


def _duration(seconds: int | None) -> str:
    return "-" if seconds is None else human_duration(seconds)


async def _efficiency(context: Context) -> None:
    job = (await _tries(context))[1][0]
    rows = [{**row, "name": job["name"]} for row in efficiency_rows(job)]
    is_table = context.text("output") in {"table", "wide", ""}
    if is_table:
        code = "" if job["exitCode"] is None else f", exit code {job['exitCode']}"
        context.say(f"{job['state']}{code}; ran {_duration(job['elapsedSeconds'])}, waited {_duration(job['waitedSeconds'])}")
    nothing = "Its pods asked for nothing, or were never placed" if job["asked"] is not None else f"What it used is {FORGOTTEN}"
    write(context, Table("JobEfficiency", EFFICIENCY_COLUMNS, rows, REFERENCE, nothing))
    if is_table and rows and all(row["usedHours"] is None for row in rows):
        context.say("What was used is not known: nobody measured its pods (install metrics-server), or for too short a time")
    elif is_table and (advice := advice_of(job)):
        context.say(advice)


HISTORY: Final = OwnLeaf(
    "history",
    "list past Jobs, including deleted ones; with NAME, all records of one Job",
    _history,
    (
        NAMESPACE,
        ALL_NAMESPACES,
        *WINDOW_FLAGS,
        Flag("state", "", "", "only Jobs in this state, such as Completed, Failed, Evicted, OutOfMemory"),
        Flag("queue", "q", "", "only Jobs of this queue"),
        Flag("user", "u", "", "only Jobs that this user submitted"),
        Flag("flow", "", "", "only Jobs of this JobFlow"),
        Flag("name", "", "", "only Jobs of this name, in which * and ? stand for anything"),
        Flag("actions", "", default=False, text="who submitted, deleted and commanded what, and changed queues", kind="bool"),
        Flag("all", "", default=False, text="with NAME: all Jobs that had it, not the newest alone", kind="bool"),
        *TABLE_FLAGS,
        RECORDER,
    ),
    takes="[NAME]",
)
EFFICIENCY: Final = OwnLeaf(
    "efficiency",
    "compare the requests of a Job with its use",
    _efficiency,
    (NAMESPACE, *TABLE_FLAGS, RECORDER),
    takes="NAME",
)
