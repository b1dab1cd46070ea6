"""Computes from the objects that the user may read whether a new Job would start now. Nothing is created."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyroclast.api.types import QUEUES
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.waiting_queries import fits_of_objects, schedulers_at_work
from pyroclast.views.fitting import fits_lines
from pyroclast.views.jobs import absence_of


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a Job would start now. In a condition the object is true if the Job would start.

    Attributes:
        job: NAMESPACE/NAME of the Job.
        queue: the queue of the Job.
        code: the documented code of the reason why the Job would wait. Empty if it would start.
        sentence: the reason as a sentence.
        never: whether the Job could never start by waiting alone.
        help: the remedy.
        document: the complete result, as `vcctl fits -o json` prints it.
    """

    job: str
    queue: str
    code: str
    sentence: str
    never: bool
    help: str
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __bool__(self) -> bool:
        return not self.code

    def __str__(self) -> str:
        return "\n".join(fits_lines(self.document))


async def fit_of(kube: Client, job: Mapping[str, Any]) -> Fit:
    """Return whether `job`, whose defaults are set, would start now."""
    (queues, _), schedulers = await asyncio.gather(kube.list(QUEUES), schedulers_at_work(kube))
    absence = absence_of(job, schedulers)
    told = await fits_of_objects(kube, job, queues, namespace=job["metadata"]["namespace"], absence=absence)
    name = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
    return Fit(name, told["queue"], told["code"] or "", told["sentence"], told["never"], told["help"], told)
