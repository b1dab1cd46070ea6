"""A cluster whose admission is down: it makes pods that are not ours, deletes namespaces, and can start admission again."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from pyroclast_standalone.processes import free_port
from tests.e2e.support.cluster import are_established, wait_until
from tests.unit.chart.conftest import helm  # noqa: F401 - a fixture
from tests.unit.chart.render import CHART

GROUPS = """
custom:
  admission_config_override: |
    resourceGroups:
    - resourceGroup: edge
      object: {key: namespace, value: [plant]}
"""
OURS = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: a, namespace: other}
spec: {tasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: a, image: a}]}}}]}
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: a, namespace: other}
spec: {flows: [{name: a}]}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a, namespace: other, finalizers: [example.org/waits]}
spec: {minAvailable: 1, tasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: a, image: a}]}}}]}
"""
ASKING = """
apiVersion: v1
kind: Pod
metadata: {name: b, annotations: {volcano.sh/resource-group: edge}}
spec: {containers: [{name: a, image: a}]}
"""


@pytest.mark.timeout(480)
def test_unreachable_webhook_blocks_only_matching_objects_and_namespaces_can_be_deleted(
    bare: Path,
    helm: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    def run(*command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KUBECONFIG": str(bare)}
        return subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, timeout=90, check=False)

    def done(*command: str, stdin: str | None = None) -> str:
        result = run(*command, stdin=stdin)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def pod(name: str, namespace: str) -> subprocess.CompletedProcess[str]:
        wait_until(
            lambda: run("kubectl", "get", "serviceaccount", "default", "-n", namespace).returncode == 0, "its ServiceAccount"
        )
        return run("kubectl", "run", name, "--image=a", "-n", namespace)

    port = free_port()
    values = tmp_path / "values.yaml"
    values.write_text(GROUPS)
    release = ("pyroclast", str(CHART), "-n", "batch", "--values", str(values))
    off = ("--set", "custom.enabled_admissions=", "--set", "custom.vap_enable=true")
    done(str(helm), "install", *release, "--create-namespace", *off)
    wait_until(lambda: are_established(done("kubectl", "get", "crd", "-o", "json")), "the kinds to be served")
    for name in ("other", "plant"):
        done("kubectl", "create", "namespace", name)
    done("kubectl", "create", "-f", "-", stdin=OURS)
    done(str(helm), "upgrade", *release, "--set", f"webhook.url=https://127.0.0.1:{port}")
    with socket.socket() as nobody:  # the port stays free of others
        nobody.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        nobody.bind(("127.0.0.1", port))
        refused = run("kubectl", "create", "-n", "plant", "-f", "-", stdin=OURS.replace("namespace: other", "namespace: plant"))
        assert refused.stderr.count("failed calling webhook") == 3
        wait_until(lambda: "failed calling webhook" in pod("a", "plant").stderr, "pods of the group to be looked at")
        assert "failed calling webhook" in run("kubectl", "create", "-n", "other", "-f", "-", stdin=ASKING).stderr

        assert pod("a", "other").returncode == 0
        assert pod("a", "kube-system").returncode == 0
        assert pod("a", "batch").returncode == 0, "admission itself can start again"
        done("kubectl", "delete", "namespace", "other", "--wait=false")
        finalizers = ("kubectl", "patch", "vcjob", "a", "-n", "other", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        wait_until(lambda: run("kubectl", "get", "jobflow", "a", "-n", "other").returncode != 0, "the flow to go")
        done(*finalizers)
        done("kubectl", "delete", "pod", "a", "-n", "other", "--ignore-not-found", "--grace-period=0", "--force")
        wait_until(lambda: run("kubectl", "get", "namespace", "other").returncode != 0, "the namespace to go")
