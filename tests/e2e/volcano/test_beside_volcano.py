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
from tests.e2e.jobs.test_first_light import job, phase_of
from tests.e2e.support.cluster import Cluster, running, wait_until

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
