"""A snapshot of a scheduler that does not decide yet, decided by the command, and then what the scheduler does when it leads."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from pyroclast_standalone.processes import free_port
from tests.e2e.jobs.test_first_light import job
from tests.e2e.scheduling.test_several_schedulers import scheduler
from tests.e2e.support.cluster import Cluster, wait_until


def held_lease(name: str) -> str:
    """A Lease that somebody else holds until it is deleted."""
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 3600, "leaseTransitions": 0}
    metadata = {"name": name, "namespace": "pyroclast-system"}
    return json.dumps({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})


def replayed(cluster: Cluster, body: bytes) -> Any:
    path = cluster.data / "snapshot.json"
    path.write_bytes(body)
    command = [sys.executable, "-m", "pyroclast_scheduler", "replay", str(path)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)


def fetched(address: str) -> bytes:
    with urllib.request.urlopen(f"http://{address}/debug/snapshot", timeout=30) as answer:
        found: bytes = answer.read()
    return found


@pytest.mark.timeout(480)
def test_replay_of_a_scheduler_snapshot_predicts_binds_and_conditions(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    wait_until(lambda: nothing_goes(cluster), "what other tests left to be gone")
    cluster.create(job("standing", command=["sleep", "600"], replicas=3), namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Running", "vcjob/standing", "--timeout=60s")
    configuration = tmp_path / "scheduler.conf"
    configuration.write_text((cluster.data / "scheduler.conf").read_text())
    with cluster.standing_aside("scheduler"):
        for name, minimum in (("fits", 4), ("large", 500)):
            groups(cluster, namespace, name, minimum)
        cluster.create(held_lease("replay"))
        flags = (f"--scheduler-conf={configuration}", "--leader-elect-resource-name=replay", "--enable-metrics")
        with scheduler(cluster, "replay", *flags, f"--listen-address={address}"):
            wait_until(lambda: knows(address, f"{namespace}/fits", 4), "the standby to know the pods")
            decision = replayed(cluster, fetched(address))
            mine = {pod: node for pod, node in decision["binds"].items() if pod.startswith(f"{namespace}/")}
            assert sorted(mine) == [f"{namespace}/fits-{i}" for i in range(4)]
            cluster.kubectl("delete", "lease", "replay", "-n", "pyroclast-system")
            wait_until(lambda: len(placed(cluster, namespace)) == 4, "the scheduler to bind them when it leads")
            assert placed(cluster, namespace) == mine
            said = decision["reasons"][f"{namespace}/large"]
            wait_until(lambda: conditions(cluster, namespace, "large") == said, f"the large gang to say {said}")
            later = replayed(cluster, fetched(address))
            assert not [pod for pod in later["binds"] if pod.startswith(f"{namespace}/")]
            assert later["reasons"][f"{namespace}/large"] == said
    cluster.kubectl("delete", "lease", "replay", "-n", "pyroclast-system")


def groups(cluster: Cluster, namespace: str, name: str, minimum: int) -> None:
    """A PodGroup that is let in, with four pods."""
    annotations = {"scheduling.k8s.io/group-name": name}
    container = {"name": "c", "image": "busybox:1.37", "command": ["sleep", "600"], "resources": {"requests": {"cpu": "100m"}}}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": minimum, "queue": "default"},
        "status": {"phase": "Inqueue"},
    }
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{i}", "annotations": annotations},
            "spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]},
        }
        for i in range(4)
    ]
    cluster.kubectl(
        "create", "-n", namespace, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [group, *pods]})
    )


def nothing_goes(cluster: Cluster) -> bool:
    """Whether no namespace is on its way out: its pods would leave room that the snapshot does not have yet."""
    return not any("deletionTimestamp" in each["metadata"] for each in cluster.get("namespaces")["items"])


def knows(address: str, job: str, pods: int) -> bool:
    try:
        found = json.loads(fetched(address))["jobs"]
    except OSError:
        return False
    return sum(found.get(job, {}).get("tasks", {}).values()) == pods


def placed(cluster: Cluster, namespace: str) -> dict[str, str]:
    items = cluster.get("pods", "-n", namespace)["items"]
    return {
        f"{namespace}/{pod['metadata']['name']}": pod["spec"]["nodeName"]
        for pod in items
        if pod["spec"].get("nodeName") and pod["metadata"]["name"].startswith("fits")
    }


def conditions(cluster: Cluster, namespace: str, name: str) -> list[str]:
    found = cluster.get("podgroup", name, "-n", namespace).get("status", {}).get("conditions", [])
    return [f"{each['type']} {each['reason']}: {each['message']}" for each in found if each["status"] == "True"]
