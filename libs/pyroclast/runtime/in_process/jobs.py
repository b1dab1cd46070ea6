"""Creates Jobs by the rules of their webhooks, for flows, CronJobs and HyperJobs."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from importlib import metadata
from typing import Any, ClassVar, Final

import msgspec
from pydantic import Field, field_validator

from pyroclast.api.jobplugins import BUILT_IN, ENTRY_POINTS
from pyroclast.api.types import JOBS
from pyroclast.kube.http.client import Client, encode
from pyroclast.lifecycle.plugins.made import made_for
from pyroclast.rules import jobs
from pyroclast.rules.lookups import ANY_JOB, MOST_PODS, NOTHING_KNOWN, JobOptions, QueueLookup
from pyroclast.rules.queue_access import check_use, newly_used
from pyroclast.rules.verdicts import Verdict, applied
from pyroclast.runtime.fields import CommaSeparated
from pyroclast.runtime.in_process.creation import ensure_allowed, known_paths
from pyroclast.runtime.in_process.queues import QueueCache, judged
from pyroclast.runtime.settings import LeaderElectionSettings
from pyroclast.runtime.traces import Traces, context_of

_POD_RESOURCES_SINCE: Final = 34
"""The minor version of Kubernetes from which pod-level resources are enabled by default."""


async def has_pod_resources(client: Client) -> bool:
    """Whether the version of the API server has pod-level resources."""
    return _is_since(_POD_RESOURCES_SINCE, await client.request("GET", "/version"))


class _Version(msgspec.Struct):
    minor: str = ""


def _is_since(minor: int, version: bytes) -> bool:
    """Whether `version`, a response to `/version`, is Kubernetes 1.`minor` or later; an unreadable version counts as later."""
    try:
        said = msgspec.json.decode(version, type=_Version).minor.rstrip("+")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
    return not said.isdecimal() or int(said) >= minor


MUTATE: Final = "/jobs/mutate"
VALIDATE: Final = "/jobs/validate"
PATHS: Final = (MUTATE, VALIDATE)
"""The webhooks of Jobs."""

_NAME: Final = "validatejob.volcano.sh"


class JobCreatorSettings(LeaderElectionSettings):
    """The flags of a service that creates Jobs by the rules of their webhooks, which has the same flags."""

    WEBHOOKS: ClassVar[tuple[str, ...]]
    """The paths of the webhooks whose rules the service can apply itself."""

    kube_api_qps: float = Field(2000.0, ge=0, description="requests per second to the API server, 0 for no limit")
    kube_api_burst: int = Field(2000, ge=0, description="requests to the API server in a burst, above --kube-api-qps")
    listen_address: str = Field(":8081", description="address of /metrics")
    max_pods_per_job: int = Field(MOST_PODS, ge=1, description="most pods of one Job that this service creates")
    allow_job_placement: bool = Field(
        default=False, description="let Jobs name the node of a pod, and schedulers other than --scheduler-name"
    )
    in_process_webhooks: CommaSeparated = Field(
        (), description="paths of the webhooks that skip this account; the controller applies their rules itself"
    )

    @field_validator("in_process_webhooks")
    @classmethod
    def _known_webhooks(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        return known_paths(paths, cls.WEBHOOKS)

    def job_options(self, schedulers: Collection[str]) -> JobOptions:
        """Return what Jobs may have, where the pods of Jobs belong to these schedulers."""
        return JobOptions(max_pods=self.max_pods_per_job, schedulers=None if self.allow_job_placement else schedulers)


class JobCreator:
    """Creates Jobs, with the defaults and checks of the webhooks that skip this program.

    Args:
        queues: all queues; None when the webhooks check Jobs.
        webhooks: paths of the webhooks that skip this program; the API server calls the others.
        exempt: namespaces for which no webhook is called.
        scheduler: the default scheduler of Jobs.
        options: what Jobs may have, besides the installed plugins and the features of the cluster.
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
        options: JobOptions = ANY_JOB,
    ) -> None:
        self._client, self._queues, self._traces, self._scheduler = client, queues, traces, scheduler
        self._mutates, self._validates, self._exempt = MUTATE in webhooks, VALIDATE in webhooks, frozenset(exempt)
        self._options = replace(options, made=made_for, plugins=(*BUILT_IN, *(installed_plugins() if self._validates else ())))
        self._pod_resources: bool | None = None

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create the Job; return the response of the API server."""
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
        options = replace(self._options, pod_level_resources=self._pod_resources)

        def rule(found: QueueLookup) -> Verdict:
            verdict = jobs.validate_create(job, found, options)
            used = newly_used(JOBS.qualified, job, None, job["metadata"]["namespace"], NOTHING_KNOWN)
            return check_use(used, job, job["metadata"]["namespace"], found) if verdict.allowed else verdict

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
