"""The Snakemake executor `pyroclast`: `snakemake --executor pyroclast`. Each Snakemake job is a Pyroclast Job of one pod.

As on any cluster, each pod runs Snakemake again for one rule. The image must have Snakemake, and the pods mount the volume with
the workflow's folder. Snakemake reads the types of settings at run time, so this module does not postpone the evaluation of
annotations.
"""

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase, SharedFSUsage

from pyroclast_client import errors
from pyroclast_client.compilation import command_job
from pyroclast_client.documents import Document, fresh_name
from pyroclast_client.handles import COMPLETED
from pyroclast_client.jobs import Job
from pyroclast_client.loops import run
from pyroclast_client.options import TaskOptions, options_of
from pyroclast_client.synchronous import Client

LAST_LINES: Final = 20
WAIT: Final = "trap 'exit 0' TERM; while :; do sleep 1; done"
MINUTE: Final = 60

common_settings = CommonSettings(non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False)


@dataclass
class ExecutorSettings(ExecutorSettingsBase):  # type: ignore[misc]  # Snakemake is not installed where types are checked
    """The settings of the executor, which `--pyroclast-NAME` or a profile sets."""

    image: str = field(default="", metadata={"help": "Image of the pods, which has Snakemake."})
    queue: str = field(default="", metadata={"help": "Queue of rules that name none."})
    namespace: str = field(default="", metadata={"help": "Namespace of the Jobs."})
    context: str = field(default="", metadata={"help": "Context of the kubeconfig."})
    mount: str = field(default="", metadata={"help": "PATH=CLAIM, the volume claim with the folder of the workflow."})
    worker_command: str = field(
        default="", metadata={"help": "What the other pods of a gang run, /usr/sbin/sshd -D, say; they wait by default."}
    )


class Executor(RemoteExecutor):  # type: ignore[misc]  # see above
    """Submits the jobs of a workflow, and reports their end to Snakemake."""

    def __post_init__(self) -> None:
        settings: ExecutorSettings = self.workflow.executor_settings or ExecutorSettings()
        self._client = Client(settings.context, settings.namespace, settings.queue, settings.image)
        path, _, claim = settings.mount.partition("=")
        self._mounts = {path: claim} if path else {}
        self._worker_command = settings.worker_command

    def get_job_exec_prefix(self, job: JobExecutorInterface) -> str:
        """Return the shell prefix that changes to the workflow's folder, if the pods share the folder."""
        del job
        is_shared = SharedFSUsage.INPUT_OUTPUT in self.workflow.storage_settings.shared_fs_usage
        return f"cd {shlex.quote(self.workflow.workdir_init)}" if is_shared else ""

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit a Snakemake job."""
        options = options_for(job.threads, job.resources, self._mounts)
        command = ["bash", "-c", self.format_job_exec(job)]
        run(self._client.asynchronous.look_around(options))
        body = command_job(command, options, self._client.asynchronous.surroundings, name=fresh_name(job.name))
        if (gang := int(job.resources.get("gang") or 1)) > 1:
            body = with_workers(body, gang - 1, self._worker_command)
        handle = self._client.submit(body)
        self.report_job_submission(SubmittedJobInfo(job, external_jobid=handle.name, aux={"handle": handle}))

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncIterator[SubmittedJobInfo]:
        """Report the jobs that have ended, and yield the jobs that still run."""
        for submitted in active_jobs:
            handle: Job[Any] = submitted.aux["handle"]
            async with self.status_rate_limiter:
                try:
                    status = await asyncio.to_thread(lambda: handle.status)  # noqa: B023 - awaited at once
                except errors.NoCluster as error:
                    self.logger.warning("Job %s is asked about again: %s", handle.name, error)
                    yield submitted
                    continue
                except (errors.NotFound, errors.JobReplaced) as error:
                    self.report_job_error(submitted, msg=f"{error}\n")
                    continue
            if not status.is_finished:
                yield submitted
            elif status.phase == COMPLETED:
                self.report_job_success(submitted)
            else:
                said = await asyncio.to_thread(handle.logs, tail=LAST_LINES)
                self.report_job_error(submitted, msg=f"Job {handle.name} is {status.phase}: {status.message}\n{said}\n")

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Terminate the Jobs of an interrupted workflow."""
        for submitted in active_jobs:
            with contextlib.suppress(errors.NotFound, errors.JobReplaced):  # the Job was deleted already
                submitted.aux["handle"].cancel()


def options_for(threads: int, resources: Mapping[str, Any], mounts: Mapping[str, str]) -> TaskOptions:
    """Return the options of a task from a rule: its threads, and its resources `mem_mb`, `runtime` (minutes), `gpus` and
    `queue`.
    """
    options: dict[str, Any] = {"cpu": threads, "mounts": mounts}
    if isinstance(resources.get("mem_mb"), int):
        options["memory"] = f"{resources['mem_mb']}M"
    if isinstance(resources.get("runtime"), int):
        options["timeout"] = resources["runtime"] * MINUTE
    options.update({name: resources[name] for name in ("gpus", "queue") if resources.get(name)})
    return options_of(options)


def with_workers(job: Document, count: int, command: str) -> Document:
    """Return the Job with more pods, which start together with the pod of the rule and end with it.

    The rule finds their names in `VC_WORKERS_HOSTS`. If the pods run a command, such as an SSH server, all pods share one SSH
    key.
    """
    spec = job["spec"]
    (main,) = spec["tasks"]
    workers = {**deepcopy(main), "name": "workers", "replicas": count, "minAvailable": count}
    (container,) = workers["template"]["spec"]["containers"]
    container["command"] = shlex.split(command) if command else ["sh", "-c", WAIT]
    plugins = {"svc": ["--publish-not-ready-addresses"], "env": [], **({"ssh": []} if command else {})}
    ends = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    fails = [{"events": ["PodFailed", "PodEvicted"], "action": "TerminateJob"}]
    whole = {"tasks": [{**main, "policies": ends}, workers], "minAvailable": count + 1, "plugins": plugins, "policies": fails}
    return {**job, "spec": {**spec, **whole}}
