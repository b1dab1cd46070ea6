"""The real TorchX in two versions on nodes that run processes: 0.7.0 cancels by deleting the Job, the nightly one by its status.

`torchrun` is a stand-in without PyTorch: its ranks meet at the rendezvous that TorchX names, over real connections.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.e2e.support.cluster import Cluster, wait_until
from tests.third_party.environments import NotInstalled, environment

RUN = ("run", "-s", "kubernetes", "--workspace", "")
SECONDS = 120.0
SYNC_SECONDS = 60.0

pytestmark = [pytest.mark.thirdparty, pytest.mark.timeout(600)]  # the first time they install

TORCHRUN = """#!{python}
import os, re, socket, subprocess, sys, time
flags = dict(zip(*[iter(sys.argv[1:-1])] * 2))
most, each = int(flags["--nnodes"].rpartition(":")[2]), int(flags["--nproc_per_node"])
host, port = flags["--rdzv_endpoint"].rsplit(":", 1)
group = 0
if host == "localhost":
    with socket.create_server(("", int(port))) as server:
        for number in range(1, most):
            with server.accept()[0] as other:
                other.sendall(b"%d" % number)
else:
    for _ in range(600):
        try:
            with socket.create_connection((host, int(port))) as first:
                group = int(first.recv(9))
            break
        except OSError:
            time.sleep(0.1)
    else:
        sys.exit("no rendezvous at " + host)
ranks = range(group * each, (group + 1) * each)
told = {{"WORLD_SIZE": str(most * each)}}
processes = [subprocess.Popen([sys.executable, sys.argv[-1]], env=dict(os.environ, RANK=str(rank), **told)) for rank in ranks]
sys.exit(max([process.wait() for process in processes]))
"""
SCRIPT = """
import os, pathlib, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
while not pathlib.Path({go!r}).exists():
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def cluster(process_nodes: Cluster) -> Cluster:
    return process_nodes


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@dataclass(slots=True)
class Torchx:
    """The command line of TorchX, as a user whose context names a namespace. `port`: where the ranks meet."""

    program: Path
    home: Path
    kubeconfig: Path
    namespace: str
    cancels_by_status: bool
    port: int = field(default_factory=free_port)

    def __call__(self, *arguments: str) -> str:
        command = [self.program, *arguments]
        done = subprocess.run(
            command, env=self.variables(), cwd=self.home, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    def variables(self) -> dict[str, str]:
        found = {**os.environ, "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig), "PYTHONUNBUFFERED": "1"}
        found.pop("PYTHONPATH", None)
        return found

    def run(self, *component: str, queue: str = "default") -> str:
        """The handle of what was started."""
        said = self(*RUN, "-cfg", f"queue={queue},namespace={self.namespace}", *component)
        return next(line for line in said.split() if line.startswith("kubernetes://"))

    def ddp(self, form: str, *, queue: str = "default") -> str:
        """The handle of `dist.ddp -j FORM`, whose processes print their ranks and go on until `go`."""
        (self.home / "torchrun").write_text(TORCHRUN.format(python=sys.executable))
        (self.home / "torchrun").chmod(0o755)
        (self.home / "train.py").write_text(SCRIPT.format(go=str(self.go)))
        variables = f"PATH={self.home}:/usr/bin:/bin"
        options = ["--cpu", "1", "--memMB", "64", "--image", "any", "--rdzv_port", str(self.port), "--env", variables]
        return self.run("dist.ddp", "-j", form, *options, "--script", str(self.home / "train.py"), queue=queue)

    @property
    def go(self) -> Path:
        return self.home / "go"

    def state(self, handle: str) -> str:
        found = re.search(r"State: (\w+)", self("status", handle))
        assert found is not None
        return found[1]

    def reaches(self, handle: str, state: str) -> None:
        wait_until(lambda: self.state(handle) == state, f"state {state}", seconds=SECONDS)

    def states(self) -> dict[str, str]:
        rows = (line.split() for line in self("list", "-s", "kubernetes").splitlines() if line.startswith("kubernetes://"))
        return {row[0]: row[-1] for row in rows}


def name_of(handle: str) -> str:
    return handle.rpartition(":")[2]


@pytest.fixture(params=["torchx", "torchx-nightly"])
def torchx(request: pytest.FixtureRequest, cluster: Cluster, namespace: str, tmp_path: Path) -> Torchx:
    try:
        python = environment(request.param)
    except NotInstalled as error:
        pytest.skip(str(error))
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    for context in document["contexts"]:
        context["context"]["namespace"] = namespace
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
    return Torchx(
        python.with_name("torchx"), tmp_path, tmp_path / "kubeconfig", namespace, cancels_by_status="nightly" in request.param
    )


def make_queue(cluster: Cluster, name: str, cpu: str) -> None:
    """A queue that may use so many CPUs."""
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    cluster.create(json.dumps({**kind, "metadata": {"name": name}, "spec": {"capability": {"cpu": cpu}}}))


def test_torchx_ddp_job_on_two_nodes_runs_all_ranks_and_reports_each_state(cluster: Cluster, torchx: Torchx) -> None:
    make_queue(cluster, torchx.namespace, "1")
    handle = torchx.ddp("2x4", queue=torchx.namespace)
    torchx.reaches(handle, "PENDING")
    assert torchx.states() == {handle: "PENDING"}
    assert cluster.get("pods", "-n", torchx.namespace)["items"] == []  # a gang: no pod of the one for which there is room
    cluster.kubectl("patch", "queue", torchx.namespace, "--type=merge", "-p", '{"spec":{"capability":{"cpu":"4"}}}')
    torchx.reaches(handle, "RUNNING")
    wait_until(lambda: torchx("log", handle).count("of 8") == 8, "all ranks to be in the log", seconds=SECONDS)
    assert torchx.states() == {handle: "RUNNING"}
    command = [torchx.program, "log", "--tail", handle]
    follower = subprocess.Popen(command, env=torchx.variables(), cwd=torchx.home, stdout=subprocess.PIPE)
    with follower:
        assert follower.stdout is not None
        told = b""
        while b" of 8" not in told:  # the old version ends no line
            part = os.read(follower.stdout.fileno(), 4096)
            assert part, told
            told += part
        assert follower.poll() is None  # it follows a Job that runs
        torchx.go.touch()
        told += follower.stdout.read()  # to the end of the Job
    assert {int(rank) for rank in re.findall(rb"rank (\d) of 8", told)} == set(range(8))
    torchx.reaches(handle, "SUCCEEDED")
    assert torchx.states() == {handle: "SUCCEEDED"}
    assert "train" in torchx("describe", handle)
    for node in range(2):
        ranks = re.findall(r"rank (\d) of 8", torchx("log", f"{handle}/train/{node}"))
        assert {int(rank) for rank in ranks} == set(range(4 * node, 4 * node + 4))


def test_elastic_torchx_job_gets_its_minimum_as_min_available_and_runs_all_ranks(cluster: Cluster, torchx: Torchx) -> None:
    handle = torchx.ddp("1:3x1")
    torchx.reaches(handle, "RUNNING")
    job = cluster.get("vcjob", name_of(handle), "-n", torchx.namespace)
    assert (job["spec"]["minAvailable"], len(job["spec"]["tasks"])) == (1, 3)
    torchx.go.touch()
    torchx.reaches(handle, "SUCCEEDED")
    ranks = [re.findall(r"rank (\d) of 3", torchx("log", f"{handle}/train/{node}")) for node in range(3)]
    assert ranks[0] == ["0"]
    assert sorted(ranks) == [["0"], ["1"], ["2"]]


def test_torchx_shell_jobs_are_listed_with_state_and_logs_on_success_and_failure(torchx: Torchx) -> None:
    handle = torchx.run("utils.sh", "--image", "any", "--memMB", "64", "echo", "it is here")
    torchx.reaches(handle, "SUCCEEDED")
    assert "it is here" in torchx("log", handle)
    bad = torchx.run("utils.sh", "--image", "any", "--memMB", "64", "ls", "/no/such/folder")
    torchx.reaches(bad, "FAILED")
    assert torchx.states() == {handle: "SUCCEEDED", bad: "FAILED"}
    assert "No such file" in torchx("log", bad)


def test_cancelled_torchx_job_has_no_pods_and_an_aborted_job_can_be_resumed(cluster: Cluster, torchx: Torchx) -> None:
    handle = torchx.ddp("2x4")
    torchx.reaches(handle, "RUNNING")
    name, namespace = name_of(handle), torchx.namespace
    torchx("cancel", handle)
    wait_until(lambda: not cluster.get("pods", "-n", namespace)["items"], "the pods to go", seconds=SECONDS)
    if not torchx.cancels_by_status:
        wait_until(lambda: not cluster.get("vcjob", "-n", namespace)["items"], "the Job to go", seconds=SECONDS)
        return

    def now() -> dict[str, object]:
        return dict(cluster.get("vcjob", name, "-n", namespace)["status"])

    deadline = time.monotonic() + SYNC_SECONDS
    while time.monotonic() < deadline:
        assert now()["state"]["phase"] == "Aborted"  # type: ignore[index]
        assert cluster.get("pods", "-n", namespace)["items"] == []
        time.sleep(1)
    assert torchx.states() == {handle: "CANCELLED"}
    job = cluster.get("vcjob", name, "-n", namespace)
    target = {"apiVersion": job["apiVersion"], "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
    order = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"generateName": "resume-"}}
    cluster.create(json.dumps({**order, "action": "ResumeJob", "target": target}), namespace)
    torchx.reaches(handle, "RUNNING")
    torchx.go.touch()
    torchx.reaches(handle, "SUCCEEDED")
    torchx("delete", handle)
    wait_until(lambda: not cluster.get("vcjob", "-n", namespace)["items"], "the Job to go", seconds=SECONDS)
