"""Plugins of Jobs on a cluster: what stands in `examples/` for frameworks runs to its end, and what is made beside it goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.support.cluster import Cluster, wait_until

EXAMPLES = {
    "mpi": {"secret": ["mpi-ssh"], "configmap": ["mpi-svc"], "service": ["mpi"]},
    "pytorch": {"configmap": ["pytorch-svc"], "service": ["pytorch"]},
    "ray": {"configmap": ["ray-svc"], "service": ["ray", "ray-head-svc"]},
    "ssh": {"secret": ["ssh-ssh"], "configmap": ["ssh-svc"], "service": ["ssh"]},
    "tensorflow": {"configmap": ["tensorflow-svc"], "service": ["tensorflow"]},
}
"""Examples to the objects that their plugins make."""


def _objects(cluster: Cluster, namespace: str, job: str) -> dict[str, list[str]]:
    """Names of the objects that belong to the Job, by kind."""
    found: dict[str, list[str]] = {}
    for kind in ("secret", "configmap", "service"):
        for item in cluster.get(kind, "-n", namespace)["items"]:
            if any(owner["name"] == job for owner in item["metadata"].get("ownerReferences", ())):
                found.setdefault(kind, []).append(item["metadata"]["name"])
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_framework_examples_complete_and_their_plugin_objects_are_deleted(cluster: Cluster, namespace: str, name: str) -> None:
    cluster.kubectl("create", "-n", namespace, "-f", f"examples/{name}.yaml")
    wait_until(lambda: _objects(cluster, namespace, name) == EXAMPLES[name], f"the objects of {name}")
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Completed", f"vcjob/{name}", "--timeout=90s")
    wait_until(lambda: not _objects(cluster, namespace, name), f"the objects of {name} to go")


def test_gang_is_bound_when_its_launcher_has_an_init_container_that_waits_for_workers(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "-n", namespace, "-f", "examples/mpi.yaml")
    cluster.kubectl("wait", "-n", namespace, "--for=create", "pod/mpi-launcher-0", "--timeout=60s")
    cluster.kubectl("wait", "-n", namespace, "--for=condition=PodScheduled", "pod", "--all", "--timeout=60s")
    (waiting,) = cluster.get("pod", "mpi-launcher-0", "-n", namespace)["spec"]["initContainers"]
    assert waiting["name"] == "wait-for-workers"
    assert "initContainers" not in cluster.get("pod", "mpi-worker-0", "-n", namespace)["spec"]


def test_job_with_an_unknown_plugin_is_refused_and_known_plugins_are_listed(cluster: Cluster, namespace: str) -> None:
    said = cluster.refused("create", "-n", namespace, "-f", "examples/invalid/unknown-plugin.yaml")
    assert "unable to find job plugin" in said
    assert "there are env, hcclrank, mpi, pytorch, ray, ssh, svc, tensorflow" in said


def test_scaling_updates_the_ssh_config_and_keeps_the_keys(cluster: Cluster, namespace: str) -> None:
    lasting = Path("examples/mpi.yaml").read_text().replace('sleep 3"', 'sleep 3600"')
    cluster.create(lasting, namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Running", "vcjob/mpi", "--timeout=60s")
    before = cluster.get("secret", "mpi-ssh", "-n", namespace)["data"]
    bigger = [
        {"op": "replace", "path": "/spec/tasks/1/replicas", "value": 3},
        {"op": "replace", "path": "/spec/minAvailable", "value": 4},
    ]
    cluster.kubectl("patch", "-n", namespace, "vcjob", "mpi", "--type=json", "-p", json.dumps(bigger))
    cluster.kubectl("wait", "-n", namespace, "--for=create", "pod/mpi-worker-2", "--timeout=60s")
    after = cluster.get("secret", "mpi-ssh", "-n", namespace)["data"]
    assert after["config"] != before["config"]
    assert {**after, "config": ""} == {**before, "config": ""}
