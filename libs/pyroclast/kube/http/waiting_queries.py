"""Reads the objects that show why Jobs wait, within the rights of the user: PodGroups, and the Leases of schedulers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyroclast.api import keys
from pyroclast.api.schedulers import NOT_OF_NODES, Schedulers, schedulers_of
from pyroclast.api.types import LEASES, POD_GROUPS, PODS, PRIORITY_CLASSES
from pyroclast.kube.basics.errors import Forbidden

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # the caller has loaded this module

Groups = list[dict[str, Any]]


async def list_groups(client: Client, namespace: str = "") -> Groups:
    """Return the PodGroups of `namespace`, or of all without one, and the groups that pods of Jobs without a PodGroup describe.

    A user who may not list pods gets the PodGroups alone.
    """
    groups, _ = await client.list(POD_GROUPS, namespace)
    with suppress(Forbidden):
        pods, _ = await client.list(PODS, namespace, label_selector=f"{keys.POD_GROUP}=none")
        if pods:
            from pyroclast.api.pod_groups_on_pods import groups_in  # noqa: PLC0415 - the records are needed here alone

            groups += groups_in(pods)
    return groups


async def read_groups(client: Client, namespace: str) -> tuple[Groups, bool]:
    """Return the PodGroups, and whether these are all of the cluster.

    A user who may not list PodGroups in the whole cluster gets those of `namespace`. `spec.priority` of each PodGroup is set to
    the value of its PriorityClass; to 0 for a user who may not read PriorityClasses.
    """
    try:
        groups, is_complete = await list_groups(client), True
    except Forbidden:
        groups, is_complete = await list_groups(client, namespace) if namespace else [], False
    try:
        classes, _ = await client.list(PRIORITY_CLASSES)
    except Forbidden:
        classes = []
    values = {each["metadata"]["name"]: each.get("value", 0) for each in classes}
    values[""] = next((each.get("value", 0) for each in classes if each.get("globalDefault")), 0)
    for group in groups:
        spec = group.setdefault("spec", {})
        spec["priority"] = values.get(spec.get("priorityClassName") or "", 0)
    return groups, is_complete


async def group_of(client: Client, job: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the PodGroup of one Job, or what its pod says instead; None when there is none."""
    groups = await list_groups(client, job["metadata"]["namespace"])
    uid = job["metadata"]["uid"]
    return next((each for each in groups for owner in each["metadata"].get("ownerReferences") or () if owner["uid"] == uid), None)


async def schedulers_at_work(client: Client) -> Schedulers | None:
    """Return the schedulers that lead, by their Leases; None for a user who may not read Leases."""
    try:
        leases, _ = await client.list(LEASES, field_selector=NOT_OF_NODES)
    except Forbidden:
        return None
    return schedulers_of(leases, client.now())
