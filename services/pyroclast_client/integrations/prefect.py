"""The Prefect worker `pyroclast`, which runs each flow run as a Job.

Prefect reads the types of settings at run time, so this module does not postpone the evaluation of annotations.
"""

import shlex
from typing import Any

import anyio.abc
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import InfrastructureNotFound
from prefect.workers.base import BaseJobConfiguration, BaseVariables, BaseWorker, BaseWorkerResult
from pydantic import Field

from pyroclast_client import errors
from pyroclast_client.asynchronous import AsyncClient
from pyroclast_client.compilation import command_job
from pyroclast_client.documents import fresh_name
from pyroclast_client.handles import COMPLETED
from pyroclast_client.options import options_of

FAILED = 1


class PyroclastConfiguration(BaseJobConfiguration):  # type: ignore[misc]  # Prefect is not installed where types are checked
    """The Job of a flow run: options of a task, and the namespace and context."""

    namespace: str | None = Field(default=None, description="Namespace of the Job; that of the kubeconfig by default.")
    context: str | None = Field(default=None, description="Context of the kubeconfig.")
    image: str | None = Field(default=None, description="Image of the pods, which has Prefect.")
    queue: str | None = Field(default=None, description="Queue of the Job.")
    cpu: str | None = Field(default=None, description="CPUs of each pod.")
    memory: str | None = Field(default=None, description="Memory of each pod, 4Gi, say.")
    gpus: int | None = Field(default=None, description="GPUs of each pod.")
    priority: str | None = Field(default=None, description="Name of a PriorityClass.")
    mounts: dict[str, str] = Field(default_factory=dict, description="Volume claims by the path that they are mounted at.")
    secrets: dict[str, str] = Field(default_factory=dict, description="SECRET/KEY by the name of a variable.")
    ttl: int | None = Field(default=None, description="Seconds after its end at which the Job is deleted.")


class PyroclastVariables(BaseVariables, PyroclastConfiguration):  # type: ignore[misc]  # see above
    """The variables that a work pool or a deployment may set."""


class PyroclastResult(BaseWorkerResult):  # type: ignore[misc]  # see above
    """The end of a Job. The status code is 0 if the Job is Completed."""


class PyroclastWorker(BaseWorker[PyroclastConfiguration, PyroclastVariables, PyroclastResult]):  # type: ignore[misc]  # see above
    """Submits flow runs as Jobs, waits until the Jobs end, and terminates the Jobs of cancelled flow runs."""

    type = "pyroclast"
    job_configuration = PyroclastConfiguration
    job_configuration_variables = PyroclastVariables
    _display_name = "Pyroclast"
    _description = "Execute flow runs as Jobs of Pyroclast on Kubernetes."

    async def run(
        self, flow_run: FlowRun, configuration: PyroclastConfiguration, task_status: anyio.abc.TaskStatus[str] | None = None
    ) -> PyroclastResult:
        """Submit a flow run as a Job and wait until the Job ends."""
        logger = self.get_flow_run_logger(flow_run)
        async with _client(configuration) as client:
            names = ("cpu", "memory", "gpus", "priority", "mounts", "secrets", "ttl")
            options = options_of({**{name: getattr(configuration, name) for name in names}, "env": configuration.env})
            await client.look_around(options)
            command = shlex.split(configuration.command or "")
            body = command_job(command, options, client.surroundings, name=fresh_name(configuration.name or flow_run.name))
            handle = await client.submit(body)
            if task_status is not None:
                task_status.started(f"{handle.namespace}/{handle.name}")
            try:
                await handle.wait(check=False)
                status = await handle.status()
            except (errors.JobFailed, errors.NotFound, errors.JobReplaced) as error:
                logger.warning("%s", error)
                return PyroclastResult(identifier=handle.name, status_code=FAILED)
            if status.phase != COMPLETED:
                logger.warning("Job %s is %s: %s", handle.name, status.phase, status.message)
            return PyroclastResult(identifier=handle.name, status_code=0 if status.phase == COMPLETED else FAILED)

    async def kill_infrastructure(
        self, infrastructure_pid: str, configuration: PyroclastConfiguration, grace_seconds: int = 30
    ) -> None:
        """Terminate the Job of a cancelled flow run.

        Raises:
            InfrastructureNotFound: no Job has that name.
        """
        del grace_seconds
        async with _client(configuration) as client:
            try:
                await (await client.job(infrastructure_pid)).cancel()
            except errors.NotFound as error:
                raise InfrastructureNotFound(str(error)) from error


def _client(configuration: PyroclastConfiguration) -> AsyncClient:
    given: dict[str, Any] = {name: getattr(configuration, name) for name in ("context", "namespace", "queue", "image")}
    return AsyncClient(**given)
