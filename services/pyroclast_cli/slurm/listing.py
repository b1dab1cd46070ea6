"""The commands `squeue`, `sacct`, `sinfo` and `scancel`, with the columns and states of Slurm; and the links with its names."""

from __future__ import annotations

import shutil
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import NODES, PODS, QUEUES, Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.servers import whoami
from pyroclast.resources import indexes
from pyroclast.resources.quantity import ZERO
from pyroclast.views.jobs import Waiter, waiting_cause
from pyroclast.views.nodes import node_rows
from pyroclast.views.readable import amount, in_hours, ranges_of
from pyroclast_cli.flags import Context, Failure, connected
from pyroclast_cli.servers import asked, history_path
from pyroclast_cli.slurm.jobs import ACCOUNT
from pyroclast_cli.slurm.options import Values, command_line
from pyroclast_cli.slurm.submitting import cancel
from pyroclast_cli.tree import OwnLeaf, RawLeaf
from pyroclast_cli.views.arrays import arrays_of, progress_of, waiting_spans
from pyroclast_cli.views.arrays import cancel as cancel_indexes
from pyroclast_cli.views.output import padded
from pyroclast_cli.views.scope import views_in

STATES: Final = {
    "PD": "PENDING",
    "R": "RUNNING",
    "CG": "COMPLETING",
    "CD": "COMPLETED",
    "F": "FAILED",
    "CA": "CANCELLED",
    "TO": "TIMEOUT",
    "DL": "DEADLINE",
    "S": "SUSPENDED",
    "RQ": "REQUEUED",
    "OOM": "OUT_OF_MEMORY",
    "NF": "NODE_FAIL",
    "PR": "PREEMPTED",
}
_OF_PHASE: Final = {
    "": "PD",
    "Pending": "PD",
    "Running": "R",
    "Completing": "CG",
    "Terminating": "CG",
    "Aborting": "CG",
    "Restarting": "RQ",
    "Completed": "CD",
    "Aborted": "S",
    "Failed": "F",
    "Terminated": "CA",
}
_OF_REASON: Final = {"RunTimeLimit": "TO", "DeadlineExceeded": "DL", "PodFailed": "F", "PodEvicted": "PR"}
_OF_RECORD: Final = {"OutOfMemory": "OOM", "NodeLost": "NF", "Evicted": "PR", "Removed": "CA"}
"""The states of the recorder that are no phases."""
_REASONS: Final = {"Suspended": "JobHeldUser", "WaitsForJob": "Dependency", "ClusterFull": "Resources"}
MOST_LINES: Final = 1000  # for the indexes of one array
WAITING: Final = frozenset({"PD", "S", "RQ"})


def state_of(job: Mapping[str, Any]) -> str:
    """Return the state of a Job as Slurm's short word."""
    state = (job.get("status") or {}).get("state") or {}
    phase = str(state.get("phase") or "")
    if phase in {"Failed", "Terminated"} and state.get("reason") in _OF_REASON:
        return _OF_REASON[state["reason"]]
    return _OF_PHASE.get(phase, "R")


def parts_of(job: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the name and state of each line of a Job. An array has a line for what waits, and one for each index that runs."""
    name, state = str(job["metadata"]["name"]), state_of(job)
    tasks = list(arrays_of(job))
    if not tasks or state not in {"PD", "R"}:
        return [(name, state)]
    parts = []
    for task in tasks:
        progress = progress_of(job, task)
        most = f"%{task['array']['maxParallel']}" if task["array"].get("maxParallel") else ""
        if text := indexes.written(tuple(waiting_spans(progress))):
            parts.append((f"{name}_[{text}{most}]", "PD"))
        running = chain.from_iterable(range(first, stop) for first, stop in progress.running)
        parts += [(f"{name}_{index}", "R") for index in islice(running, MOST_LINES) if indexes.contains(progress.ranges, index)]
    return parts


def elapsed(seconds: float) -> str:
    """Return a time as Slurm does: `1-02:03:04`, `2:03:04` or `3:04`."""
    minutes, second = divmod(max(0, int(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def slurm_name(metadata: Mapping[str, Any]) -> str:
    """Return the name that the user gave the Job."""
    return str((metadata.get("labels") or {}).get(keys.SLURM_NAME) or metadata["name"])


def _listed(given: Values, name: str) -> set[str]:
    return {each for text in given.get(name, ()) for each in text.split(",") if each}


def _states(given: Values, name: str) -> set[str]:
    """Return the short states of an option; empty for all."""
    wanted = {each.upper() for each in _listed(given, name)} - {"ALL"}
    by_name = {long: short for short, long in STATES.items()} | {short: short for short in STATES}
    if unknown := wanted - by_name.keys():
        raise Failure(f'--{name}: there is no state "{min(unknown)}"; there are {", ".join(STATES)}')
    return {by_name[each] for each in wanted}


@asynccontextmanager
async def _opened(given: Values) -> AsyncIterator[Context]:
    """Yield a context with a client, and with the namespace that the options name, empty for all."""
    async with connected(given.get("kubeconfig", [""])[-1], "", given.get("clusters", [""])[-1]) as client:
        namespace = "" if "all-namespaces" in given else given.get("namespace", [client.config.namespace])[-1]
        yield Context({"recorder": "", "task": "", "namespace": namespace}, connection=client)


async def _chosen(context: Context, given: Values, names: set[str]) -> list[Waiter]:
    """Return the Jobs that the options select."""
    users, queues, labels = _listed(given, "user"), _listed(given, "partition"), _listed(given, "name")
    if "me" in given:
        users |= {await whoami(context.client)}
    return [
        view
        for view in await views_in(context.client, context.text("namespace"))
        if (not names or view.name in names)
        and (not users or _user(view.job["metadata"]) in users)
        and (not queues or view.queue in queues)
        and (not labels or slurm_name(view.job["metadata"]) in labels or view.name in labels)
    ]


def _user(metadata: Mapping[str, Any]) -> str:
    return str((metadata.get("annotations") or {}).get(keys.SUBMITTED_BY, ""))


async def _squeue(command: Context) -> int:
    given, _ = command_line(command.arguments, "squeue", "")
    wanted = _states(given, "states")
    is_all = "ALL" in {each.upper() for each in _listed(given, "states")}
    async with _opened(given) as context:
        views = await _chosen(context, given, _listed(given, "jobs"))
        chosen = wanted or (set(STATES) if is_all else {"PD", "R", "CG", "S", "RQ"})
        shown = [(view, *part) for view in views for part in parts_of(view.job) if part[1] in chosen]
        pods, _ = await context.client.list(PODS, context.text("namespace"), label_selector=keys.JOB_NAME)
    placed: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for pod in pods:
        if (pod.get("spec") or {}).get("nodeName"):
            name, index = (pod["metadata"]["labels"].get(key, "") for key in (keys.JOB_NAME, keys.TASK_INDEX))
            for each in (name, f"{name}_{index}"):
                placed[pod["metadata"]["namespace"], each].append(pod)
    header = ("JOBID", "PARTITION", "NAME", "USER", "ST", "TIME", "NODES", "NODELIST(REASON)")
    now = context.client.now()
    rows = [_queue_row(view, name, state, placed.get((view.namespace, name), ()), now) for view, name, state in shown]
    _table(rows, () if "noheader" in given else (header,), right=(0, 1, 2, 3, 4, 5, 6))
    return 0


def _queue_row(view: Waiter, name: str, state: str, pods: Sequence[Mapping[str, Any]], now: float) -> tuple[str, ...]:
    metadata = view.job["metadata"]
    status: Mapping[str, Any] = (view.job.get("status") or {}).get("state") or {}
    nodes = [pod["spec"]["nodeName"] for pod in pods]
    starts = [start for pod in pods if (start := (pod.get("status") or {}).get("startTime"))]
    changed = min(starts, default=status.get("lastTransitionTime"))
    ran = elapsed(now - datetime.fromisoformat(changed).timestamp()) if changed and state in {"R", "CG"} else "0:00"
    first = (name, view.queue or "", slurm_name(metadata)[:8], _user(metadata)[:8], state, ran)
    if state == "PD" and view.phase == "Running":
        return *first, "1", "(JobArrayTaskLimit)"
    code = (view.cause or waiting_cause(view.job, view.group)).code
    reason = _REASONS.get(code, code) if state in WAITING else status.get("reason") or "None"
    where = ranges_of(nodes) if state in {"R", "CG"} else f"({reason})"
    count = len(set(nodes)) or (view.pods or 1 if name == view.name else 1)  # of an array, each index has one pod
    return *first, str(count), where


def _table(rows: Sequence[Sequence[str]], heads: Sequence[Sequence[str]], *, right: Sequence[int]) -> None:
    """Print rows below the rows in `heads`, with some columns aligned to the right as Slurm does."""
    shown = [*heads, *rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    aligned = [[value.rjust(widths[i]) if i in right else value for i, value in enumerate(row)] for row in shown]
    for line in padded(aligned, [width + 1 for width in widths]):
        sys.stdout.write(f"{line.rstrip()}\n")


async def _sacct(command: Context) -> int:
    given, _ = command_line(command.arguments, "sacct", "")
    wanted, names, users = _states(given, "state"), _listed(given, "jobs"), _listed(given, "user")
    times = {"since": given.get("starttime", ["24h"])[-1], "until": given.get("endtime", [""])[-1]}
    async with _opened(given) as context:
        answer = await asked(context, history_path("jobs"), {"namespace": context.text("namespace"), **times})
    rows = []
    for job in reversed(answer["items"]):
        state = _OF_RECORD.get(job["state"]) or _OF_REASON.get(job["reason"] or "") or _OF_PHASE.get(job["state"], "R")
        if (names and job["name"] not in names) or (users and job["user"] not in users) or (wanted and state not in wanted):
            continue
        labels, seconds = job.get("labels") or {}, job["elapsedSeconds"] or 0
        cpus = round(in_hours("cpu", (job["asked"] or {}).get("cpu", 0)) * 3600 / seconds) if seconds else 0
        name = str(labels.get(keys.SLURM_NAME) or job["name"])
        number = job["exitCode"] or 0
        code = f"0:{number - 128}" if number > 128 else f"{number}:0"
        rows.append((job["name"], name[:10], job["queue"] or "", labels.get(ACCOUNT, ""), str(cpus), STATES[state], code))
    header = ("JobID", "JobName", "Partition", "Account", "AllocCPUS", "State", "ExitCode")
    if "parsable2" in given:
        for row in [*([] if "noheader" in given else [header]), *rows]:
            sys.stdout.write("|".join(row) + "\n")
        return 0
    rule = ["-" * max(map(len, column)) for column in zip(header, *rows, strict=True)]
    _table(rows, () if "noheader" in given else (header, rule), right=(1, 2, 3, 4, 5, 6))
    if answer["isCut"]:
        sys.stderr.write("only the newest are shown: --starttime and --endtime choose others\n")
    return 0


async def _sinfo(command: Context) -> int:
    given, _ = command_line(command.arguments, "sinfo", "")
    async with _opened(given) as context:
        queues, _ = await context.client.list(QUEUES)
        nodes, _ = await context.client.list(NODES)
        pods, _ = await context.client.list(PODS, field_selector="status.phase!=Succeeded,status.phase!=Failed")
    groups: dict[str, list[str]] = defaultdict(list)
    for row in node_rows(nodes, pods, {node["metadata"]["name"]: [node["metadata"]["name"]] for node in nodes}):
        groups[node_state(row)].append(str(row["group"]))
    rows: list[tuple[str, ...]] = []
    wanted = _listed(given, "partition")
    for queue in queues:
        name = queue["metadata"]["name"]
        if (wanted and name not in wanted) or (name == "root" and not wanted):
            continue
        avail = "up" if (queue.get("status") or {}).get("state", "Open") == "Open" else "down"
        label = f"{name}*" if name == "default" else name
        rows += [(label, avail, "infinite", str(len(each)), state, ranges_of(each)) for state, each in sorted(groups.items())]
    header = ("PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST")
    _table(rows, () if "noheader" in given else (header,), right=(2, 3, 4))
    return 0


def node_state(row: Mapping[str, Any]) -> str:
    """Return the state of a row of `node_rows` as Slurm's word."""
    if row["state"] == "NotReady":
        return "down"
    if row["state"] == "Cordoned":
        return "drain" if not row["pods"] else "drng"
    if not row["pods"]:
        return "idle"
    return "mix" if amount(row["cpuFree"]) > ZERO else "alloc"


async def _scancel(command: Context) -> int:
    given, names = command_line(command.arguments, "scancel", "[JOB…]")
    if not names and not given.keys() & {"user", "me", "partition", "name", "state"}:
        raise Failure("name Jobs, or choose them by --user, --me, --partition, --name or --state")
    status = 0
    wanted = _states(given, "state")
    elements, names = [each for each in names if "_" in each], [each for each in names if "_" not in each]
    async with _opened(given) as context:
        for each in elements:
            name, _, text = each.partition("_")
            await cancel_indexes(replace(context, arguments=(name, text.strip("[]"))))
        views = await _chosen(context, given, set(names)) if names or not elements else []
        for name in sorted(set(names) - {view.name for view in views}):
            sys.stderr.write(f"scancel: error: there is no Job {name} that the options choose\n")
            status = 1
        for view in views:
            state = state_of(view.job)
            if state not in {"PD", "R", "S", "RQ", "CG"} or (wanted and state not in wanted):
                continue
            try:
                await cancel(context.client, Key(view.namespace, view.name))
            except KubeError as error:
                sys.stderr.write(f"scancel: error: {view.name}: {error}\n")
                status = 1
    return status


async def _link(context: Context) -> int:
    if len(context.arguments) != 1 or context.arguments[0].startswith("-"):
        raise Failure("name the folder for the links, which should be in PATH: vcctl slurm-names ~/bin")
    for line in linked(Path(context.arguments[0])):
        context.say(line)
    return 0


def linked(folder: Path) -> list[str]:
    """Make links to `vcctl` with the names of Slurm's commands. Return a line for each new one."""
    from pyroclast_cli.programs import SLURM_NAMES  # noqa: PLC0415 - that module imports this one

    program = shutil.which(sys.argv[0]) or shutil.which("vcctl")
    if program is None:
        raise Failure("vcctl is not in PATH, so a link to it has no target")
    target, lines = Path(program).resolve(), []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for link in (folder / name for name in SLURM_NAMES):
            if not (link.is_symlink() and link.resolve() == target):
                link.symlink_to(target)
                lines.append(f"{link} -> {target}")
    except OSError as error:
        raise Failure(f"{error.filename2 or error.filename}: {error.strerror}") from error
    return lines


SQUEUE: Final = RawLeaf("squeue", "list Jobs that wait or run, with the columns of Slurm", _squeue)
SACCT: Final = RawLeaf("sacct", "list past Jobs, with the columns of Slurm", _sacct)
SINFO: Final = RawLeaf("sinfo", "list queues and nodes, with the columns of Slurm", _sinfo)
SCANCEL: Final = RawLeaf("scancel", "end Jobs by name, user or queue", _scancel)
NAMES: Final = OwnLeaf(
    "slurm-names", "make links to vcctl with the names of Slurm's commands", _link, needs_cluster=False, takes="FOLDER"
)
