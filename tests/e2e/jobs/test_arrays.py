"""Arrays on a control plane: no index is lost and none runs twice, also when the job controller is killed again and again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.shell import Shell

INDEXES = 300
KILLS = 10


def array(name: str, indexes: str, *, command: list[str], **given: Any) -> str:
    body = json.loads(job(name, command=command, min_available=1))
    task = body["spec"]["tasks"][0]
    del task["replicas"]
    task["array"] = {"indexes": indexes, **given}
    return json.dumps(body)


def status(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get("vcjob", name, "-n", namespace).get("status") or {}
    return found


def phase(cluster: Cluster, namespace: str, name: str) -> str:
    return str((status(cluster, namespace, name).get("state") or {}).get("phase", ""))


@pytest.mark.timeout(600)
def test_each_index_runs_once_while_the_job_controller_is_killed_ten_times(cluster: Cluster, namespace: str) -> None:
    cluster.create(array("many", f"0-{INDEXES - 1}", command=["sleep", "2"], maxParallel=24), namespace)
    for round_ in range(KILLS):
        wanted = (round_ + 1) * INDEXES // (KILLS + 2)
        wait_until(
            lambda wanted=wanted: status(cluster, namespace, "many").get("succeeded", 0) >= wanted, "progress", seconds=120
        )
        cluster.kill("job-controller")
    wait_until(lambda: phase(cluster, namespace, "many") == "Completed", "the array to complete", seconds=240)
    end = status(cluster, namespace, "many")
    assert end["arrays"] == {"worker": {"completed": f"0-{INDEXES - 1}"}}
    assert end["succeeded"] == INDEXES
    created = cluster.audit.created("pods", namespace)
    assert created == {f"many-worker-{index}": 1 for index in range(INDEXES)}
    wait_until(lambda: not cluster.get("pods", "-n", namespace)["items"], "the pods of completed indexes to be deleted")


def test_failed_indexes_are_retried_alone_and_cancelled_ones_never_run(cluster: Cluster, namespace: str) -> None:
    cluster.create(array("some", "0-9", command=["false"], maxParallel=2, retriesPerIndex=1, maxFailures=3), namespace)
    Shell(cluster.kubeconfig, namespace).said("vcctl", "array", "cancel", "some", "9", "-n", namespace)
    wait_until(lambda: phase(cluster, namespace, "some") == "Failed", "the array to fail", seconds=120)
    end = status(cluster, namespace, "some")
    assert end["state"]["reason"] == "MaxFailuresExceeded"
    assert "4 of 10 indexes failed" in end["state"]["message"]
    assert end["arrays"]["worker"]["cancelled"] == "9"
    created = cluster.audit.created("pods", namespace)
    assert {index for index in range(4) if created[f"some-worker-{index}"] == 2} == {0, 1, 2, 3}
    assert "some-worker-9" not in created
