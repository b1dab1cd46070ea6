"""Creates Jobs by the rules of their webhooks, for flows, CronJobs and HyperJobs."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from importlib import metadata
from typing import Any, Final

import msgspec

from pyroclast.api.jobplugins import BUILT_IN, ENTRY_POINTS
from pyroclast.api.types import JOBS
from pyroclast.kube.http.client import Client, encode
from pyroclast.rules import jobs
from pyroclast.rules.lookups import QueueLookup
from pyroclast.rules.patches import applied
from pyroclast.rules.verdicts import Verdict
from pyroclast.runtime.in_process.creation import ensure_allowed
from pyroclast.runtime.in_process.queues import QueueCache, judged
from pyroclast.runtime.in_process.server_version import has_pod_resources
from pyroclast.runtime.traces import Traces, context_of

MUTATE: Final = "/jobs/mutate"
VALIDATE: Final = "/jobs/validate"
PATHS: Final = (MUTATE, VALIDATE)
"""The webhooks of Jobs."""

_NAME: Final = "validatejob.volcano.sh"


class JobCreator:
    """Creates Jobs, with the defaults and checks of the webhooks that skip this program.

    Args:
        client: the API server.
        queues: all queues; None when the webhooks check Jobs.
        traces: the tracer, which begins the trace of a Job without a trace.
        webhooks: paths of the webhooks that skip this program; the API server calls the others.
        exempt: namespaces for which no webhook is called.
        scheduler: the default scheduler of Jobs.
    """

    def __init__(
        self,
        client: Client,
        queues: QueueCache | None,
        traces: Traces,
        *,
        webhooks: Collection[str],
        exempt: Collection[str],
        scheduler: str,
    ) -> None:
        self._client, self._queues, self._traces, self._scheduler = client, queues, traces, scheduler
        self._mutates, self._validates, self._exempt = MUTATE in webhooks, VALIDATE in webhooks, frozenset(exempt)
        self._plugins = (*BUILT_IN, *installed_plugins()) if self._validates else BUILT_IN
        self._pod_resources: bool | None = None

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create the Job; return the response of the API server.

        Raises:
            KubeError: the Job was refused, or the outcome is unknown.
        """
        if not (self._mutates or self._validates) or manifest["metadata"]["namespace"] in self._exempt:
            return await self._client.create(JOBS, manifest)
        # parts of the manifest may be raw JSON, which the rules cannot read
        job: dict[str, Any] = msgspec.json.decode(encode(manifest))
        if self._mutates:
            job = self._defaulted(job)
        if self._validates and self._queues is not None:
            await self._check(job, self._queues)
        return await self._client.create(JOBS, job, field_manager=self._client.user_agent)

    def _defaulted(self, job: dict[str, Any]) -> dict[str, Any]:
        with self._span("admission.mutate", job):
            job = applied(job, jobs.default(job, scheduler_name=self._scheduler))
            return job if _trace_of(job) else _annotated(job, self._traces.annotations())

    async def _check(self, job: dict[str, Any], queues: QueueCache) -> None:
        if self._pod_resources is None:
            self._pod_resources = await has_pod_resources(self._client)
        pod_resources = self._pod_resources

        def rule(found: QueueLookup) -> Verdict:
            return jobs.validate_create(job, found, pod_level_resources=pod_resources, plugins=self._plugins)

        with self._span("admission.validate", job):
            ensure_allowed(_NAME, await judged(rule, queues, self._client))

    @contextlib.contextmanager
    def _span(self, name: str, job: Mapping[str, Any]) -> Iterator[None]:
        with self._traces.span(name, _trace_of(job)):
            yield


def installed_plugins() -> tuple[str, ...]:
    """Return the names of third-party job plugins that are installed with this process, for example when all services share a
    machine.
    """
    return tuple(sorted(point.name for point in metadata.entry_points(group=ENTRY_POINTS)))


def _trace_of(job: Mapping[str, Any]) -> str:
    return context_of(job["metadata"].get("annotations") or {})


def _annotated(job: dict[str, Any], more: Mapping[str, str]) -> dict[str, Any]:
    if not more:
        return job
    return {**job, "metadata": {**job["metadata"], "annotations": {**(job["metadata"].get("annotations") or {}), **more}}}
