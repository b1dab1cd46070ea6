"""The submitit executor `pyroclast`: `submitit.AutoExecutor(folder, cluster="pyroclast")`.

The folder must be on a shared volume that pods mount too. Pods need submitit, but not this client. Inside a pod, the process
looks like submitit's local executor, and a SIGTERM reaches the function as submitit's preemption signal.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from submitit.core import core, utils

from pyroclast_client import defaults
from pyroclast_client.documents import fresh_name
from pyroclast_client.options import Call, SweepCall, options_of
from pyroclast_client.payload import Arguments

OWN_OPTIONS: Final = frozenset(
    {"queue", "image", "priority", "topology", "mounts", "env", "secrets", "pod", "python", "retries", "store", "ttl"}
)
PARALLEL: Final = "array_parallelism"
STEM: Final = "submitit"
STATES: Final = {"Completed": "COMPLETED", "Failed": "FAILED", "Terminated": "CANCELLED", "Aborted": "CANCELLED"}


class PyroclastJob(core.Job):  # type: ignore[misc]  # submitit has no types here
    """A submitit job, which runs as the Pyroclast Job of the same name."""

    def done(self, force_check: bool = False) -> bool:
        """Whether the job has ended."""
        del force_check
        return self.state in STATES.values()

    @property
    def state(self) -> str:
        """The state of the job in submitit's terms."""
        return str(self.get_info()["jobState"])

    def get_info(self, mode: str = "force") -> dict[str, str]:
        """Return the state of the job."""
        del mode
        phase = defaults.client().job(self.job_id).phase
        return {"jobState": STATES.get(phase, "PENDING" if phase == "Pending" else "RUNNING")}

    def cancel(self, check: bool = True) -> None:
        """Terminate the job."""
        del check
        defaults.client().job(self.job_id).cancel()


class PyroclastExecutor(core.Executor):  # type: ignore[misc]  # see above
    """Submits functions as Jobs. Its own parameters are the options of `task` with a prefix, such as `pyroclast_queue`.

    Args:
        folder: a folder that this machine and the pods can access.
        max_num_timeout: how often a checkpointed function continues after its timeout or after a preemption.
    """

    job_class = PyroclastJob

    def __init__(self, folder: str | Path, max_num_timeout: int = 3) -> None:
        super().__init__(Path(folder).absolute())
        self.max_num_timeout = max_num_timeout

    @classmethod
    def affinity(cls) -> int:
        """Return 0, so that submitit selects this executor only by its name."""
        return 0

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        return {*OWN_OPTIONS, PARALLEL}

    def _internal_process_submissions(self, delayed_submissions: list[Any]) -> list[PyroclastJob]:
        """Submit a Job for each call. With `array_parallelism`, each waits for the end of the one that many places before."""
        jobs: list[PyroclastJob] = []
        most = int(self.parameters.get(PARALLEL) or len(delayed_submissions))
        for place, delayed in enumerate(delayed_submissions):
            before = jobs[place - most].job_id if place >= most else ""
            jobs.append(self._submit(delayed, {"after": [{"job": before, "condition": "Ended"}]} if before else {}))
        return jobs

    def _submit(self, delayed: Any, patch: dict[str, Any]) -> PyroclastJob:  # noqa: ANN401 - of submitit
        """Write the pickle before the Job is created, because the pod may start at once."""
        given, nodes = self.parameters, int(self.parameters.get("nodes", 1))
        tasks = int(given.get("tasks_per_node", 1))
        name = fresh_name(str(given.get("name") or STEM))
        delayed.set_timeout(given.get("timeout_min", 5), self.max_num_timeout)
        path = utils.JobPaths(self.folder, job_id=name).submitted_pickle
        path.parent.mkdir(parents=True, exist_ok=True)
        delayed.dump(path)
        launch = _launcher(str(self.folder), name, nodes, tasks, Path.cwd())
        options = options_of({**self._options(nodes, tasks), "patch": patch})
        if nodes == 1:  # as a sweep of one call, whose pod restarts after an eviction
            defaults.client().submit(SweepCall(launch, (Arguments(),), options, name), name=name)
        else:
            defaults.client().submit(Call(launch, Arguments(), options, name), name=name)
        return PyroclastJob(folder=self.folder, job_id=name, tasks=list(range(nodes * tasks)))

    def _options(self, nodes: int, tasks: int) -> dict[str, Any]:
        """Return the options of a task, from submitit's common parameters and from this executor's own."""
        given = self.parameters
        options: dict[str, Any] = {name: given[name] for name in OWN_OPTIONS if name in given}
        options["gang"] = nodes
        if given.get("cpus_per_task"):
            options["cpu"] = given["cpus_per_task"] * tasks
        if given.get("gpus_per_node"):
            options["gpus"] = given["gpus_per_node"]
        if given.get("mem_gb"):
            options["memory"] = f"{round(1024 * given['mem_gb'])}Mi"
        if given.get("timeout_min"):
            options["timeout"] = 60.0 * given["timeout_min"]
        return options


BOOT: Final = """
import os
from submitit.core.submission import submitit_main
from submitit.local.local import LocalJobEnvironment
if hosts := os.environ.get("VC_MAIN_HOSTS"):
    LocalJobEnvironment.hostnames = property(lambda self: hosts.split(","))
submitit_main()
"""
"""Starts submitit with the hosts of all pods, as its local executor knows one host only."""


def _launcher(folder: str, job_id: str, nodes: int, tasks: int, here: Path) -> Callable[[], None]:
    """Return the function that runs the tasks of submitit in a pod. The working folder is that of the program, if the pod has it.

    A nested function is pickled by value, because pods do not have this module.
    """
    home, boot = str(here), BOOT

    def launch() -> None:
        import os  # noqa: PLC0415 - in the pod
        import signal  # noqa: PLC0415 - in the pod
        import subprocess  # noqa: PLC0415 - in the pod
        import sys  # noqa: PLC0415 - in the pod

        node = int(os.environ["PYROCLAST_INDEX"])
        shared = {
            "SUBMITIT_EXECUTOR": "local",
            "SUBMITIT_LOCAL_JOB_ID": job_id,
            "SUBMITIT_LOCAL_NTASKS": str(nodes * tasks),
            "SUBMITIT_LOCAL_JOB_NUM_NODES": str(nodes),
            "SUBMITIT_LOCAL_NODEID": str(node),
            # for the project's modules
            "PYTHONPATH": os.pathsep.join(filter(None, [sys.path[0], os.environ.get("PYTHONPATH")])),
        }
        place = folder.replace("%j", job_id)
        os.makedirs(place, exist_ok=True)
        processes = []
        for local in range(tasks):
            rank = str(node * tasks + local)
            log = os.path.join(place, f"{job_id}_{rank}_log")
            own = {"SUBMITIT_LOCAL_GLOBALID": rank, "SUBMITIT_LOCAL_LOCALID": str(local)}
            with open(f"{log}.out", "ab") as out, open(f"{log}.err", "ab") as err:
                command = [sys.executable, "-u", "-c", boot, folder]
                where = home if os.path.isdir(home) else None
                environment = {**os.environ, **shared, **own}
                processes.append(subprocess.Popen(command, env=environment, cwd=where, stdout=out, stderr=err))  # noqa: S603

        def preempt(*_: object) -> None:
            for process in processes:
                process.send_signal(signal.SIGUSR2)

        signal.signal(signal.SIGTERM, preempt)
        codes = [process.wait() for process in processes]
        if 144 in codes:  # submitit has written a checkpoint and requests a restart
            raise SystemExit(75)
        if code := next(filter(None, codes), 0):
            raise SystemExit(code if code > 0 else 128 - code)

    return launch
