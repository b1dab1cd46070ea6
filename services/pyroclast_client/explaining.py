"""Reads all that tells why a Job waits, as far as the user may see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.api.types import POD_GROUPS, QUEUES, Key
from pyroclast.kube.basics.errors import Forbidden, NotFound
from pyroclast.kube.http.client import Client
from pyroclast.views.explanation import explanation
from pyroclast.views.jobs import Reading, view_of
from pyroclast_client.states import Explanation, explanation_of

__all__ = ["explained", "groups_of"]


async def explained(kube: Client, job: Mapping[str, Any]) -> Explanation:
    """Why the Job waits, from its object, its PodGroup, its queue and the PodGroups around it."""
    reading = await groups_of(kube, job["metadata"]["namespace"])
    group = reading.by_owner().get(job["metadata"]["uid"])
    view = view_of(job, group, None)
    try:
        queue: Mapping[str, Any] | None = await kube.get(QUEUES, Key("", view.queue))
    except (Forbidden, NotFound):
        queue = None
    return explanation_of(job, group, explanation(view, queue, reading, kube.now()))


async def groups_of(kube: Client, namespace: str) -> Reading:
    """The PodGroups of the cluster, or those of the namespace where the user may not list all."""
    try:
        return Reading((await kube.list(POD_GROUPS))[0], is_complete=True)
    except Forbidden:
        return Reading((await kube.list(POD_GROUPS, namespace))[0], is_complete=False)
