"""While an installed Volcano holds its Leases or has replicas, ours decide nothing; when it is gone they go on."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pyroclast.kube.lease.record import micro_time
from tests.e2e.faults.test_faults import pods_created_twice
from tests.e2e.jobs.test_first_light import job, phase_of
from tests.e2e.jobs.test_lifecycle import command
from tests.e2e.support.cluster import Cluster, KubectlError, running, wait_until

APPS = ("volcano-controller", "volcano-scheduler")
NAMES = ("vc-controller-manager", "volcano")


@contextlib.contextmanager
def volcano_at_work(cluster: Cluster) -> Iterator[None]:
    """Its Leases are renewed every second."""
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(1.0):
            cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=leases())

    cluster.make_namespace("volcano-system")
    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def leases() -> str:
    spec = {"holderIdentity": "volcano-0", "leaseDurationSeconds": 15, "renewTime": micro_time(datetime.now(UTC))}
    metadata = [{"namespace": "volcano-system", "name": name} for name in NAMES]
    items = [{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": each, "spec": spec} for each in metadata]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def deployment(app: str, replicas: int) -> str:
    labels = {"app": app}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": app, "namespace": "volcano-system", "labels": labels}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


@pytest.mark.timeout(600)
def test_services_stand_by_while_volcano_renews_its_leases_and_take_over_afterwards(control_plane: str, tmp_path: Path) -> None:
    with running(control_plane, tmp_path, nodes=2) as cluster:
        with volcano_at_work(cluster):
            wait_until(lambda: all(waits(cluster, name) for name in ("job-controller", "scheduler")), "both to stand back")
            cluster.create(job("later", command=["true"]))
            time.sleep(3)
            assert phase_of(cluster, "default", "later") == ""
            for app in APPS:  # Leases count only where a leader is elected
                cluster.kubectl("apply", "-f", "-", stdin=deployment(app, replicas=1))
        time.sleep(20)  # longer than its Leases last
        assert phase_of(cluster, "default", "later") == ""
        for app in APPS:
            cluster.kubectl("apply", "-f", "-", stdin=deployment(app, replicas=0))
        cluster.kubectl("wait", "--for=jsonpath={.status.state.phase}=Completed", "vcjob/later", "--timeout=90s", timeout=100)
        cluster.kubectl("apply", "-f", "-", stdin=deployment(APPS[0], replicas=1))
        wait_until(lambda: "AnotherProgramWorks" in cluster.kubectl("get", "events", "-n", "volcano-system"), "an Event about it")
        cluster.kubectl("apply", "-f", "-", stdin=deployment(APPS[0], replicas=0))


def waits(cluster: Cluster, service: str) -> bool:
    return "leading.waits_for_another" in cluster.log(service)


class SecondOwner:
    """What Volcano's controllers do while their Deployment has replicas: they delete a Command, then carry it out."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.carried_out: list[str] = []
        self.works, self.stops = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        kind = "commands.bus.volcano.sh"
        while not self.stops.wait(0.2):
            for each in self.cluster.get(kind, "-n", self.namespace)["items"] if self.works.is_set() else ():
                try:
                    self.cluster.kubectl("delete", kind, each["metadata"]["name"], "-n", self.namespace)
                except KubectlError:
                    continue  # the other side was faster, and carries it out
                self.carried_out.append(each["metadata"]["uid"])

    def scale(self, replicas: int) -> None:
        """As `kubectl scale`: the program begins a moment after its pod is wanted, and has ended when none is."""
        if not replicas:
            self.works.clear()
        self.cluster.kubectl("apply", "-f", "-", stdin=deployment(APPS[0], replicas))
        time.sleep(1.0)  # the start of a pod
        if replicas:
            self.works.set()


@pytest.mark.timeout(600)
def test_beside_a_second_owner_every_command_and_every_start_happens_once(
    control_plane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a minute, with leader election off on both sides, Volcano is scaled up and down again by somebody."""
    monkeypatch.setenv("PYROCLAST_LEADER_ELECT", "false")
    with running(control_plane, tmp_path, nodes=4) as cluster:
        cluster.make_namespace("volcano-system")
        cluster.make_namespace("team")
        other = SecondOwner(cluster, "team")
        other.thread.start()
        commands: dict[str, str] = {}
        try:
            begin, number = time.monotonic(), 0
            while time.monotonic() < begin + 60:
                other.scale(replicas=number // 4 % 2)
                cluster.create(job(f"job-{number}", command=["sleep", "600"], cpu="10m"), "team")
                for found in cluster.get("vcjob", "-n", "team")["items"]:
                    name = found["metadata"]["name"]
                    if name not in commands and (found.get("status") or {}).get("state", {}).get("phase") == "Running":
                        (made,) = cluster.create(command("AbortJob", found), "team")
                        commands[name] = made["metadata"]["uid"]
                number += 1
            other.scale(0)
            wait_until(lambda: not cluster.get("commands.bus.volcano.sh", "-n", "team")["items"], "an owner for each Command")
            jobs = {each["metadata"]["name"]: each for each in cluster.get("vcjob", "-n", "team")["items"]}
            wait_until(lambda: all(started(cluster, name) for name in jobs), "the start of each Job")
        finally:
            other.stops.set()
            other.thread.join()
        ours = {name for name, uid in commands.items() if last_command(cluster, name) == uid}
        theirs = {name for name, uid in commands.items() if uid in other.carried_out}
        assert ours | theirs == set(commands)
        assert not ours & theirs
        assert len(ours) > 3
        assert len(theirs) > 3
        assert pods_created_twice(cluster, "team") == []


def started(cluster: Cluster, name: str) -> bool:
    return phase_of(cluster, "team", name) in ("Running", "Aborting", "Aborted")


def last_command(cluster: Cluster, name: str) -> str:
    return str(cluster.get("vcjob", name, "-n", "team")["status"].get("lastCommand", ""))
