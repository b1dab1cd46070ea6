"""Reads the objects that several commands list: Jobs with their PodGroups, entries of flows, and native PodGroups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyroclast.api.types import JOB_FLOWS, JOBS, POD_GROUPS
from pyroclast.kube.basics.errors import Forbidden
from pyroclast.kube.http.native_groups import kind_served
from pyroclast.kube.http.waiting_queries import schedulers_at_work
from pyroclast.views.flows import open_entries
from pyroclast.views.groups import own_groups, queue_of
from pyroclast.views.jobs import Group, JobView, Waiter, groups_by_owner, view_of
from pyroclast_cli.context import Context
from pyroclast_cli.views.scope import is_selected, namespaces_of

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # only imported at run time by commands that need a cluster


async def jobs_of(context: Context) -> list[JobView]:
    """Return the Jobs that the flags of the command select."""
    views = await views_in(context.client, namespaces_of(context), context.text("selector"))
    return [view for view in views if is_selected(view.job, context)]


async def views_in(client: Client, namespace: str, selector: str = "") -> list[JobView]:
    """Return the Jobs of a namespace, or of all namespaces if `namespace` is empty."""
    jobs, _ = await client.list(JOBS, namespace, label_selector=selector)
    groups, _ = await client.list(POD_GROUPS, namespace)
    by_owner = groups_by_owner(groups)
    at_work = await schedulers_at_work(client)
    return [view_of(job, by_owner.get(job["metadata"]["uid"]), at_work) for job in jobs]


async def entries_that_wait(client: Client, namespace: str, selector: str = "") -> list[Waiter]:
    """Return the entries of flows whose Jobs were not created yet. Empty when the user may not list flows."""
    try:
        flows, _ = await client.list(JOB_FLOWS, namespace, label_selector=selector)
    except Forbidden:
        return []
    return [entry for flow in flows for entry in open_entries(flow)]


async def natives_of(context: Context) -> list[Group]:
    """Return the native PodGroups that the flags select, without those that represent a Job of Pyroclast.

    Native PodGroups have no recorded submitter, so the result is empty with `--user`.
    """
    if context.text("user"):
        return []
    try:
        kind = await kind_served(context.client)
        if kind is None:
            return []
        groups, _ = await context.client.list(kind, namespaces_of(context), label_selector=context.text("selector"))
    except Forbidden:
        return []
    queue = context.text("queue")
    return [each for each in own_groups(groups) if not queue or queue_of(each) == queue]
