"""Jobs after Jobs, suspension and times: what users of Slurm know, on a cluster of simulated nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, wait_until

CHAIN = ("build", "array", "collect", "notify")
TRUE, FALSE, FOREVER = ["sleep", "0"], ["sh", "-c", "exit 3"], ["sleep", "600"]


def phases(cluster: Cluster, namespace: str) -> dict[str, str]:
    items = cluster.get("vcjob", "-n", namespace)["items"]
    return {item["metadata"]["name"]: item.get("status", {}).get("state", {}).get("phase", "") for item in items}


def state(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get("vcjob", name, "-n", namespace).get("status", {}).get("state", {})
    return found


def objects_of(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """The pods and PodGroups of a Job."""
    pods = cluster.get("pods", "-n", namespace, "-l", f"volcano.sh/job-name={name}")["items"]
    groups = cluster.get("podgroups", "-n", namespace)["items"]
    return [each["metadata"]["name"] for each in (*pods, *groups) if each["metadata"]["name"].startswith(f"{name}-")]


@pytest.mark.parametrize("failing", ["", *CHAIN[:3]])
def test_a_chain_runs_to_its_end_or_fails_where_a_job_before_failed(cluster: Cluster, namespace: str, failing: str) -> None:
    """build → array → collect → notify; notify runs however collect ended. Jobs that ended are deleted at once."""
    spec: dict[str, dict[str, Any]] = {
        "build": {"ttlSecondsAfterFinished": 0},
        "array": {"after": [{"job": "build"}]},
        "collect": {"after": [{"selector": {"matchLabels": {"stage": "array"}}}]},
        "notify": {"after": [{"job": "collect", "condition": "Ended"}]},
    }
    for name in reversed(CHAIN):  # the later Jobs first: they wait for what does not exist yet
        manifest = json.loads(job(name, command=FALSE if name == failing else TRUE, **spec[name]))
        manifest["metadata"]["labels"] = {"stage": name}
        cluster.create(json.dumps(manifest), namespace)
    bad = {"array": "Failed", "collect": "Failed"} if failing == "build" else {}
    bad |= {"array": "Failed", "collect": "Failed"} if failing == "array" else {failing: "Failed"} if failing == "collect" else {}
    wanted = {name: bad.get(name, "Completed") for name in CHAIN[1:]}
    wait_until(lambda: phases(cluster, namespace) == wanted, f"the phases {wanted}, and build to be deleted")
    if failing in ("build", "array"):
        told = state(cluster, namespace, "collect")
        assert told["reason"] == "DependencyNeverSatisfied"
        assert "job array is Failed" in told["message"]


def test_a_suspended_job_has_no_objects_and_goes_on_when_it_is_resumed(cluster: Cluster, namespace: str) -> None:
    cluster.create(job("held", command=FOREVER, suspend=True), namespace)
    wait_until(lambda: state(cluster, namespace, "held").get("reason") == "Suspended", "the Job to say that it is suspended")
    assert not objects_of(cluster, namespace, "held")
    for round_ in range(2):
        cluster.kubectl("patch", "vcjob", "held", "-n", namespace, "--type=merge", "-p", '{"spec":{"suspend":false}}')
        cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Running", "vcjob/held", "--timeout=60s")
        cluster.kubectl("patch", "vcjob", "held", "-n", namespace, "--type=merge", "-p", '{"spec":{"suspend":true}}')
        wait_until(lambda: state(cluster, namespace, "held")["phase"] == "Pending", f"the pods of run {round_} to end")
        assert not objects_of(cluster, namespace, "held")
    status = cluster.get("vcjob", "held", "-n", namespace)["status"]
    assert "retryCount" not in status
    assert status["waiting"]["code"] == "Suspended"


def test_a_suspended_flow_suspends_its_jobs_and_starts_none(cluster: Cluster, namespace: str) -> None:
    for name, command in (("a", FOREVER), ("b", TRUE)):
        template = json.loads(job(name, command=command))
        body = {
            "apiVersion": "flow.volcano.sh/v1alpha1",
            "kind": "JobTemplate",
            "metadata": {"name": name},
            "spec": template["spec"],
        }
        cluster.create(json.dumps(body), namespace)
    flow = {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "f"},
        "spec": {"flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]},
    }
    cluster.create(json.dumps(flow), namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Running", "vcjob/f-a", "--timeout=60s")
    cluster.kubectl("patch", "jobflow", "f", "-n", namespace, "--type=merge", "-p", '{"spec":{"suspend":true}}')
    wait_until(lambda: "JobFlow f is suspended" in state(cluster, namespace, "f-a").get("message", ""), "the Job to be suspended")
    cluster.kubectl("patch", "jobflow", "f", "-n", namespace, "--type=merge", "-p", '{"spec":{"suspend":false}}')
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Running", "vcjob/f-a", "--timeout=60s")


def test_a_job_of_another_controller_is_left_alone(cluster: Cluster, namespace: str) -> None:
    cluster.create(job("theirs", command=TRUE, managedBy="example.com/other"), namespace)
    cluster.create(job("ours", command=TRUE), namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Completed", "vcjob/ours", "--timeout=60s")
    assert phases(cluster, namespace)["theirs"] == ""
    assert not objects_of(cluster, namespace, "theirs")
    change = ("-n", namespace, "--type=merge", "-p", '{"spec":{"managedBy":null}}')
    assert "may not change fields" in cluster.refused("patch", "vcjob", "theirs", *change)


def test_a_run_that_is_too_long_fails_also_after_its_controller_was_killed(cluster: Cluster, namespace: str) -> None:
    cluster.create(job("long", command=FOREVER, maxRunTime="8s"), namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Running", "vcjob/long", "--timeout=60s")
    cluster.kill("job-controller")
    wait_until(lambda: state(cluster, namespace, "long").get("reason") == "RunTimeLimit", "the Job to fail")
    assert state(cluster, namespace, "long")["phase"] == "Failed"


def test_a_native_job_may_come_before(cluster: Cluster, namespace: str) -> None:
    after = [{"job": "native", "kind": "BatchJob", "condition": "Ended"}]
    cluster.create(job("later", command=TRUE, after=after), namespace)
    wait_until(lambda: "native job native" in state(cluster, namespace, "later").get("message", ""), "the Job to wait")
    pod = {
        "containers": [{"name": "a", "image": "busybox", "command": TRUE}],
        "restartPolicy": "Never",
        "schedulerName": "volcano",
    }
    native = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "native"}, "spec": {"template": {"spec": pod}}}
    cluster.create(json.dumps(native), namespace)
    status = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    if cluster.control_plane == "embedded":  # it has no controller of native Jobs
        cluster.kubectl(
            *("patch", "job.batch", "native", "-n", namespace, "--subresource=status", "--type=merge", "-p", json.dumps(status))
        )
    wait_until(lambda: phases(cluster, namespace).get("later") == "Completed", "the Job to run")
