"""What the recorder keeps: Jobs after their deletion, and usage that is exact though the recorder is killed again and again."""

from __future__ import annotations

import contextlib
import json
import random
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pyroclast.api.keys import SUBMITTED_BY
from tests.e2e.faults.test_faults import phases
from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, running, wait_until
from tests.postgres import postgres_server

NODES = 8
NAMESPACE = "default"
REPLICAS = 4


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


def rows_written(cluster: Cluster) -> float:
    """Of all rows, those that the recorder has written since it was started; 0 while it starts."""
    try:
        shown = cluster.metrics("recorder")
    except OSError:
        return 0.0
    return sum(float(line.split()[-1]) for line in shown.splitlines() if line.startswith("pyroclast_recorder_rows_total"))


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def pods_recorded(cluster: Cluster, namespace: str) -> int:
    """The pods of a namespace that the recorder has seen."""
    found = ask(cluster, "jobs", namespace=namespace, limit="1000")["items"]
    return sum(ask(cluster, f"jobs/{namespace}/{each['name']}")["items"][0]["pods"] or 0 for each in found)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A control plane whose recorder writes into `database`, and whose nodes keep a log of their pods."""

    cluster: Cluster
    database: str
    pod_log: Path

    def held_by_nodes(self) -> list[int]:
        """How long each pod held its node, as the nodes' own log tells."""
        lines = [json.loads(line) for line in self.pod_log.read_text().splitlines()]
        bound = {line["uid"]: seconds(line["bound"]) for line in lines if line["event"] == "started"}
        ended = {line["uid"]: seconds(line["time"]) for line in lines if line["event"] == "ended"}
        assert bound.keys() == ended.keys(), "each pod that started has ended"
        return [max(0, ended[uid] - bound[uid]) for uid in bound]


@pytest.fixture(params=["sqlite", "postgresql"])
def recorded(
    request: pytest.FixtureRequest, control_plane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Recorded]:
    """A control plane of the test's own for each database."""
    pod_log = tmp_path / "pods.jsonl"
    monkeypatch.setenv("PYROCLAST_POD_LOG", str(pod_log))
    with contextlib.ExitStack() as stack:
        if request.param == "postgresql":
            monkeypatch.setenv("PYROCLAST_DATABASE_URL", stack.enter_context(postgres_server()))
        cluster = stack.enter_context(running(control_plane, tmp_path / "plane", nodes=NODES))
        yield Recorded(cluster, request.param, pod_log)


FEW = pytest.param(30, 6, marks=pytest.mark.timeout(600), id="few")
MANY = pytest.param(500, 50, marks=[pytest.mark.soak, pytest.mark.timeout(3600)], id="many")


@pytest.mark.parametrize(("jobs", "kills"), [FEW, MANY])
def test_recorded_usage_equals_node_logs_although_the_recorder_is_killed(recorded: Recorded, jobs: int, kills: int) -> None:
    cluster, chance = recorded.cluster, random.Random(11)
    each_time = jobs // kills
    for first in range(0, jobs, each_time):
        made = [
            job(f"job-{number}", command=["sleep", str(chance.randint(1, 9))], replicas=REPLICAS)
            for number in range(first, min(jobs, first + each_time))
        ]
        body = {"apiVersion": "v1", "kind": "List", "items": [json.loads(each) for each in made]}
        cluster.create(json.dumps(body), NAMESPACE)
        if first // each_time % 5 == 0:  # the others die before they have followed anything
            wait_until(lambda: rows_written(cluster) > 0, "the recorder to write rows", seconds=120)
        cluster.kill("recorder")
    wait_until(lambda: phases(cluster, NAMESPACE) == {"Completed": jobs}, "all Jobs to complete", seconds=1800)
    wait_until(
        lambda: pods_recorded(cluster, NAMESPACE) == jobs * REPLICAS,
        "the recorder to have seen all pods before they go",
        seconds=300,
    )
    cluster.kill("recorder")
    cluster.kubectl("delete", "vcjob", "--all", "-n", NAMESPACE, "--wait=true", timeout=300)
    held = recorded.held_by_nodes()
    assert len(held) == jobs * REPLICAS
    expected = {"cpu": 100 * sum(held)}

    def usage() -> dict[str, int]:
        items = ask(cluster, "usage", namespace=NAMESPACE, by="namespace,resource")["items"]
        return {item["resource"]: item["asked"] for item in items}

    wait_until(lambda: len(ask(cluster, "jobs", namespace=NAMESPACE, limit="1000")["items"]) == jobs, "all Jobs to be recorded")
    wait_until(lambda: usage() == expected, f"usage to be {expected}: it is {usage()}")
    items = ask(cluster, "usage", namespace=NAMESPACE, by="queue,user,resource")["items"]
    assert {item["doubtful"] for item in items} == {0}
    assert (sum(item["jobs"] for item in items), sum(item["failed"] for item in items)) == (jobs, 0)
    assert (cluster.data / "history.db").exists() == (recorded.database == "sqlite")


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


def test_submitter_annotation_is_recorded_and_cannot_be_changed(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl(*AS_ANN, "create", "-n", namespace, "-f", "-", stdin=job("mine", command=["true"], replicas=1))
    cluster.kubectl(*AS_ANN, "create", "-n", namespace, "-f", "-", stdin=FLOW)
    for kind, name in (("vcjob", "mine"), ("jobflow", "etl"), ("cronvcjob", "often")):
        assert submitter(cluster, namespace, kind, name) == "ann"
        said = cluster.refused("annotate", kind, name, "-n", namespace, "--overwrite", f"{SUBMITTED_BY}=eve")
        assert "nobody may change it" in said
        cluster.kubectl("annotate", kind, name, "-n", namespace, f"{SUBMITTED_BY}-")
        assert submitter(cluster, namespace, kind, name) == "ann"
    cluster.kubectl("annotate", "vcjob", "mine", "-n", namespace, "team=a")
    wait_until(lambda: phases(cluster, namespace) == {"Completed": 2}, "the Jobs to complete")
    assert submitter(cluster, namespace, "vcjob", "etl-step") == "ann"
    wait_until(lambda: len(ask(cluster, "jobs", namespace=namespace, user="ann")["items"]) == 2, "both to be recorded")
    assert [each["name"] for each in ask(cluster, "jobs", namespace=namespace, user="ann", flow="etl")["items"]] == ["etl-step"]
