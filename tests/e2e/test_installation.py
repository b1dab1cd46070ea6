"""The chart on a whole control plane: kube-scheduler places our pods, and nodes run them from their own specs as processes.

Installed with `helm install --wait`, tested by `helm test`, upgraded and rolled back under a running Job, taken away.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pyroclast_standalone.ports import free_port
from tests.control_plane import build
from tests.e2e.cluster import wait_until
from tests.e2e.server import real_server
from tests.unit.chart.conftest import helm  # noqa: F401 - a fixture
from tests.unit.chart.render import CHART

NAMESPACE = "batch"
PROGRAMS = ["admission", "controllers", "jobflow", "scheduler"]
LONG = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME, namespace: default}
spec:
  minAvailable: 2
  tasks:
  - name: a
    replicas: 2
    template: {spec: {restartPolicy: Never, containers: [{name: a, image: a, command: ["COMMAND"], args: [ARGUMENT]}]}}
"""
COMMAND = """
apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {generateName: order-, namespace: default}
action: ACTION
target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: NAME, uid: UID, controller: true}
"""
SETTLED = {"running": "Running", "completed": "Completed", "failed": "Failed", "aborted": "Aborted", "terminated": "Terminated"}
"""Jobs by name, and the phase that they are in and stay in."""
ORDERS = {"aborted": "AbortJob", "terminated": "TerminateJob"}
MOVING = {
    "aborting": ("AbortJob", "Aborting", "Aborted"),
    "completing": ("CompleteJob", "Completing", "Completed"),
    "terminating": ("TerminateJob", "Terminating", "Terminated"),
    "restarting": ("RestartJob", "Restarting", "Running"),
}
"""Jobs on their way, held there by pods that do not end: by which command, in which phase, in which once these are gone."""
PHASES = {**SETTLED, **{name: phase for name, (_, phase, _) in MOVING.items()}}
STUBBORN = "trap true TERM; while true; do sleep 1; done"
GRACE = "terminationGracePeriodSeconds: 900, restartPolicy: Never"


def job(name: str, command: str, argument: str) -> str:
    return LONG.replace("NAME", name).replace("COMMAND", command).replace("ARGUMENT", f'"{argument}"')


def shell(name: str, script: str) -> str:
    return job(name, "sh", "").replace('args: [""]', f'args: ["-c", "{script}"]')


@contextlib.contextmanager
def nodes(kubeconfig: Path, folder: Path) -> Iterator[None]:
    """Two nodes that run pods as processes of this machine; their data is not in /tmp, over which our pods mount a volume."""
    command = [sys.executable, "-m", "pyroclast_standalone.nodes", "--kubeconfig", str(kubeconfig), "--nodes", "2"]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as data, (folder / "nodes.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--mode", "process", "--data-dir", data],
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


class Installed:
    """helm and kubectl against one control plane."""

    def __init__(self, kubeconfig: Path, helm: Path, values: Path) -> None:  # noqa: F811
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self._helm, self._values = str(helm), str(values)

    def run(self, *command: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            command, env=self._environment, input=stdin, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def helm(self, *command: str) -> str:
        return self.run(self._helm, *command, "--namespace", NAMESPACE)

    def release(self, verb: str, *options: str) -> str:
        wait = ("--wait", "--timeout", "180s", "--values", self._values)
        return self.helm(verb, "pyroclast", str(CHART), *wait, *options)

    def get(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("kubectl", "get", *arguments, "-o", "json"))
        return found

    def phase(self, name: str) -> str:
        return str(self.get("vcjob", name).get("status", {}).get("state", {}).get("phase", ""))

    def await_phase(self, name: str, phase: str) -> None:
        wait_until(lambda: self.phase(name) == phase, f"{name} to be {phase}", seconds=90)

    def phases(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self.phase(name) for name in names}

    def pods(self, jobs: Iterable[str] = ()) -> dict[str, tuple[str, int]]:
        """UID and restarts of the pods of these Jobs, or of all."""
        found = self.get("pods", "-n", "default", "-l", "volcano.sh/job-name")["items"]
        return {
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                sum(container["restartCount"] for container in pod["status"].get("containerStatuses", [])),
            )
            for pod in found
            if not jobs or pod["metadata"]["labels"]["volcano.sh/job-name"] in set(jobs)
        }


@pytest.mark.timeout(900)
def test_the_chart_from_installation_to_its_end(control_plane: str, helm: Path, tmp_path: Path) -> None:  # noqa: F811
    if control_plane != "real" or build.missing(["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]):
        pytest.skip("Deployments need a whole control plane: --control-plane=real")
    if any(Path(place).resolve().is_relative_to("/tmp") for place in (sys.prefix, __file__)):
        pytest.skip("this checkout lies in /tmp, over which the pods mount a volume")
    port = free_port()
    values = tmp_path / "values.yaml"
    values.write_text(
        f"""
basic: {{admission_port: {port}}}
webhook: {{url: "https://127.0.0.1:{port}"}}
custom:
  admission_replicas: 1
  bind_address: $(POD_IP)
  default_env: [{{name: PATH, value: "{Path(sys.executable).parent}:{os.environ["PATH"]}"}}]
"""
    )
    with real_server(tmp_path / "real", scheduler=True) as server, nodes(server.kubeconfig, tmp_path):
        it = Installed(server.kubeconfig, helm, values)
        _from_installation_to_the_end(it)


def _jobs_of_each_phase(it: Installed) -> None:
    def create(manifest: str) -> None:
        it.run("kubectl", "create", "-f", "-", stdin=manifest)

    for name in ("running", *ORDERS):
        create(job(name, "sleep", "600"))
    create(job("completed", "true", ""))
    create(job("failed", "false", "").replace("minAvailable", "maxRetry: 1\n  minAvailable"))
    create(job("pending", "sleep", "600").replace("image: a,", "image: a, resources: {requests: {cpu: 1000}},"))
    for name in MOVING:
        create(shell(name, STUBBORN).replace("restartPolicy: Never", GRACE))
    for name in ("running", *ORDERS, *MOVING):
        it.await_phase(name, "Running")
    for name, action in {**ORDERS, **{name: action for name, (action, _, _) in MOVING.items()}}.items():
        uid = it.get("vcjob", name)["metadata"]["uid"]
        create(COMMAND.replace("ACTION", action).replace("NAME", name).replace("UID", uid))
    for name, phase in PHASES.items():
        it.await_phase(name, phase)


@contextlib.contextmanager
def _something_happens_meanwhile(it: Installed, name: str) -> Iterator[None]:
    """A pod fails while the programs are replaced; what its Job's policy says happens, and an Event tells of it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        word = Path(folder) / "fail"
        waits = f"while [ ! -e {word} ]; do sleep 0.1; done; exit 3"
        manifest = shell(name, waits)
        policies = "policies: [{event: PodFailed, action: AbortJob}]"
        it.run("kubectl", "create", "-f", "-", stdin=manifest.replace("minAvailable", f"{policies}\n  minAvailable"))
        it.await_phase(name, "Running")
        generation = it.get("deployment", "pyroclast-controllers", "-n", NAMESPACE)["status"]["observedGeneration"]

        def fail_once_it_has_begun() -> None:
            wait_until(
                lambda: it.get("deployment", "pyroclast-controllers", "-n", NAMESPACE)["metadata"]["generation"] > generation,
                "the Deployment to change",
            )
            word.touch()

        with ThreadPoolExecutor(1) as pool:
            failing = pool.submit(fail_once_it_has_begun)
            yield
            failing.result()
        it.await_phase(name, "Aborted")
        found = it.get("events", "-n", "default", "--field-selector", f"involvedObject.name={name}")["items"]
        assert [each for each in found if "exit code 3" in each["message"] or "AbortJob" in each["message"]]
        it.run("kubectl", "delete", "vcjob", name)


def _from_installation_to_the_end(it: Installed) -> None:
    it.release("install", "--create-namespace")
    for program in PROGRAMS:
        status = it.get("deployment", f"pyroclast-{program}", "-n", NAMESPACE)["status"]
        assert status["readyReplicas"] == 1, program
    assert "Phase:          Succeeded" in it.helm("test", "pyroclast")
    assert not it.get("pods", "-n", NAMESPACE, "-l", "!app")["items"], "the test leaves nothing"

    names = (*PHASES, "pending")
    _jobs_of_each_phase(it)
    phases, pods = it.phases(names), it.pods(names)
    assert phases == {**PHASES, "pending": "Pending"}

    louder = [option for key in ("controller", "jobflow", "scheduler") for option in ("--set", f"custom.{key}_log_level=debug")]
    with _something_happens_meanwhile(it, "during-upgrade"):
        it.release("upgrade", *louder)
    assert it.phases(names) == phases, "an upgrade changes no Job and restarts no pod"
    assert it.pods(names) == pods, "an upgrade changes no Job and restarts no pod"
    it.run("kubectl", "create", "-f", "-", stdin=job("after-upgrade", "true", ""))
    it.await_phase("after-upgrade", "Completed")

    with _something_happens_meanwhile(it, "during-rollback"):
        it.helm("rollback", "pyroclast", "1", "--wait", "--timeout", "180s")
    assert it.phases(names) == phases, "nor does a rollback"
    assert it.pods(names) == pods, "nor does a rollback"
    it.run("kubectl", "create", "-f", "-", stdin=job("after-rollback", "true", ""))
    it.await_phase("after-rollback", "Completed")

    for name, (_, _, phase) in MOVING.items():
        it.run("kubectl", "delete", "pods", "-l", f"volcano.sh/job-name={name}", "--force", "--grace-period=0")
        it.await_phase(name, phase)
    it.run("kubectl", "delete", "vcjob", "restarting")
    it.run("kubectl", "delete", "pods", "-l", "volcano.sh/job-name=restarting", "--force", "--grace-period=0")
    names = (*SETTLED, "pending")
    phases = it.phases(names)

    it.helm("uninstall", "pyroclast", "--wait", "--timeout", "120s")
    left = it.run(
        "kubectl",
        "get",
        "deployments,services,serviceaccounts,configmaps,roles,rolebindings,clusterroles,clusterrolebindings,networkpolicies,"
        "poddisruptionbudgets,validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,"
        "validatingadmissionpolicybindings,flowschemas",
        "-A",
        "-o",
        "name",
    ).split()
    assert not [name for name in left if "pyroclast" in name or "volcano" in name or "vcjob" in name]
    assert it.phases(names) == phases, "Jobs outlive the release"
