"""What the recorder keeps of gangs that are described by the PodGroups of Kubernetes itself."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.support.board import shows
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.natives import (
    GROUPS,
    NODES,
    QUEUE,
    conditions,
    gang,
    group_of,
    job,
    make,
    nodes,
    pod_spec,
)
from tests.e2e.support.shell import Shell

SECONDS = 120
QUICK = {"containers": [{**pod_spec("10m")["containers"][0], "command": ["sleep", "2"]}]}


def history(own: Cluster, namespace: str, *arguments: str) -> list[dict[str, Any]]:
    """What `vcctl history` tells of a namespace; nothing while the recorder starts."""
    done = Shell(own.kubeconfig, namespace).run("vcctl", "history", *arguments, "-n", namespace, "-o", "json")
    return list(json.loads(done.stdout)["items"]) if done.returncode == 0 else []


def states(own: Cluster, namespace: str) -> dict[str, str]:
    return {each["name"]: each["state"] for each in history(own, namespace)}


def test_history_keeps_a_deleted_kubernetes_job_with_its_gang_and_usage(own: Cluster, namespace: str) -> None:
    queue = f"q-{namespace}"
    make(own, namespace, {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": queue}})
    make(own, namespace, job("train", "10m", 3, gang(3), labels={QUEUE: queue}, pod=QUICK))
    name = group_of(own, namespace, "train")
    wait_until(lambda: states(own, namespace) == {name: "Completed"}, "the gang to have completed", seconds=SECONDS)
    for series in (f'job_ends_total{{queue="{queue}",state="Completed"}}', f'run_seconds_count{{queue="{queue}"}}'):
        wait_until(lambda: f"pyroclast_{series} 1.0" in own.metrics("recorder"), f"{series} to count it")  # noqa: B023
    uid = own.get(GROUPS, name, "-n", namespace)["metadata"]["uid"]
    own.kubectl("delete", "job", "train", "-n", namespace)
    wait_until(lambda: not own.get(GROUPS, "-n", namespace)["items"], "the group to go with the Job", seconds=SECONDS)
    (row,) = history(own, namespace, name)
    assert (row["object"], row["uid"], row["queue"], row["state"]) == (GROUPS, uid, queue, "Completed")
    assert (row["pods"], row["gangSize"], row["exitCode"], row["owner"]) == (3, 3, 0, "Job/train")
    held = row["elapsedSeconds"] + 2  # pods are bound up to a second before the group says that it has started
    assert 3 * 10 <= row["asked"]["cpu"] <= 3 * 10 * held
    assert [each["name"] for each in row["phases"]] == ["Pending", "Running"]
    shell = Shell(own.kubeconfig, namespace)
    assert "Completed, exit code 0" in shell.run("vcctl", "efficiency", name, "-n", namespace).stdout
    assert GROUPS in shell.run("vcctl", "history", "-q", queue, "-n", namespace).stdout
    report = "vcctl", "report", "usage", "--by", "queue,resource", "-q", queue, "-n", namespace, "-o", "json"
    (used,) = (each for each in json.loads(shell.run(*report).stdout)["items"] if each["resource"] == "cpu")
    assert (used["asked"], used["jobs"], used["failed"]) == (row["asked"]["cpu"], 1, 0)
    shows(own, f"/history?namespace={namespace}", f'href="/jobs/{uid}">{namespace}/{name}</a> (PodGroup of Kubernetes)')
    shows(own, f"/jobs/{uid}", "this is what the recorder remembers", "Job/train")


def test_waiting_gang_gets_a_start_prediction_that_the_report_later_evaluates(own: Cluster, namespace: str, cpu: str) -> None:
    queue = f"q-{namespace}"
    make(own, namespace, {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": queue}})
    for name in ("runs", "waits"):
        body = job(name, cpu, NODES, gang(NODES), labels={QUEUE: queue})
        body["spec"]["template"]["metadata"]["annotations"] = {"scheduling.volcano.sh/running-estimate": "10m"}
        make(own, namespace, body)
        wait_until(lambda: len(nodes(own, namespace)) == NODES, "the first gang to start")
    group_name = group_of(own, namespace, "waits")
    shell = Shell(own.kubeconfig, namespace)

    def waiting() -> dict[str, Any]:
        items = json.loads(shell.said("vcctl", "waiting", "-n", namespace, "-o", "json"))["items"]
        return dict(next((each for each in items if each["name"] == group_name), {}))

    wait_until(lambda: waiting().get("start"), "its start to be foretold", seconds=SECONDS)
    row = waiting()
    assert (row["queue"], row["position"], row["asks"]["cpu"]) == (queue, 1, str(NODES * int(cpu)))
    assert "most likely" in shell.said("vcctl", "explain", f"podgroup/{group_name}", "-n", namespace)
    uid = own.get(GROUPS, group_name, "-n", namespace)["metadata"]["uid"]
    shows(own, f"/jobs/{uid}", "most likely")
    own.kubectl("delete", "job", "runs", "-n", namespace)
    wait_until(lambda: states(own, namespace).get(group_name) == "Running", "the other gang to start", seconds=SECONDS)
    assert "pyroclast.dev/Waiting" not in conditions(own, namespace, group_name)
    assert history(own, namespace, group_name)[0]["estimate"] == "10m", "its pods declare it"
    report = "vcctl", "report", "estimates", "-o", "json"

    def judged() -> list[int]:
        items = json.loads(shell.said(*report))["items"]
        return [each["predictions"] for each in items if each["queue"] == queue]

    wait_until(lambda: judged() == [1], "the forecast to be judged", seconds=SECONDS)
