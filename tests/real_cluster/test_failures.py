"""How real kubelets fail pods, and what a Job says about it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.real_cluster.conftest import Cluster
from tests.real_cluster.seen import gang, wait_for, wait_for_phase


@dataclasses.dataclass(frozen=True)
class Case:
    """A Job of one pod that fails. `pod` and `container`: what is changed in its template; `want`: what its message says."""

    want: str
    command: str = "true"
    pod: dict[str, Any] = dataclasses.field(default_factory=dict)
    container: dict[str, Any] = dataclasses.field(default_factory=dict)


_INIT = {"name": "prepare", "image": "busybox:1.37", "command": ["sh", "-c", "exit 3"]}
CASES = {
    "exit-code": Case("failed with exit code 7", "exit 7"),
    "oom": Case(
        "failed with exit code 137 (OOMKilled, container c)",
        "head -c 300m /dev/zero | tail",
        container={"resources": {"requests": {"memory": "16Mi"}, "limits": {"memory": "32Mi"}}},
    ),
    "deadline": Case("(DeadlineExceeded: Pod was active on the node longer than", "sleep 60", pod={"activeDeadlineSeconds": 3}),
    "init-container": Case("failed with exit code 3 (init container prepare)", pod={"initContainers": [_INIT]}),
    "rejected": Case("(PodOSNotSupported: ", pod={"os": {"name": "windows"}}),
    "no-such-program": Case("StartError", container={"command": ["/no/such/program"]}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_job_says_how_its_pod_failed(installed: Cluster, name: str) -> None:
    case = CASES[name]
    job = gang(name, pods=1, cpu="50m", command=case.command)
    spec = job["spec"]["tasks"][0]["template"]["spec"]
    spec |= case.pod
    spec["containers"][0] |= case.container
    installed.apply([job])
    wait_for_phase(installed, name, "Failed")
    message = installed.kubectl("get", "vcjob", name, "--output=jsonpath={.status.state.message}")
    assert case.want in message
    installed.kubectl("delete", "vcjob", name)


def test_a_job_says_which_image_the_registry_refused(installed: Cluster) -> None:
    job = gang("unknown", pods=2, cpu="50m", command="true")
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["image"] = "registry.invalid/team/train:does-not-exist"
    installed.apply([job])

    def message() -> str:
        return installed.kubectl("get", "vcjob", "unknown", "--output=jsonpath={.status.state.message}")

    wait_for(lambda: "ImageRefused: an image cannot be pulled on 2 pods" in message(), "the Job to tell of its image")
    assert "container c, image registry.invalid/team/train:does-not-exist: " in message()
    assert "lookup registry.invalid" in message()
    installed.kubectl("delete", "vcjob", "unknown")
