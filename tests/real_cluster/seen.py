"""What tests ask a real cluster: waits, and the states of Jobs and pods."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from tests.real_cluster import images
from tests.real_cluster.cluster import Access

__all__ = ["ROOT", "followed", "gang", "mpi_job", "phase_of", "pods_of", "wait_for", "wait_for_phase"]

ROOT = Path(__file__).parents[2]


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
    """Ask `condition` every 0.5 s until it holds, and return its answer.

    Raises:
        TimeoutError: it does not hold after `seconds`.
    """
    end = time.monotonic() + seconds
    while True:
        if answer := condition():
            return answer
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.5)


def phase_of(cluster: Access, name: str) -> str:
    """The phase of a Job."""
    return cluster.kubectl("get", "vcjob", name, "--output=jsonpath={.status.state.phase}")


def wait_for_phase(cluster: Access, name: str, phase: str, seconds: float = 90.0) -> None:
    """Wait until a Job is in `phase`."""

    def reached() -> bool:
        return phase_of(cluster, name) == phase

    try:
        wait_for(reached, "", seconds)
    except TimeoutError:
        told = cluster.kubectl("describe", "vcjob,podgroup,pods", check=False)[-6000:]
        raise TimeoutError(f"Job {name} is not {phase} after {seconds:.0f} s: {phase_of(cluster, name)}\n{told}") from None


def pods_of(cluster: Access, job: str) -> list[dict[str, Any]]:
    """The pods of a Job."""
    return cluster.get("pods", f"--selector=volcano.sh/job-name={job}")


def gang(name: str, *, pods: int, cpu: str, command: str, **spec: Any) -> dict[str, Any]:
    """A Job of equal pods that start together."""
    container = {
        "name": "c",
        "image": "busybox:1.37",
        "command": ["sh", "-c", command],
        "resources": {"requests": {"cpu": cpu, "memory": "32Mi"}},
    }
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    task = {"name": "worker", "replicas": pods, "template": {"spec": pod}}
    body = {"minAvailable": pods, "schedulerName": "volcano", "queue": "default", "tasks": [task], **spec}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": body,
    }


def mpi_job(name: str, *, port: int, ssh: list[str], user: int = 0) -> dict[str, Any]:
    """A Job whose launcher starts a rank in each of two workers over ssh.

    `port`: where their sshd listens; `ssh`: flags of the plugin; `user`: who runs all of it.
    """
    serve = f"exec /usr/sbin/sshd -De -p {port}"
    if user:  # a user reads no host key of root, and starts no session for another
        serve += " -h /tmp/key -o StrictModes=no -o PidFile=none -o UsePAM=no"
        serve = f"ssh-keygen -q -t ed25519 -N '' -f /tmp/key && {serve}"
    run = "mpirun --allow-run-as-root --host $MPI_HOST -np 2 sh -c 'echo rank $OMPI_COMM_WORLD_RANK on $(hostname)'"
    body = gang(name, pods=1, cpu="100m", command="")
    tasks = []
    for task, pods, command in (("launcher", 1, run), ("worker", 2, f"mkdir -p /run/sshd; {serve}")):
        found = gang(name, pods=pods, cpu="100m", command=command)["spec"]["tasks"][0]
        spec = found["template"]["spec"]
        spec["containers"][0]["image"] = images.MPI
        if user:
            spec["securityContext"] = {"runAsUser": user, "runAsGroup": user, "fsGroup": user, "runAsNonRoot": True}
        tasks.append({**found, "name": task})
    tasks[0]["policies"] = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    plugins = {"mpi": ["--master=launcher", "--worker=worker", f"--port={port}"], "svc": ["--wait-for-workers"], "ssh": ssh}
    body["spec"] |= {"minAvailable": 3, "tasks": tasks, "plugins": plugins}
    return body


@contextlib.contextmanager
def followed(cluster: Access, *arguments: str) -> Iterator[IO[str]]:
    """What a kubectl prints that goes on until it is ended."""
    command = ["kubectl", f"--kubeconfig={cluster.kubeconfig}", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.terminate()
