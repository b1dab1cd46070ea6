"""Arrays on a control plane: no index is lost and none runs twice, also when the job controller is killed again and again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyroclast.resources import indexes
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


def test_failed_indexes_are_retried_alone_until_too_many_have_failed(cluster: Cluster, namespace: str) -> None:
    cluster.create(array("some", "0-9", command=["false"], maxParallel=2, retriesPerIndex=1, maxFailures=3), namespace)
    wait_until(lambda: phase(cluster, namespace, "some") == "Failed", "the array to fail", seconds=120)
    end = status(cluster, namespace, "some")
    assert end["state"]["reason"] == "MaxFailuresExceeded"
    failed = indexes.read(end["arrays"]["worker"]["failed"])
    created = cluster.audit.created("pods", namespace)
    assert all(created[f"some-worker-{index}"] == 2 for first, stop in failed for index in range(first, stop))
    assert end["failedPods"] >= 2 * 4


def test_cancelled_indexes_end_and_others_take_their_place(cluster: Cluster, namespace: str) -> None:
    cluster.create(array("kept", "0-9", command=["sleep", "600"], maxParallel=2), namespace)
    wait_until(lambda: status(cluster, namespace, "kept").get("running") == 2, "two pods to run")
    shell = Shell(cluster.kubeconfig, namespace)
    assert shell.said("vcctl", "array", "cancel", "kept", "1-7", "-n", namespace) == "7 indexes of task worker cancelled\n"
    ends = {"running": "0,8", "cancelled": "1-7"}
    wait_until(lambda: status(cluster, namespace, "kept").get("arrays") == {"worker": ends}, "index 8 to run")
    assert sorted(cluster.audit.created("pods", namespace)) == ["kept-worker-0", "kept-worker-1", "kept-worker-8"]
