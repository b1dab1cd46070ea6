"""`PyroclastCluster`: a Dask cluster whose workers are pods.

Dask's scheduler runs in the process that creates the cluster, so the pods must be able to reach that process. The first `minimum`
workers are one gang. Each further worker is a Job of its own, so that Dask can close any of them.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from distributed import Scheduler
from distributed.core import Status
from distributed.deploy.spec import ProcessInterface, SpecCluster

from pyroclast_client import defaults
from pyroclast_client.compilation import command_job
from pyroclast_client.documents import fresh_name
from pyroclast_client.loops import run
from pyroclast_client.options import TaskOptions, options_of

if TYPE_CHECKING:
    from pyroclast_client.jobs import Job
    from pyroclast_client.synchronous import Client


STEM: Final = "dask"
AGAIN: Final = {"policies": [{"event": "PodEvicted", "action": "RestartPod"}]}


class PyroclastCluster(SpecCluster):  # type: ignore[misc]  # distributed has no types here
    """Starts Dask workers as pods: `cluster.scale(4)`, `cluster.adapt(maximum=10)`, `distributed.Client(cluster)`.

    Args:
        n_workers: how many workers to start with.
        minimum: how many of these workers start together, all or none.
        cores: CPUs and threads of each worker.
        memory: memory of each worker, as `4GiB` or `4Gi`.
        queue: the queue of the Jobs.
        walltime: the time after which a worker ends, in seconds or as a duration such as `2h`.
        death_timeout: seconds for which a worker tries to reach the scheduler.
        worker_extra_args: further arguments of `dask worker`.
        host: the address at which this process listens for workers. The address of this machine by default.
        client: the client to use. The default client by default.
        name: the name of the cluster. The names of its Jobs begin with it.
        asynchronous: whether the cluster is used with `async with`.
        options: further options of `task`, such as `image`, `gpus`, `env`, `mounts` and `pod`.
    """

    def __init__(
        self,
        n_workers: int = 0,
        *,
        minimum: int = 0,
        cores: int = 1,
        memory: str | None = None,
        queue: str | None = None,
        walltime: float | str | None = None,
        death_timeout: float = 60,
        worker_extra_args: Sequence[str] = (),
        host: str | None = None,
        client: Client | None = None,
        name: str = STEM,
        asynchronous: bool = False,
        **options: Any,  # noqa: ANN401 - the options of `task`
    ) -> None:
        needs = {"cpu": cores, "queue": queue, "timeout": walltime, "memory": memory and memory.removesuffix("B")}
        chosen = options_of({**{key: value for key, value in needs.items() if value is not None}, **options})
        arguments = ["--nthreads", str(cores), "--death-timeout", str(death_timeout), *worker_extra_args]
        if memory is not None:
            arguments += ["--memory-limit", _in_bytes(memory)]
        self._jobs = _Jobs(client or defaults.client(), chosen, arguments, minimum, name)
        worker = {"cls": partial(_Worker, self._jobs), "options": {"cores": cores, "memory": memory or "0"}}
        super().__init__(
            workers=dict.fromkeys(range(max(n_workers, minimum)), worker),
            scheduler={"cls": Scheduler, "options": {"host": host, "dashboard": False, "dashboard_address": None}},
            worker=worker,
            asynchronous=asynchronous,
            name=name,
        )

    def jobs(self) -> list[Job[Any]]:
        """The present Jobs of the cluster, for example to call `explain` on them."""
        return self._jobs.all()


class _Jobs:
    """The Jobs of a cluster. One of them is the gang, in which each worker is a task, so that any of them can leave."""

    def __init__(self, client: Client, options: TaskOptions, arguments: Sequence[str], minimum: int, stem: str) -> None:
        self._client, self._options, self._arguments, self._stem = client, options, arguments, stem
        self._gang = set(range(minimum))
        self._of: dict[int, Job[Any]] = {}
        self._lock = asyncio.Lock()

    def all(self) -> list[Job[Any]]:
        """Return the present Jobs."""
        return list({job.uid: job for job in self._of.values()}.values())

    async def open(self, scheduler: str, worker: int) -> None:
        """Submit the Job of this worker. All workers of the gang share one Job."""
        async with self._lock:
            if worker in self._of:
                return
            names, self._gang = (self._gang, set()) if worker in self._gang else ({worker}, self._gang)
            job = await asyncio.to_thread(self._submit, scheduler, names)
            self._of.update(dict.fromkeys(names, job))

    async def close(self, worker: int) -> None:
        """Delete the Job of this worker, or take the worker out of the Job while other workers use the Job."""
        async with self._lock:
            job = self._of.pop(worker, None)
            if job is None:
                return
            if job in self._of.values():
                await asyncio.to_thread(job.scale, 0, task=_task(worker))
            else:
                await asyncio.to_thread(job.delete)

    def _submit(self, scheduler: str, names: set[int]) -> Job[Any]:
        own = self._client.asynchronous
        run(own.look_around(self._options))
        python = self._options.python or own.surroundings.python
        command = [python, "-m", "distributed.cli.dask_worker", scheduler, *self._arguments]
        around, name = own.surroundings, fresh_name(self._stem)
        document = command_job(command, self._options, around, name=name, policies=AGAIN)
        (task,) = document["spec"]["tasks"]
        document["spec"] |= {"tasks": [_named(task, worker) for worker in sorted(names)], "minAvailable": len(names)}
        return self._client.submit(document)


def _task(worker: int) -> str:
    return f"worker-{worker}"


def _named(task: dict[str, Any], worker: int) -> dict[str, Any]:
    """Return the task of one worker, from the task of all."""
    named = copy.deepcopy(task)
    named["name"] = _task(worker)
    named["template"]["spec"]["containers"][0]["command"] += ["--name", str(worker)]
    return named


class _Worker(ProcessInterface):  # type: ignore[misc]  # see above
    """One worker, as Dask's cluster class controls it."""

    def __init__(self, jobs: _Jobs, scheduler: str, *, name: int, cores: int, memory: str) -> None:
        del cores, memory  # Dask reads both values from the specification, for `scale(cores=...)`
        super().__init__(scheduler=scheduler, name=name)
        self._jobs, self._scheduler, self._name = jobs, scheduler, name

    async def start(self) -> None:
        """Submit the worker's Job, unless the Job is the gang and exists already."""
        try:
            await self._jobs.open(self._scheduler, self._name)
        except BaseException:
            self.status = Status.failed
            raise
        await super().start()

    async def close(self) -> None:
        """Delete the worker's Job. Dask has already told the worker to end."""
        await self._jobs.close(self._name)
        await super().close()


def _in_bytes(memory: str) -> str:
    return memory if memory.endswith("B") else f"{memory}B"
