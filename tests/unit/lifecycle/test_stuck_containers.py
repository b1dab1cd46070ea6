"""A Job whose pods have their nodes and do not run says what keeps their containers."""

from __future__ import annotations

import msgspec
import pytest

from pyroclast.api.records import Pod
from pyroclast.lifecycle.job.waits import stuck


def pod(name: str, reason: str = "", message: str = "", *, init: str = "") -> Pod:
    def status(container: str, why: str) -> dict[str, object]:
        return {"name": container, "state": {"waiting": {"reason": why, "message": message}} if why else {}}

    statuses = {"containerStatuses": [status("main", reason)], "initContainerStatuses": [status("setup", init)]}
    return msgspec.convert({"metadata": {"name": name}, "status": statuses}, Pod)


CASES = {
    "all is well": ([pod("a", "ContainerCreating"), pod("b")], ""),
    "an image": (
        [pod("b", "ImagePullBackOff", "Back-off 10s"), pod("a", "ErrImagePull", "not found"), pod("c")],
        "ImageRefused: an image cannot be pulled on 2 pods; a, container main",
    ),
    "the image of an init container": (
        [pod("a", "PodInitializing", init="InvalidImageName")],
        "ImageRefused: an image cannot be pulled on 1 pod; a, container setup",
    ),
    "a secret": (
        [pod("a", "CreateContainerConfigError", 'secret "s" not found')],
        'VolumeNotMounted: a ConfigMap, Secret or volume cannot be used on 1 pod; a, container main: secret "s" not found',
    ),
    "an image goes first": (
        [pod("a", "CrashLoopBackOff", "back-off 40s"), pod("b", "ErrImagePull")],
        "ImageRefused: an image cannot be pulled on 1 pod; b, container main",
    ),
    "it crashes": (
        [pod("a", "CrashLoopBackOff", "back-off 40s")],
        "Crashing: containers end and are started again on 1 pod; a, container main",
    ),
}


@pytest.mark.parametrize(("pods", "want"), CASES.values(), ids=CASES)
def test_report_of_stuck_containers_names_cause_pod_count_pod_and_container(pods: list[Pod], want: str) -> None:
    assert stuck(pods) == want
