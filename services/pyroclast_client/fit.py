"""Whether a Job that does not exist would start now, worked out from what the user may see; nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyroclast.api.types import NODES, PODS, QUEUES
from pyroclast.kube.http.client import Client
from pyroclast.lifecycle.times import format_time
from pyroclast.views.fitting import Cluster, fits, fits_document, fits_lines
from pyroclast_client.explaining import groups_of

__all__ = ["Fit", "fit_of"]


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a Job would start now: true in conditions if it would.

    Attributes:
        code: why it would wait, one of the codes of the documentation; empty if it would start.
        never: waiting alone would not help.
        help: what would.
        document: all of it, as `vcctl fits -o json` prints it.
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
    """Ask it of `job`, whose defaults are filled in."""
    (queues, _), (nodes, _), (pods, _), reading = await asyncio.gather(
        kube.list(QUEUES),
        kube.list(NODES),
        kube.list(PODS, field_selector="status.phase!=Succeeded,status.phase!=Failed"),
        groups_of(kube, job["metadata"]["namespace"]),
    )
    cluster = Cluster({each["metadata"]["name"]: each for each in queues}, nodes, pods, reading.groups)
    told = fits_document(job, fits(job, cluster), format_time(kube.now()))
    name = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
    return Fit(name, told["queue"], told["code"] or "", told["sentence"], told["never"], told["help"], told)
