"""The chart, as its users install it: helm brings everything, changes it, and takes it away again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.cluster import are_established, wait_until
from tests.unit.chart.conftest import helm  # noqa: F401 - a fixture
from tests.unit.chart.render import CHART

NAMESPACE = "batch"
PROGRAMS = ["admission", "board", "controllers", "jobflow", "recorder", "scheduler"]


@pytest.mark.timeout(180)
def test_helm_installs_upgrades_rolls_back_and_uninstalls_the_chart_and_keeps_the_crds(bare: Path, helm: Path) -> None:  # noqa: F811
    def ended(*command: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KUBECONFIG": str(bare)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    def run(*command: str) -> str:
        done = ended(*command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def names(kinds: str) -> list[str]:
        return [line for line in run("kubectl", "get", kinds, "-A", "-o", "name").split() if "pyroclast" in line]

    def deployment(program: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            run("kubectl", "get", "deployment", f"pyroclast-{program}", "-n", NAMESPACE, "-o", "json")
        )
        return found

    release = ("pyroclast", str(CHART), "--namespace", NAMESPACE)
    assert "STATUS: deployed" in run(str(helm), "install", *release, "--create-namespace")
    wait_until(lambda: are_established(run("kubectl", "get", "crd", "-o", "json")), "the kinds to be served")
    assert sorted(names("deployments")) == [f"deployment.apps/pyroclast-{program}" for program in PROGRAMS]
    for hooks in json.loads(run("kubectl", "get", "mutatingwebhookconfigurations", "-o", "json"))["items"]:
        assert {hook["clientConfig"]["service"]["namespace"] for hook in hooks["webhooks"]} == {NAMESPACE}

    assert deployment("scheduler")["spec"]["replicas"] == 1
    assert "STATUS: deployed" in run(str(helm), "upgrade", *release, "--set", "custom.scheduler_replicas=2")
    assert deployment("scheduler")["spec"]["replicas"] == 2
    run(str(helm), "rollback", "pyroclast", "1", "--namespace", NAMESPACE)
    assert deployment("scheduler")["spec"]["replicas"] == 1
    second = ended(str(helm), "install", "second", str(CHART), "--namespace", "other", "--create-namespace")
    assert f"the release pyroclast in namespace {NAMESPACE} is installed in this cluster" in second.stderr

    run(str(helm), "uninstall", "pyroclast", "--namespace", NAMESPACE, "--wait")
    kinds = "deployments,services,serviceaccounts,configmaps,clusterroles,clusterrolebindings"
    assert names(f"{kinds},mutatingwebhookconfigurations,validatingwebhookconfigurations") == []
    assert "jobs.batch.volcano.sh" in run("kubectl", "get", "crd", "-o", "name"), "Jobs outlive the release"
