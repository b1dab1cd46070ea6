"""The commands `vcctl fits`, `what-if` and `lint`: whether a new Job would start, what a change would do, what is invalid.

Nothing is created.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from pyroclast.api.types import JOBS, QUEUES
from pyroclast.kube.http.servers import BOARD as BOARD_SERVER
from pyroclast.kube.http.waiting_queries import schedulers_at_work
from pyroclast.views.explanation import PARTS, explanation_lines, unserved, what_if_body, what_if_summary
from pyroclast.views.jobs import absence_of
from pyroclast.views.readable import start_text
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.servers import BOARD, UNREACHABLE, answered
from pyroclast_cli.tree import OwnLeaf
from pyroclast_cli.views.output import OUTPUT, TABLE_FLAGS, Column, Table, columns, write, write_one
from pyroclast_cli.views.scope import NAMESPACE, namespace_of

STANDARD_INPUT: Final = "-"
SUFFIXES: Final = (".yaml", ".yml", ".json")


async def _lint(context: Context) -> int:
    from pyroclast_cli.views.manifests import check_manifests  # noqa: PLC0415 - imports the schemas, which other commands do not need

    files = [context.text("filename"), *context.arguments] if context.text("filename") else list(context.arguments)
    if not files:
        raise Failure("name a manifest: vcctl lint -f FILE, a folder, or - for standard input")
    faults = checked = 0
    for file in (found for each in files for found in _files(each)):
        for result in check_manifests(documents_in(file), context.text("namespace")):
            checked += 1
            faults += len(result.faults)
            for fault in result.faults:
                context.say(f"{file}: {result.name}: error: {fault}")
            for warning in result.warnings:
                context.say(f"{file}: {result.name}: warning: {warning}")
    context.say(f"{checked} {'object' if checked == 1 else 'objects'} checked, {faults} {'error' if faults == 1 else 'errors'}")
    return 1 if faults else 0


def _files(name: str) -> list[str]:
    folder = Path(name)
    if name == STANDARD_INPUT or not folder.is_dir():
        return [name]
    return sorted(str(each) for each in folder.rglob("*") if each.suffix in SUFFIXES)


def documents_in(file: str) -> list[dict[str, Any]]:
    """Return the objects of a manifest, including the items of lists."""
    try:
        text = sys.stdin.read() if file == STANDARD_INPUT else Path(file).read_text()
        documents = [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise Failure(f"{file} is not YAML{where}: {getattr(error, 'problem', None) or 'unreadable'}") from error
    flat = [item for each in documents for item in (each.get("items") if _is_list(each) else [each])]
    if not all(isinstance(each, dict) for each in flat):
        raise Failure(f"{file}: each document must be an object with apiVersion and kind")
    return flat


def _is_list(document: Any) -> bool:  # noqa: ANN401 - YAML
    return isinstance(document, dict) and document.get("kind") == "List" and isinstance(document.get("items"), list)


LINT: Final = OwnLeaf(
    "lint",
    "check manifests by the rules of the webhooks, without a cluster",
    _lint,
    (
        Flag("filename", "f", "", "a manifest, a folder of them, or - for standard input"),
        Flag("namespace", "n", "default", "the namespace of what names none"),
    ),
    takes="[FILE...]",
    needs_cluster=False,
)


NEVER: Final = 3


async def _fits(context: Context) -> int:
    job = _job(context)
    client = context.client
    (queues, _), schedulers = await asyncio.gather(client.list(QUEUES), schedulers_at_work(client))
    job = _checked(job, queues)
    absence = absence_of(job, schedulers)
    answer = unserved(job, absence, client.now()) if absence else await _tried(context, "fits", job, "can try a Job")
    lines = explanation_lines(answer, verb="would wait")
    write_one(context, answer, lines, reference=f"vcjob.batch.volcano.sh/{job['metadata']['name']}")
    return NEVER if answer["never"] else 0


async def _tried(context: Context, what: str, body: dict[str, Any], only: str) -> dict[str, Any]:
    """Return the result of a trial by the scheduler. `only`: why nobody else can say it."""
    answer = await answered(context, what, body=body)
    if answer.document is not None:
        return answer.document
    if answer.is_refused:
        raise Failure(answer.complaint)
    why = answer.complaint or f"it is not known where the board is: {BOARD_SERVER.how}"
    raise Failure(f"only the scheduler {only}: {why}", status=UNREACHABLE)


def _job(context: Context) -> dict[str, Any]:
    """Return the only Job of the manifest."""
    file = context.text("filename") or (context.arguments[0] if len(context.arguments) == 1 else "")
    if not file:
        raise Failure("name a manifest: vcctl fits -f FILE, or - for standard input")
    jobs = [each for each in documents_in(file) if (each.get("apiVersion"), each.get("kind")) == (JOBS.api_version, JOBS.kind)]
    if len(jobs) != 1:
        raise Failure(f"{file}: there must be one Job of {JOBS.api_version}, and there are {len(jobs)}")
    (job,) = jobs
    job.pop("status", None)  # a copied Job may have a status, but a new one has none
    if not isinstance(job.get("metadata"), dict):
        job["metadata"] = {}
    job["metadata"] = {"namespace": namespace_of(context), **job["metadata"]}
    job["metadata"]["name"] = job["metadata"].get("name") or job["metadata"].get("generateName") or "(no name)"
    if queue := context.text("queue"):
        job["spec"] = {**(job.get("spec") or {}), "queue": queue}
    return job


def _checked(job: dict[str, Any], queues: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the Job with its defaults, as the webhooks would admit it."""
    from pyroclast_cli.views.manifests import admitted  # noqa: PLC0415 - imports the schemas, which other commands do not need

    result, faults = admitted(job, queues)
    if faults:
        raise Failure(f"it would be refused: {'; '.join(faults)}")
    return result


def _span(start: dict[str, str]) -> str:
    return start_text([start[name] for name in ("earliest", "likely", "latest")])


WHAT_IF_COLUMNS: Final = (
    *columns("namespace", "name", "queue"),
    Column("START", "before", _span, absent="?"),
    Column("THEN", "after", _span, absent="?"),
    Column("EFFECT", "effect"),
    Column("WHY", "reason", is_wide=True),
)


async def _what_if(context: Context) -> None:
    given = {name: context.text(name) for name in PARTS}
    try:
        body = what_if_body(given, namespace_of(context))
    except ValueError as error:
        raise Failure(str(error)) from error
    answer = await _tried(context, "what-if", body, "knows")
    notes = what_if_summary(answer)
    write(context, Table("WhatIfStart", WHAT_IF_COLUMNS, answer["items"], empty="No Job that you may see waits", notes=notes))


WHAT_IF: Final = OwnLeaf(
    "what-if",
    "show when waiting Jobs would start after a change; nothing is changed",
    _what_if,
    (
        Flag("add", "", "", "so much more of resources in the cluster, such as nvidia.com/gpu=8"),
        Flag("queue", "q", "", "the queue of --capability"),
        Flag("capability", "", "", "another capability (limit) of --queue, such as nvidia.com/gpu=520"),
        Flag("job", "", "", "a waiting Job, of which the next session is tried"),
        Flag("pods", "", "", "so many pods of the largest task of --job"),
        Flag("drain", "", "", "nodes that take no pods any more, separated by commas"),
        NAMESPACE,
        *TABLE_FLAGS,
        BOARD,
    ),
    statuses=((0, "the starts are listed"), (1, "the change is invalid"), (UNREACHABLE, "the scheduler gives no answer")),
)
FITS: Final = OwnLeaf(
    "fits",
    "show whether the Job of a manifest would start now; nothing is created",
    _fits,
    (
        Flag("filename", "f", "", "the manifest of one Job, or - for standard input"),
        Flag("queue", "q", "", "as if it were submitted to this queue"),
        NAMESPACE,
        OUTPUT,
        BOARD,
    ),
    takes="[FILE]",
    statuses=(
        (0, "the Job would start or wait"),
        (1, "the Job would be refused"),
        (NEVER, "the Job could never start"),
        (UNREACHABLE, "the scheduler gives no answer"),
    ),
)
