"""The commands `vcctl job run|list|suspend|resume|delete` and their short programs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from pyroclast.api.enums import Action
from pyroclast.api.types import JOBS
from pyroclast.resources import quantity
from pyroclast_cli.compatible.commands import issue, required_key
from pyroclast_cli.compatible.job_view import view_lines
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.tree import Leaf, original_group
from pyroclast_cli.views.output import padded


def parse_resources(text: str) -> dict[str, str]:
    """Return canonical quantities by resource name."""
    amounts: dict[str, str] = {}
    for element in text.split(",") if text else ():
        name, *values = element.split("=")
        if len(values) != 1:
            raise Failure(f"invalid argument syntax {element}, expected <resource>=<value>")
        try:
            amounts[name] = str(quantity.parse(values[0]))
        except quantity.QuantityError as error:
            raise Failure(str(error)) from error
    return amounts


COLUMNS: Final = (
    ("Creation", 15),
    ("Phase", 12),
    ("JobType", 12),
    ("Replicas", 12),
    ("Min", 6),
    ("Pending", 10),
    ("Running", 10),
    ("Succeeded", 12),
    ("Failed", 10),
    ("Unknown", 12),
    ("RetryCount", 10),
)
COUNTERS: Final = ("minAvailable", "pending", "running", "succeeded", "failed", "unknown", "retryCount")
JOB_TYPE: Final = "volcano.sh/job-type"
GAP: Final = 3


def job_table(
    jobs: Sequence[Mapping[str, Any]], *, with_namespace: bool, measured: Sequence[Mapping[str, Any]] | None = None
) -> list[str]:
    """Return the lines of the table. The first columns are as wide as their values in `measured`, by default in `jobs`."""
    leading = (("Namespace", "namespace"), ("Name", "name")) if with_namespace else (("Name", "name"),)
    all_jobs = jobs if measured is None else measured
    widths = [max(len(header), *(len(job["metadata"][key]) for job in all_jobs)) + GAP for header, key in leading]
    rows = [[*(header for header, _ in leading), *(header for header, _ in COLUMNS)]]
    rows += [[*(job["metadata"][key] for _, key in leading), *_cells(job)] for job in jobs]
    return padded(rows, [*widths, *(width for _, width in COLUMNS)])


def _cells(job: Mapping[str, Any]) -> list[str]:
    from pyroclast.rules.jobs.arrays import number_of_pods  # noqa: PLC0415 - imports all rules of Jobs, for lists alone

    metadata, status = job["metadata"], job.get("status") or {}
    created = datetime.fromisoformat(metadata["creationTimestamp"]).astimezone()
    replicas = sum(map(number_of_pods, job.get("spec", {}).get("tasks") or ()))
    return [
        f"{created:%Y-%m-%d}",
        (status.get("state") or {}).get("phase", ""),
        (metadata.get("labels") or {}).get(JOB_TYPE) or "Batch",
        str(replicas),
        *(str(status.get(counter, 0)) for counter in COUNTERS),
    ]


DEFAULT_RESOURCES: Final = "cpu=1000m,memory=100Mi"
NAME: Final = Flag("name", "N", "", "the name of job")
NAMESPACE: Final = Flag("namespace", "n", "default", "the namespace of job")
SHORT_NAME: Final = Flag("name", "n", "", "the name of job")
SHORT_NAMESPACE: Final = Flag("namespace", "N", "default", "the namespace of job")
ALL_NAMESPACES: Final = Flag("all-namespaces", "", default=False, text="list jobs in all namespaces", kind="bool")
SELECTOR: Final = Flag("selector", "", "", "fuzzy matching jobName")
SCHEDULER: Final = Flag("scheduler", "S", "", "list job with specified scheduler name")
SIZES: Final = (
    Flag("min", "m", 1, "the minimal available tasks of job", "int"),
    Flag("replicas", "r", 1, "the total tasks of job", "int"),
    Flag("requests", "R", DEFAULT_RESOURCES, "the resource request of the task"),
    Flag("limits", "L", DEFAULT_RESOURCES, "the resource limit of the task"),
)


async def _run(context: Context) -> None:
    file = context.text("filename") if "filename" in context.values else ""
    if not context.text("name") and not file:
        raise Failure("job name cannot be left blank")
    requests, limits = parse_resources(context.text("requests")), parse_resources(context.text("limits"))
    job = _from_file(file) if file else _from_flags(context, requests, limits)
    namespace = context.text("namespace")
    created = await context.client.create(JOBS, job, namespace=namespace)
    context.say(f"run job {created['metadata']['name']} successfully")


def _from_file(file: str) -> dict[str, Any]:
    if ".yaml" not in file and ".yml" not in file:
        raise Failure("only support yaml file")
    try:
        text = Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"failed to read file, err: {error}") from error
    try:
        document = next(iter(yaml.load_all(text, Loader=yaml.CSafeLoader)), None)
    except yaml.YAMLError as error:
        raise Failure(f"failed to unmarshal file, err:  {error}") from error
    if not isinstance(document, dict):
        raise Failure("failed to unmarshal file, err:  the file holds no object")
    if isinstance(items := document.get("items"), list):
        if len(items) != 1 or not isinstance(items[0], dict):
            raise Failure(f"the file holds a list of {len(items)} objects, and one Job is run; use: kubectl create -f {file}")
        document = items[0]
    return {**document, "apiVersion": JOBS.api_version, "kind": JOBS.kind}


def _from_flags(context: Context, requests: Mapping[str, str], limits: Mapping[str, str]) -> dict[str, Any]:
    name = context.text("name")
    container: dict[str, Any] = {
        "name": name,
        "image": context.text("image"),
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": limits, "requests": requests},
    }
    command = context.text("command") if "command" in context.values else ""
    if command:
        try:
            container["command"] = shlex.split(command)
        except ValueError as error:
            raise Failure(str(error)) from error
    template = {
        "metadata": {"name": name, "labels": {"job.volcano.sh": name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name, "namespace": context.text("namespace")},
        "spec": {
            "minAvailable": context.number("min"),
            "schedulerName": context.text("scheduler"),
            "tasks": [{"replicas": context.number("replicas"), "template": template}],
        },
    }


def _matches(job: Mapping[str, Any], context: Context) -> bool:
    spec = job.get("spec") or {}
    return (
        all(
            not wanted or spec.get(field) == wanted
            for field, wanted in (("queue", context.values.get("queue", "")), ("schedulerName", context.text("scheduler")))
        )
        and context.text("selector") in job["metadata"]["name"]
    )


async def _list(context: Context, *, prints_empty_table: bool) -> None:
    """Print the table of Jobs. With `prints_empty_table`, print the header when no Job passes the filters, as `vjobs` does."""
    everywhere = context.is_set("all-namespaces")
    jobs, _ = await context.client.list(JOBS, "" if everywhere else context.text("namespace"))
    amounts = [job for job in jobs if _matches(job, context)]
    if not (jobs if prints_empty_table else amounts):
        context.say("No resources found")
        return
    for line in job_table(amounts, with_namespace=everywhere, measured=jobs if prints_empty_table else amounts):
        context.say(line)


async def _view(context: Context, *, with_conditions: bool) -> None:
    key = required_key(context, "job name (specified by --name or -N) is mandatory to view a particular job")
    for line in await view_lines(context.client, key, with_conditions=with_conditions):
        context.say(line)


async def _vjobs(context: Context) -> None:
    if context.text("name"):
        await _view(context, with_conditions=False)
    else:
        await _list(context, prints_empty_table=True)


async def _delete(context: Context, *, verb: str) -> None:
    key = required_key(context, f"job name is mandatory to {verb} a particular job")
    await context.client.delete(JOBS, key)
    context.say(f"{verb} job {key.name} successfully")


async def _command(context: Context, *, action: Action, verb: str) -> None:
    key = required_key(context, f"job name is mandatory to {verb} a particular job")
    await issue(context, JOBS, key, action, namespace=key.namespace)


_SUSPEND: Final[Callable[[Context], Awaitable[None]]] = partial(_command, action=Action.ABORT_JOB, verb="suspend")
_RESUME: Final[Callable[[Context], Awaitable[None]]] = partial(_command, action=Action.RESUME_JOB, verb="resume")

JOB: Final = original_group(
    "job",
    "vcctl command line operation job",
    Leaf(
        "run",
        "run job by parameters from the command line",
        _run,
        (
            NAME,
            NAMESPACE,
            Flag("image", "i", "busybox", "the container image of job"),
            *SIZES,
            Flag("scheduler", "S", "volcano", "the scheduler for this job"),
            Flag("filename", "f", "", "the yaml file of job"),
        ),
    ),
    Leaf(
        "list",
        "list job information",
        partial(_list, prints_empty_table=False),
        (NAMESPACE, Flag("queue", "q", "", "list job with specified queue name"), SCHEDULER, ALL_NAMESPACES, SELECTOR),
    ),
    Leaf("view", "show job information", partial(_view, with_conditions=True), (NAME, NAMESPACE)),
    Leaf("suspend", "abort a job", _SUSPEND, (NAME, NAMESPACE)),
    Leaf("resume", "resume a job", _RESUME, (NAME, NAMESPACE)),
    Leaf("delete", "delete a job", partial(_delete, verb="delete"), (NAME, NAMESPACE)),
)


def vsub() -> Leaf:
    """Return the command `vsub`. Environment variables set some of its defaults."""

    def overridable(name: str, short: str, variable: str, default: str, text: str) -> Flag:
        return Flag(name, short, os.environ.get(variable, default), f"{text}, overwrite the value of '{variable}'")

    return Leaf(
        "vsub",
        "submit a job",
        _run,
        (
            SHORT_NAME,
            overridable("namespace", "N", "VOLCANO_DEFAULT_JOB_NAMESPACE", "default", "the namespace of job"),
            overridable("image", "i", "VOLCANO_DEFAULT_IMAGE", "busybox", "the container image of job"),
            overridable("scheduler", "S", "VOLCANO_SCHEDULER_NAME", "volcano", "the scheduler for this job"),
            *SIZES,
            Flag("command", "c", "", "the command of job"),
        ),
        long="Submit a job by its name and arguments. Files are not read: use `vcctl job run -f` or kubectl.",
    )


_SHORT: Final = (SHORT_NAME, SHORT_NAMESPACE)
vjobs: Final = Leaf(
    "vjobs",
    "view job information",
    _vjobs,
    (*_SHORT, SCHEDULER, ALL_NAMESPACES, SELECTOR),
    long="Show one job by its name, or the jobs of a namespace.",
)
vcancel: Final = Leaf(
    "vcancel", "cancel a job", partial(_delete, verb="cancel"), _SHORT, long="Cancel a job that runs, waits or was aborted."
)
vsuspend: Final = Leaf("vsuspend", "suspend a job", _SUSPEND, _SHORT, long="Suspend a job that runs or waits.")
vresume: Final = Leaf("vresume", "resume a job", _RESUME, _SHORT, long="Resume a job that was aborted.")
