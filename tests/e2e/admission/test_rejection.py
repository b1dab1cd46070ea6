"""Refusal at kubectl time: each manifest of examples/invalid is refused in words that name the field, and nothing is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support.cluster import Cluster

WORDS = {
    "dependency-cycle": "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)",
    "duplicate-task-name": "duplicated task name worker",
    "min-available-too-large": "job 'minAvailable' should not be greater than total replicas in tasks",
    "no-tasks": "No task specified in job spec",
    "policy-event-twice": "duplicate event PodFailed  across different policy",
    "policy-without-event": "either event and exitCode should be specified",
    "queue-missing": "unable to find job queue: ",
    "queue-not-a-leaf": "can not submit job to root queue",
    "task-name-not-a-label": "Worker_1",
    "unknown-plugin": "unable to find job plugin: teleport",
}
MANIFESTS = sorted(Path("examples/invalid").glob("*.yaml"))


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_invalid_manifest_is_refused_with_the_reason_and_stores_no_job(cluster: Cluster, namespace: str, manifest: Path) -> None:
    said = cluster.refused("create", "-n", namespace, "-f", str(manifest))
    assert WORDS[manifest.stem] in said
    assert not cluster.get("vcjob", "-n", namespace)["items"]


def test_kubectl_create_of_a_folder_reports_the_reason_for_every_invalid_manifest(cluster: Cluster, namespace: str) -> None:
    said = cluster.refused("create", "-n", namespace, "-f", "examples/invalid/")
    for words in WORDS.values():
        assert words in said
    assert not cluster.get("vcjob", "-n", namespace)["items"]


def test_job_for_a_closed_queue_is_refused(cluster: Cluster, namespace: str) -> None:
    queue = "closed-" + namespace
    manifest = f"apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: {queue}}}\nspec: {{weight: 1}}\n"
    cluster.create(manifest)
    cluster.kubectl("wait", "--for=jsonpath={.status.state}=Open", f"queue/{queue}", "--timeout=60s")
    cluster.kubectl("patch", "queue", queue, "--subresource=status", "--type=merge", "-p", '{"status":{"state":"Closed"}}')
    text = Path("examples/gang.yaml").read_text().replace("queue: default", f"queue: {queue}")
    said = cluster.refused("create", "-n", namespace, "-f", "-", stdin=text)
    assert "can only submit job to queue with state `Open`" in said
    assert not cluster.get("vcjob", "-n", namespace)["items"]
    cluster.kubectl("delete", "queue", queue)
