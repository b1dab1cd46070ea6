"""The real TorchX in two versions: 0.7.0 cancels by deleting the Job, the nightly one writes `Aborted` into its status."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e.support.cluster import Cluster, wait_until
from tests.third_party.environments import NotInstalled, environment

RUN = ("run", "-s", "kubernetes", "--workspace", "")

pytestmark = [pytest.mark.thirdparty, pytest.mark.timeout(400)]  # the first time they install


@dataclass(slots=True)
class Torchx:
    """The command line of TorchX, as a user whose context names a namespace."""

    program: Path
    home: Path
    kubeconfig: Path
    namespace: str

    def __call__(self, *arguments: str) -> str:
        environment = {**os.environ, "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)}
        environment.pop("PYTHONPATH", None)
        command = [self.program, *arguments]
        done = subprocess.run(command, env=environment, cwd=self.home, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    def run(self, *component: str) -> str:
        """The handle of what was started."""
        said = self(*RUN, "-cfg", f"queue=default,namespace={self.namespace}", *component)
        return next(line for line in said.split() if line.startswith("kubernetes://"))

    def states(self) -> dict[str, str]:
        rows = (line.split() for line in self("list", "-s", "kubernetes").splitlines() if line.startswith("kubernetes://"))
        return {row[0]: row[-1] for row in rows}


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
    return Torchx(python.with_name("torchx"), tmp_path, tmp_path / "kubeconfig", namespace)


def test_an_echo_is_run_listed_told_and_logged(torchx: Torchx) -> None:
    handle = torchx.run("utils.echo", "--image", "busybox", "--msg", "hello")
    wait_until(lambda: "SUCCEEDED" in torchx("status", handle), "the echo to end")
    assert torchx.states() == {handle: "SUCCEEDED"}
    assert "echo" in torchx("describe", handle)
    torchx("log", handle)


def test_a_distributed_job_runs_as_a_gang_and_is_cancelled(cluster: Cluster, torchx: Torchx) -> None:
    command = ("utils.sh", "--image", "busybox", "--num_replicas", "2", "sleep", "600")
    handle = torchx.run(*command)
    wait_until(lambda: "RUNNING" in torchx("status", handle), "both replicas to run")
    name = handle.rpartition(":")[2]
    assert cluster.get("vcjob", name, "-n", torchx.namespace)["status"]["running"] == 2
    torchx("cancel", handle)
    wait_until(lambda: not cluster.get("pods", "-n", torchx.namespace)["items"], "the pods to go")
    left = cluster.get("vcjob", "-n", torchx.namespace)["items"]
    assert [job["status"]["state"]["phase"] for job in left] in ([], ["Aborted"])
