"""Kueue, as it is released, admits and preempts Jobs: its manager beside Pyroclast on the real control plane."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane import build
from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.kueue import kueue, process

pytestmark = pytest.mark.timeout(480)
ADAPTER = "examples/kueue/adapter.py"
QUEUES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: urgent-{name}}}
value: 1000
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: default}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: first}}
spec:
  namespaceSelector: {{}}
  preemption: {{withinClusterQueue: LowerPriority}}
  resourceGroups: [{{coveredResources: [cpu], flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: 1}}]}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: second}}
spec:
  namespaceSelector: {{}}
  resourceGroups: [{{coveredResources: [cpu], flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: 1}}]}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: first, namespace: {name}}}
spec: {{clusterQueue: first}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: second, namespace: {name}}}
spec: {{clusterQueue: second}}
"""


def submit(cluster: Cluster, namespace: str, name: str, queue: str, command: list[str], **spec: Any) -> None:
    manifest = json.loads(job(name, command=command, cpu="1", suspend=True, **spec))
    manifest["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    cluster.create(json.dumps(manifest), namespace)


def test_kueue_admits_preempts_and_resumes_jobs(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    if cluster.control_plane != "real" or not build.kueue().path.exists():
        pytest.skip("it is about Kueue's manager on the real control plane: build.program('kueue') and --control-plane=real")

    def phase(name: str) -> str:
        found = cluster.get("vcjob", name, "-n", namespace).get("status", {})
        return f"{found.get('state', {}).get('phase', '')} {found.get('waiting', {}).get('code', '')}".strip()

    with (
        kueue(cluster, tmp_path),
        process(tmp_path, "adapter", sys.executable, ADAPTER, str(cluster.kubeconfig)),
    ):
        cluster.kubectl("create", "-f", "-", stdin=QUEUES.format(name=namespace))
        forever = ["sleep", "600"]
        submit(cluster, namespace, "runs", "first", forever)
        wait_until(lambda: phase("runs") == "Running", "the first Job to be admitted", seconds=90)
        submit(cluster, namespace, "waits", "first", forever)
        submit(cluster, namespace, "beside", "second", forever)
        wait_until(lambda: phase("beside") == "Running", "the Job of the other queue")
        assert phase("waits") == "Pending Suspended"
        cluster.kubectl("delete", "vcjob", "runs", "-n", namespace)
        wait_until(lambda: phase("waits") == "Running", "the next Job to be admitted")
        submit(cluster, namespace, "urgent", "first", ["sleep", "3"], priorityClassName=f"urgent-{namespace}")
        wait_until(lambda: phase("waits") == "Pending Suspended", "the Job to be preempted")
        wait_until(lambda: phase("urgent") in ("Running", "Completed"), "the urgent Job to run")
        wait_until(lambda: phase("urgent") == "Completed", "the urgent Job to complete")
        wait_until(lambda: phase("waits") == "Running", "the preempted Job to go on")
        status = cluster.get("vcjob", "waits", "-n", namespace)["status"]
        assert "retryCount" not in status
