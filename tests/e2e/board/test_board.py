"""The web page over a whole control plane: a gang from its waiting to what is remembered of it, and a board that dies."""

from __future__ import annotations

import json

import pytest

from tests.e2e.faults.test_faults import phases
from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.board import look, shows
from tests.e2e.support.cluster import Cluster, wait_until


@pytest.mark.timeout(480)
def test_web_page_shows_waiting_completed_and_deleted_jobs(cluster: Cluster, namespace: str) -> None:
    too_big = job("too-big", command=["sleep", "1"], replicas=2).replace("100m", "900")
    cluster.create(too_big, namespace)
    uid = cluster.get("vcjob", "too-big", "-n", namespace)["metadata"]["uid"]
    page = shows(cluster, f"/jobs/{uid}", "Why it waits", "never", "by the scheduler's order")
    answer = json.loads(shows(cluster, f"/explain/jobs/{namespace}/too-big", '"complete":true'))
    assert answer["kind"] == "Explanation"
    assert answer["never"]
    for path in ("/explain/../debug/snapshot", "/explain/jobs/../metrics", "/explain/jobs/%2e%2e/metrics", "/explain/queues/.."):
        assert look(cluster, path)[0] == 404, path
    assert f"vcctl explain -n {namespace} too-big" in page
    cluster.create(job("small", command=["sleep", "1"], replicas=3), namespace)
    wait_until(lambda: phases(cluster, namespace).get("Completed") == 1, "the small Job to complete")
    done = cluster.get("vcjob", "small", "-n", namespace)["metadata"]["uid"]
    page = shows(cluster, f"/jobs/{done}", "Completed", "small-", ": running from")
    assert "Created pod" in page or "events" in page.lower()
    shows(cluster, f"/jobs?namespace={namespace}&group=state", ">small</a>", ">too-big</a>")
    shows(cluster, "/", "Why Jobs wait", "led")
    shows(cluster, "/queues", "Queues", "default</a>")
    shows(cluster, "/nodes", "% free")
    cluster.kubectl("delete", "vcjob", "small", "-n", namespace, "--wait=true")
    shows(cluster, f"/jobs/{done}", "This Job was deleted", "What happened", "Hours held")
    shows(cluster, f"/history?namespace={namespace}&name=small", "small", "Completed")


@pytest.mark.timeout(480)
def test_jobs_complete_while_the_board_is_killed_and_history_is_served_without_recorder(cluster: Cluster, namespace: str) -> None:
    cluster.kill("board")
    cluster.create(job("meanwhile", command=["sleep", "1"], replicas=2), namespace)
    wait_until(lambda: phases(cluster, namespace).get("Completed") == 1, "the Job to complete")
    shows(cluster, f"/jobs?namespace={namespace}", ">meanwhile</a>")
    cluster.kill("recorder")
    code, page = look(cluster, "/history")
    assert code == 200
    assert "History" in page
