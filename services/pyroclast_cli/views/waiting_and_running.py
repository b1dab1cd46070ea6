"""The commands `vcctl waiting` and `vcctl running`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import JOB_FLOWS, JOBS, PODS
from pyroclast.api.waiting_codes import NEVER
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.resources import durations
from pyroclast.views.amounts import as_text
from pyroclast.views.documents import Row
from pyroclast.views.flows import OpenEntry
from pyroclast.views.health import health_of, nodes_of
from pyroclast.views.human_durations import human_duration
from pyroclast.views.jobs import Group, JobView, seconds_since
from pyroclast.views.native_groups import running_native_rows, waiting_native_rows
from pyroclast.views.starts import clock_text, position_of, start_of, start_text
from pyroclast.views.waiting_causes import is_waiting
from pyroclast_cli.context import Context
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.output import TABLE_FLAGS, Column, Table, with_kind
from pyroclast_cli.views.reading import entries_that_wait, jobs_of, natives_of
from pyroclast_cli.views.scope import SCOPE_FLAGS, namespaces_of
from pyroclast_cli.views.watching import WATCH, show

REFERENCE: Final = "vcjob.batch.volcano.sh"
AT_WORK: Final = frozenset({"Running", "Restarting", "Completing", "Terminating"})
WAITING_COLUMNS: Final = (
    Column("POS", "position"),
    Column("NAMESPACE", "namespace"),
    Column("NAME", "name"),
    Column("QUEUE", "queue"),
    Column("PRIORITY", "priority"),
    Column("PODS", "pods"),
    Column("ASKS", "asks", as_text),
    Column("WAITED", "waitedSeconds", human_duration),
    Column("CODE", "code"),
    Column("START", "start", start_text, absent="?"),
    Column("KIND", "object", is_wide=True),
    Column("WHY", "sentence", is_wide=True),
)
RUNNING_COLUMNS: Final = (
    Column("NAMESPACE", "namespace"),
    Column("NAME", "name"),
    Column("QUEUE", "queue"),
    Column("PODS", "pods"),
    Column("READY", "ready"),
    Column("NODES", "nodes"),
    Column("ASKS", "asks", as_text),
    Column("ELAPSED", "elapsedSeconds", human_duration),
    Column("ENDS", "ends", lambda ends: f"~{clock_text(ends)}"),
    Column("HEALTH", "health"),
    Column("STATE", "phase", is_wide=True),
    Column("RETRIES", "retries", is_wide=True),
    Column("KIND", "object", is_wide=True),
)


def waiting_rows(jobs: list[JobView], now: float) -> list[Row]:
    """Return a row for each Job that has not started, oldest first. `now` is in seconds since the epoch."""
    found = sorted((each for each in jobs if is_waiting(each.job)), key=lambda each: each.job["metadata"]["creationTimestamp"])
    return [
        {
            "object": JOBS.qualified,
            "position": position_of(each.group),
            "namespace": each.namespace,
            "name": each.name,
            "queue": each.queue,
            "priority": each.priority_class or None,
            "pods": each.pods,
            "asks": each.asks,
            "waitedSeconds": seconds_since(each.job["metadata"]["creationTimestamp"], now),
            "code": each.cause.code,
            "start": NEVER if each.cause.is_final else start_of(each.group),
            "never": each.cause.is_final,
            "sentence": each.cause.sentence,
            "since": each.cause.since,
        }
        for each in found
    ]


def entry_rows(entries: Iterable[OpenEntry], now: float) -> list[Row]:
    """Return a row for each Job that its flow has not created yet. Its queue and pods are only known from a JobTemplate."""
    return [
        {
            "position": None,
            "namespace": each.namespace,
            "name": each.name,
            "queue": None,
            "priority": None,
            "pods": None,
            "asks": {},
            "waitedSeconds": seconds_since(each.created, now),
            "code": PendingReason.WAITS_FOR_ENTRY,
            "start": NEVER if each.is_final else None,
            "object": JOBS.qualified,
            "never": each.is_final,
            "sentence": each.sentence,
            "since": each.created,
        }
        for each in entries
    ]


def running_rows(jobs: list[JobView], pods: Iterable[Mapping[str, Any]], now: float) -> list[Row]:
    """Return a row for each Job that has started and not ended, longest running first. `pods` are the pods of all Jobs."""
    by_job: dict[str, list[Mapping[str, Any]]] = {}
    for pod in pods:
        for owner in pod["metadata"].get("ownerReferences") or ():
            by_job.setdefault(owner["uid"], []).append(pod)
    found = [(each, each.job["status"]) for each in jobs if each.phase in AT_WORK]
    found.sort(key=lambda pair: pair[1]["state"].get("lastTransitionTime", ""))
    return [
        {
            "object": JOBS.qualified,
            "namespace": each.namespace,
            "name": each.name,
            "queue": each.queue,
            "pods": each.pods,
            "ready": status.get("running", 0),
            "nodes": nodes_of(by_job.get(each.job["metadata"]["uid"], ())),
            "asks": each.asks,
            "elapsedSeconds": seconds_since(_started(each), now),
            "ends": _ends(each),
            "health": health_of(each.pods, by_job.get(each.job["metadata"]["uid"], ())),
            "phase": each.phase,
            "retries": status.get("retryCount", 0),
        }
        for each, status in found
    ]


def _started(view: JobView) -> str:
    """Return the time at which the Job entered its first phase after Pending, since it last waited."""
    conditions = view.job["status"].get("conditions") or ()
    times = [
        each["lastTransitionTime"] for each in conditions if each.get("status") == "Running" and each.get("lastTransitionTime")
    ]
    return str(times[-1] if times else view.job["metadata"]["creationTimestamp"])


def _ends(view: JobView) -> str | None:
    """Return the estimated end of the Job as an API timestamp. None when the Job has no running estimate."""
    try:
        seconds = durations.nanoseconds(str((view.job.get("spec") or {}).get("runningEstimate") or "")) / 10**9
    except durations.DurationError:
        return None
    return (datetime.fromisoformat(_started(view)) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


async def waiting_table(context: Context) -> Table:
    """Return the table of waiting Jobs."""
    now = context.client.now()
    rows, natives = waiting_rows(await jobs_of(context), now), waiting_native_rows(await _natives_of(context), now)
    # labels, queue and user of an uncreated Job are unknown
    is_every = not any(context.text(flag) for flag in ("selector", "queue", "user"))
    if is_every and context.text("output") != "name":  # the form `name` only prints existing objects
        rows += entry_rows(await entries_that_wait(context.client, namespaces_of(context)), now)
    return Table("WaitingJob", with_kind(WAITING_COLUMNS, natives), [*rows, *natives], REFERENCE, "No Job waits")


async def running_table(context: Context) -> Table:
    """Return the table of running Jobs."""
    jobs = await jobs_of(context)
    is_any = any(each.phase in AT_WORK for each in jobs)
    pods = (await context.client.list(PODS, namespaces_of(context), label_selector=keys.JOB_NAME))[0] if is_any else []
    rows, natives = running_rows(jobs, pods, context.client.now()), await _running_natives(context)
    return Table("RunningJob", with_kind(RUNNING_COLUMNS, natives), [*rows, *natives], REFERENCE, "No Job runs")


async def _waiting(context: Context) -> None:
    await show(context, partial(waiting_table, context), JOBS, JOB_FLOWS, namespace=namespaces_of(context))


async def _running(context: Context) -> None:
    await show(context, partial(running_table, context), JOBS, namespace=namespaces_of(context))


async def _natives_of(context: Context) -> list[Group]:
    """Return the native PodGroups that the flags select. Empty for the form `name`, which prints names of Jobs."""
    return [] if context.text("output") == "name" else await natives_of(context)


async def _running_natives(context: Context) -> list[Row]:
    groups = await _natives_of(context)
    if not groups:
        return []  # reading all pods would cost too much for a list
    pods, _ = await context.client.list(PODS, namespaces_of(context), label_selector=f"!{keys.JOB_NAME}")
    return running_native_rows(groups, pods, context.client.now())


WAITING: Final = Leaf("waiting", "list the Jobs that wait, and why", _waiting, (*SCOPE_FLAGS, *TABLE_FLAGS, WATCH), is_ours=True)
RUNNING: Final = Leaf("running", "list the Jobs that run", _running, (*SCOPE_FLAGS, *TABLE_FLAGS, WATCH), is_ours=True)
