"""What the recorder keeps: Jobs after their deletion, and usage that is exact though the recorder is killed again and again."""

from __future__ import annotations

import json
import random
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from datetime import datetime
from typing import Any

import pytest

from tests.counts import IS_SOAK
from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.test_faults import phases
from tests.e2e.test_first_light import job

JOBS = 500 if IS_SOAK else 30
REPLICAS = 4
KILLS = 50 if IS_SOAK else 6


def ask(cluster: Cluster, path: str, **query: str) -> dict[str, Any]:
    """What the recorder answers; it may be just starting."""
    place = cluster.get("configmap", "pyroclast-recorder", "-n", "pyroclast-system")["data"]["url"]
    url = f"{place}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    answer: dict[str, Any] = {}

    def answers() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                answer.update(json.load(reply))
        except urllib.error.HTTPError:
            raise
        except OSError:
            return False
        return True

    wait_until(answers, "the recorder to answer")
    return answer


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def held_seconds(pod: dict[str, Any]) -> int:
    """From the bind to the end of its last container, as the pod itself tells."""
    bound = next(each["lastTransitionTime"] for each in pod["status"]["conditions"] if each["type"] == "PodScheduled")
    ends = [each["state"]["terminated"]["finishedAt"] for each in pod["status"]["containerStatuses"]]
    return max(0, max(map(seconds, ends)) - seconds(bound))


@pytest.mark.timeout(3600 if JOBS > 30 else 240)
def test_usage_is_exact_though_the_recorder_is_killed(cluster: Cluster, namespace: str) -> None:
    chance = random.Random(11)
    for number in range(JOBS):
        manifest = job(f"job-{number}", command=["sleep", str(chance.randint(1, 9))], replicas=REPLICAS)
        cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=manifest)
        if number % (JOBS // KILLS) == 0:
            cluster.kill("recorder")
    wait_until(lambda: phases(cluster, namespace) == {"Completed": JOBS}, "all Jobs to complete", seconds=1800)
    pods = cluster.get("pods", "-n", namespace)["items"]
    assert len(pods) == JOBS * REPLICAS
    expected: Counter[str] = Counter()
    for pod in pods:
        expected["cpu"] += 100 * held_seconds(pod)
    cluster.kill("recorder")
    cluster.kubectl("delete", "vcjob", "--all", "-n", namespace, "--wait=true", timeout=300)

    def usage() -> dict[str, int]:
        items = ask(cluster, "usage", namespace=namespace, by="namespace,resource")["items"]
        return {item["resource"]: item["asked"] for item in items}

    wait_until(lambda: len(ask(cluster, "jobs", namespace=namespace, limit="1000")["items"]) == JOBS, "all Jobs to be recorded")
    wait_until(lambda: ask(cluster, "jobs/" + namespace + "/job-0")["items"][0]["pods"] == REPLICAS, "their pods")
    wait_until(lambda: usage() == expected, f"usage to be {expected}: it is {usage()}", seconds=30)
    items = ask(cluster, "usage", namespace=namespace, by="queue,user,resource")["items"]
    assert {item["doubtful"] for item in items} == {0}
    assert (sum(item["jobs"] for item in items), sum(item["failed"] for item in items)) == (JOBS, 0)


def test_a_job_that_was_deleted_and_made_again_has_two_histories(cluster: Cluster, namespace: str) -> None:
    uids = []
    for code in (3, 0):
        cluster.kubectl(
            "create", "-n", namespace, "-f", "-", stdin=job("again", command=["sh", "-c", f"exit {code}"], replicas=1)
        )
        wait_until(lambda: phases(cluster, namespace).keys() & {"Completed", "Failed"}, "the Job to end")
        uids.append(cluster.get("vcjob", "again", "-n", namespace)["metadata"]["uid"])
        cluster.kubectl("delete", "vcjob", "again", "-n", namespace, "--wait=true")
    wait_until(lambda: len(ask(cluster, f"jobs/{namespace}/again")["items"]) == 2, "both to be recorded")
    newest, oldest = ask(cluster, f"jobs/{namespace}/again")["items"]
    assert [oldest["uid"], newest["uid"]] == uids
    assert [(each["state"], each["exitCode"]) for each in (oldest, newest)] == [("Failed", 3), ("Completed", 0)]
    assert newest["phases"][-1]["name"] == "Completed"
    assert [task["pods"] for task in newest["tasks"]] == [1]
