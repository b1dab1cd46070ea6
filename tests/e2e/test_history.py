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

from pyroclast.api.keys import SUBMITTED_BY
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

    def ends() -> list[tuple[str, str, int]]:
        tries = ask(cluster, f"jobs/{namespace}/again")["items"]
        return [(each["uid"], each["state"], each["exitCode"]) for each in reversed(tries)]

    expected = [(uids[0], "Failed", 3), (uids[1], "Completed", 0)]
    wait_until(lambda: ends() == expected, f"both to be recorded, as {expected}")
    newest = ask(cluster, f"jobs/{namespace}/again")["items"][0]
    assert newest["phases"][-1]["name"] == "Completed"
    assert [task["pods"] for task in newest["tasks"]] == [1]


FLOW = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: step}
spec:
  tasks:
  - name: main
    replicas: 1
    template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox, command: [echo, done]}]}}
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: etl, annotations: {pyroclast.dev/submitted-by: somebody-else}}
spec:
  jobRetainPolicy: retain
  flows: [{name: step}]
---
apiVersion: batch.volcano.sh/v1alpha1
kind: CronJob
metadata: {name: often}
spec:
  schedule: "* * * * *"
  suspend: true
  jobTemplate:
    spec:
      tasks:
      - name: main
        replicas: 1
        template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox, command: [echo, done]}]}}
"""
AS_ANN = ("--as=ann", "--as-group=system:masters")


def submitter(cluster: Cluster, namespace: str, kind: str, name: str) -> str | None:
    found: str | None = (cluster.get(kind, name, "-n", namespace)["metadata"].get("annotations") or {}).get(SUBMITTED_BY)
    return found


def test_who_submitted_a_job_is_known_and_cannot_be_forged(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl(*AS_ANN, "create", "-n", namespace, "-f", "-", stdin=job("mine", command=["true"], replicas=1))
    cluster.kubectl(*AS_ANN, "create", "-n", namespace, "-f", "-", stdin=FLOW)
    for kind, name in (("vcjob", "mine"), ("jobflow", "etl"), ("cronvcjob", "often")):
        assert submitter(cluster, namespace, kind, name) == "ann"
        for change in ("=eve", "-"):
            said = cluster.refused("annotate", kind, name, "-n", namespace, "--overwrite", f"{SUBMITTED_BY}{change}")
            assert "nobody may change it" in said
    cluster.kubectl("annotate", "vcjob", "mine", "-n", namespace, "team=a")
    wait_until(lambda: phases(cluster, namespace) == {"Completed": 2}, "the Jobs to complete")
    assert submitter(cluster, namespace, "vcjob", "etl-step") == "ann"
    wait_until(lambda: len(ask(cluster, "jobs", namespace=namespace, user="ann")["items"]) == 2, "both to be recorded")
    assert [each["name"] for each in ask(cluster, "jobs", namespace=namespace, user="ann", flow="etl")["items"]] == ["etl-step"]
