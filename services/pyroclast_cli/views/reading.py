"""Reads what several commands need: Jobs with their PodGroups, and the schedulers that are at work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyroclast.api.schedulers import NOT_OF_NODES, Schedulers, schedulers_of
from pyroclast.api.types import JOB_FLOWS, JOBS, LEASES, POD_GROUPS, PRIORITY_CLASSES
from pyroclast.kube.basics.errors import Forbidden
from pyroclast.kube.http.native_groups import kind_served
from pyroclast.views.flows import OpenEntry, open_entries
from pyroclast.views.jobs import Group, JobView, Reading, view_of
from pyroclast.views.native_groups import own_groups, queue_of
from pyroclast_cli.context import Context
from pyroclast_cli.views.scope import is_selected, namespaces_of

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # at run time only commands that need a cluster load it

__all__ = ["entries_that_wait", "group_of", "jobs_of", "natives_of", "read_groups", "schedulers_at_work", "views_in"]


async def read_groups(client: Client, namespace: str) -> Reading:
    """All PodGroups, or those of `namespace` for a user who may not list them in the whole cluster."""
    try:
        groups, is_complete = (await client.list(POD_GROUPS))[0], True
    except Forbidden:
        groups, is_complete = (await client.list(POD_GROUPS, namespace))[0] if namespace else [], False
    return Reading(await _ranked(client, groups), is_complete=is_complete)


async def _ranked(client: Client, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The PodGroups with `spec.priority`, the value of their PriorityClass; 0 for a user who may not read these."""
    try:
        classes, _ = await client.list(PRIORITY_CLASSES)
    except Forbidden:
        classes = []
    values = {each["metadata"]["name"]: each.get("value", 0) for each in classes}
    values[""] = next((each.get("value", 0) for each in classes if each.get("globalDefault")), 0)
    for group in groups:
        spec = group.setdefault("spec", {})
        spec["priority"] = values.get(spec.get("priorityClassName") or "", 0)
    return groups


async def jobs_of(context: Context) -> list[JobView]:
    """The Jobs that the flags select."""
    views = await views_in(context.client, namespaces_of(context), context.text("selector"))
    return [view for view in views if is_selected(view.job, context)]


async def views_in(client: Client, namespace: str, selector: str = "") -> list[JobView]:
    """The Jobs of a namespace, or of all."""
    jobs, _ = await client.list(JOBS, namespace, label_selector=selector)
    groups, _ = await client.list(POD_GROUPS, namespace)
    by_owner = Reading(groups, is_complete=not namespace).by_owner()
    at_work = await schedulers_at_work(client)
    return [view_of(job, by_owner.get(job["metadata"]["uid"]), at_work) for job in jobs]


async def entries_that_wait(client: Client, namespace: str, selector: str = "") -> list[OpenEntry]:
    """The entries of flows whose Jobs are not there yet, of a namespace or of all; none for a user who may not list flows."""
    try:
        flows, _ = await client.list(JOB_FLOWS, namespace, label_selector=selector)
    except Forbidden:
        return []
    return [entry for flow in flows for entry in open_entries(flow)]


async def natives_of(context: Context) -> list[Group]:
    """The PodGroups of Kubernetes itself that the flags select, without those that show a Job of ours; none where there are none.

    Nobody submits them to us, so that no user is asked for.
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


async def group_of(client: Client, job: Mapping[str, Any]) -> Group | None:
    """The PodGroup of one Job."""
    groups, _ = await client.list(POD_GROUPS, job["metadata"]["namespace"])
    return Reading(await _ranked(client, groups), is_complete=False).by_owner().get(job["metadata"]["uid"])


async def schedulers_at_work(client: Client) -> Schedulers | None:
    """The schedulers that lead, by their Leases; None for a user who may not read Leases."""
    try:
        leases, _ = await client.list(LEASES, field_selector=NOT_OF_NODES)
    except Forbidden:
        return None
    return schedulers_of(leases, client.now())
