"""Reads the objects that explain why Jobs wait, within the rights of the user: PodGroups, and the Leases of schedulers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyroclast.api.schedulers import NOT_OF_NODES, Schedulers, schedulers_of
from pyroclast.api.types import LEASES, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES
from pyroclast.kube.basics.errors import Forbidden
from pyroclast.lifecycle.times import format_time
from pyroclast.views.fitting import Cluster, fits, fits_document
from pyroclast.views.jobs import Group, Reading

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # the caller has loaded this module


async def read_groups(client: Client, namespace: str) -> Reading:
    """Return all PodGroups; only those of `namespace` for a user who may not list PodGroups in the whole cluster."""
    try:
        groups, is_complete = (await client.list(POD_GROUPS))[0], True
    except Forbidden:
        groups, is_complete = (await client.list(POD_GROUPS, namespace))[0] if namespace else [], False
    return Reading(await _ranked(client, groups), is_complete=is_complete)


async def group_of(client: Client, job: Mapping[str, Any]) -> Group | None:
    """Return the PodGroup of one Job; None when there is none."""
    groups, _ = await client.list(POD_GROUPS, job["metadata"]["namespace"])
    return Reading(await _ranked(client, groups), is_complete=False).by_owner().get(job["metadata"]["uid"])


async def schedulers_at_work(client: Client) -> Schedulers | None:
    """Return the schedulers that lead, by their Leases; None for a user who may not read Leases."""
    try:
        leases, _ = await client.list(LEASES, field_selector=NOT_OF_NODES)
    except Forbidden:
        return None
    return schedulers_of(leases, client.now())


async def _ranked(client: Client, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Set `spec.priority` of the PodGroups to the value of their PriorityClass; to 0 for a user who may not read
    PriorityClasses.
    """
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


async def fits_of_objects(
    client: Client, job: Mapping[str, Any], queues: list[dict[str, Any]], *, namespace: str, absence: str
) -> dict[str, Any]:
    """Return the document of `vcctl fits -o json`: whether `job`, with its defaults set, would start now, according to API
    objects.

    `namespace`: where PodGroups are read for a user who may not list them in the whole cluster. `absence`: why no scheduler
    places the pods of `job`; empty when a scheduler does.
    """
    (nodes, _), (pods, _), reading = await asyncio.gather(
        client.list(NODES),
        client.list(PODS, field_selector="status.phase!=Succeeded,status.phase!=Failed"),
        read_groups(client, namespace),
    )
    cluster = Cluster({each["metadata"]["name"]: each for each in queues}, nodes, pods, reading.groups)
    return fits_document(job, fits(job, cluster, absence), format_time(client.now()))
