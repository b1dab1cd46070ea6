"""An API server without Kubernetes' own PodGroups, with an alpha of them alone, or with them only later: all else works."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from pyroclast.kube.http.native_groups import LOOK_SECONDS
from tests.control_plane import build
from tests.control_plane.real import NATIVE, Flavour
from tests.e2e.support.cluster import Cluster, running, wait_until
from tests.e2e.support.natives import NEEDED, gang, group, make, member, nodes, volcano_job

ALPHA = Flavour(build.PRESENT, ("GenericWorkload", "GangScheduling"), ("scheduling.k8s.io/v1alpha2",))
PLAIN_NEXT = dataclasses.replace(NATIVE, switched_on=(), served=())


def told(own: Cluster, event: str) -> int:
    """How many lines of the scheduler's log tell of it."""
    return sum(event in line for line in (own.data / "logs" / "scheduler.log").read_text().splitlines())


def test_scheduler_ignores_podgroups_served_only_as_v1alpha2(control_plane: str, tmp_path: Path) -> None:
    if control_plane != "real":
        pytest.skip("the embedded API server has no alpha")
    with running("real", tmp_path, nodes=1, flavour=ALPHA) as own:
        served = json.loads(own.kubectl("get", "--raw", "/apis/scheduling.k8s.io/v1alpha2"))
        assert "podgroups" in {each["name"] for each in served["resources"]}
        make(own, "default", volcano_job("plain", "10m", 2))
        wait_until(lambda: len(nodes(own, "default")) == 2, "a Job of ours to start")
        assert told(own, "native_groups.not_served") == 1
        assert told(own, "native_groups.served") == 0


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_scheduler_schedules_native_podgroups_served_later_without_a_restart(control_plane: str, tmp_path: Path) -> None:
    if control_plane != "real" or build.missing(NEEDED, build.NEXT):
        pytest.skip(f"Kubernetes {build.NEXT} is not asked for, or not built: `make control-plane KUBERNETES={build.NEXT}`")
    with running("real", tmp_path, nodes=1, flavour=PLAIN_NEXT) as own:
        wait_until(lambda: told(own, "native_groups.not_served"), "the scheduler to look")
        scheduler, server = own.pids["scheduler"], own.server
        assert server is not None
        server.do(server.plane.become(NATIVE))
        make(own, "default", group("g", gang(2)), member("a", "g", "10m"), member("b", "g", "10m"))
        wait_until(lambda: len(nodes(own, "default")) == 2, "the gang to start", seconds=LOOK_SECONDS + 30)
        assert own.pids["scheduler"] == scheduler
        assert told(own, "native_groups.not_served") == 1
