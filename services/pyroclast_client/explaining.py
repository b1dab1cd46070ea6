"""Reads the objects that explain why a Job waits, as far as the user may read them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.basics.errors import Forbidden, NotFound
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.waiting_queries import read_groups, schedulers_at_work
from pyroclast.views.explanation import explanation
from pyroclast.views.jobs import view_of
from pyroclast_client.states import Explanation, explanation_of


async def explained(kube: Client, job: Mapping[str, Any]) -> Explanation:
    """Return why the Job waits, from the Job, its PodGroup, its queue, the other PodGroups and the running schedulers."""
    reading, schedulers = await asyncio.gather(read_groups(kube, job["metadata"]["namespace"]), schedulers_at_work(kube))
    group = reading.by_owner().get(job["metadata"]["uid"])
    view = view_of(job, group, schedulers)
    try:
        queue: Mapping[str, Any] | None = await kube.get(QUEUES, Key("", view.queue))
    except (Forbidden, NotFound):
        queue = None
    return explanation_of(job, view.cause, explanation(view, queue, reading, kube.now()))
