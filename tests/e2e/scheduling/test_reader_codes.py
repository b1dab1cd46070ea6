"""Codes that no session finds out are the same in the Job, `vcctl explain`, `vcctl waiting` and the metric of the board."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.shell import Shell

pytestmark = pytest.mark.timeout(600)


def job(name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "command": ["sleep", "3600"]}
    pod = {"restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 0, "containers": [container]}
    own = {f"nodes.pyroclast.dev/{key}": value for key, value in (annotations or {}).items()}
    task = {"name": "a", "replicas": 1, "template": {"metadata": {"annotations": own}, "spec": pod}}
    kind = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    return {**kind, "metadata": {"name": name}, "spec": {"minAvailable": 1, "tasks": [task], **spec}}


CASES = {
    "ClaimMissing": job("claim", volumes=[{"mountPath": "/data", "volumeClaimName": "gone"}]),
    "NoScheduler": job("typo", schedulerName="volcan"),
    "ImageRefused": job("image", annotations={"image-pull": "fail"}),
    "Starting": job("starts", annotations={"start-delay": "1h"}),
    "Crashing": job("crashes", annotations={"fail-after": "1s"}),
    "Suspended": job("held"),
}
TEMPLATE = {
    "apiVersion": "flow.volcano.sh/v1alpha1",
    "kind": "JobTemplate",
    "metadata": {"name": "step"},
    "spec": job("")["spec"],
}
FLOW = {
    "apiVersion": "flow.volcano.sh/v1alpha1",
    "kind": "JobFlow",
    "metadata": {"name": "etl"},
    "spec": {"flows": [{"name": "step"}, {"name": "next", "dependsOn": {"targets": ["step"]}}]},
}
RUNNING = {"Crashing"}
UNSAID = {"Starting"}
"""Said in the Job with the next write that happens anyway."""


@pytest.fixture(scope="module")
def shell(cluster: Cluster) -> Iterator[Shell]:
    name = f"codes-{secrets.token_hex(4)}"
    cluster.make_namespace(name)
    flow = [TEMPLATE, {**TEMPLATE, "metadata": {"name": "next"}}, FLOW]
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*CASES.values(), *flow]})
    cluster.create(items, name)
    asking = Shell(cluster.kubeconfig, name)
    asking.said("vcctl", "job", "suspend", "-N", "held", "-n", name)
    yield asking
    cluster.kubectl("delete", "namespace", name, "--wait=true", timeout=240)


@pytest.mark.parametrize("code", [*CASES, "WaitsForEntry"])
def test_waiting_code_is_the_same_in_explain_waiting_status_and_metric(cluster: Cluster, shell: Shell, code: str) -> None:
    name = "etl-next" if code == "WaitsForEntry" else CASES[code]["metadata"]["name"]

    def explained() -> str | None:
        done = shell.run("vcctl", "explain", name, "-n", shell.namespace, "-o", "json")
        return json.loads(done.stdout)["code"] if done.stdout else None

    wait_until(lambda: explained() == code, f"explain to say {code}")
    if code not in RUNNING:
        listed = json.loads(shell.said("vcctl", "waiting", "-n", shell.namespace, "-o", "json"))["items"]
        assert {each["name"]: each["code"] for each in listed}[name] == code
    if name in {each["metadata"]["name"] for each in CASES.values()} and code not in UNSAID:

        def noted() -> bool:
            return (cluster.get("vcjob", name, "-n", shell.namespace)["status"].get("waiting") or {}).get("code") == code

        wait_until(noted, f"status.waiting to say {code}")
    if code in CASES and code not in RUNNING:
        series = re.compile(rf'^pyroclast_waiting_jobs{{code="{code}",queue="default"}} [1-9]', re.MULTILINE)
        wait_until(lambda: series.search(cluster.metrics("board")), f"the board to count {code}")
