"""What users do on real nodes: the examples, MPI, PyTorch, logs and shells, preemption, and nodes that are filled exactly."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyroclast.resources.quantity import parse
from tests.real_cluster import images
from tests.real_cluster.conftest import Cluster, Release
from tests.real_cluster.seen import ROOT, followed, gang, mpi_job, pods_of, wait_for, wait_for_phase

_NOT_HERE = {"cron": "has a test of its own", "ray": "its image is too large for these nodes"}
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.yaml") if path.stem not in _NOT_HERE)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_completes(installed: Cluster, example: Path) -> None:
    run = [str(Path(sys.executable).with_name("pyroclast")), "run", "--kubeconfig", str(installed.kubeconfig), str(example)]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    installed.kubectl("delete", f"--filename={example}", "--ignore-not-found")


def test_the_cron_example_makes_a_job_each_minute(installed: Cluster) -> None:
    installed.kubectl("apply", "--filename=examples/cron.yaml")
    wait_for(lambda: "Completed" in installed.kubectl("get", "vcjob"), "a Job of the CronJob", 90)
    installed.kubectl("delete", "--filename=examples/cron.yaml")


@pytest.mark.parametrize("user", [0, 1000], ids=["root", "user"])
def test_mpirun_reaches_workers_whose_sshd_listens_on_another_port(installed: Cluster, user: int) -> None:
    name = f"port-{user}"
    home = ["--ssh-key-file-path=/home/mpi/.ssh"] if user else []
    installed.apply([mpi_job(name, port=2222, ssh=[*home, "--ssh-port=2222"], user=user)])
    wait_for_phase(installed, name, "Completed", 120)
    told = installed.kubectl("logs", f"{name}-launcher-0")
    assert {f"rank {rank} on {name}-worker-{rank}" for rank in (0, 1)} <= set(told.splitlines()), told
    installed.kubectl("delete", "vcjob", name)


_TRAIN = """
import os
os.environ["USE_LIBUV"] = "0"  # Debian builds torch without it
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print("rank", dist.get_rank(), "of", dist.get_world_size(), "sees", total.item())
"""


def test_torch_distributed_sums_over_two_nodes(installed: Cluster) -> None:
    installed.load(images.TORCH)
    body = gang("ddp", pods=1, cpu="1100m", command="")
    tasks = []
    for task in ("master", "worker"):
        found = gang("ddp", pods=1, cpu="1100m", command="")["spec"]["tasks"][0]
        found["template"]["spec"]["containers"][0] |= {"image": images.TORCH, "command": ["python3", "-c", _TRAIN]}
        tasks.append({**found, "name": task})
    plugins = {"pytorch": ["--master=master", "--worker=worker", "--port=23456"]}
    body["spec"] |= {"minAvailable": 2, "tasks": tasks, "plugins": plugins}
    installed.apply([body])
    wait_for_phase(installed, "ddp", "Completed", 180)
    assert {installed.kubectl("logs", f"ddp-{task}-0").strip() for task in ("master", "worker")} == {
        "rank 0 of 2 sees 3.0",
        "rank 1 of 2 sees 3.0",
    }
    assert len({pod["spec"]["nodeName"] for pod in pods_of(installed, "ddp")}) == 2
    installed.kubectl("delete", "vcjob", "ddp")


def test_kubectl_reaches_into_the_pods_of_a_job(installed: Cluster) -> None:
    command = "echo served > /tmp/page; (while true; do echo tick; sleep 1; done) & exec httpd -f -p 8000 -h /tmp"
    installed.apply([gang("reach", pods=1, cpu="50m", command=command)])
    wait_for_phase(installed, "reach", "Running")
    assert installed.kubectl("exec", "reach-worker-0", "--", "cat", "/tmp/page").strip() == "served"
    for verb in (["logs", "--follow"], ["attach"]):
        with followed(installed, *verb, "reach-worker-0") as out:
            lines = [next(out).strip() for _ in range(4)]
        assert "tick" in lines, lines
    with followed(installed, "port-forward", "reach-worker-0", ":8000") as out:
        port = next(out).partition("127.0.0.1:")[2].split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/page", timeout=10) as answer:
            assert answer.read() == b"served\n"
    installed.kubectl("delete", "vcjob", "reach")


_GRACEFUL = "trap 'sleep 4; echo saved; exit 0' TERM; echo begun; while true; do sleep 1; done"


def _with_grace(job: dict[str, Any]) -> dict[str, Any]:
    job["spec"]["tasks"][0]["template"]["spec"]["terminationGracePeriodSeconds"] = 30
    return job


def test_a_deleted_gang_gets_its_grace(installed: Cluster) -> None:
    installed.apply([_with_grace(gang("saving", pods=3, cpu="50m", command=_GRACEFUL))])
    wait_for_phase(installed, "saving", "Running")
    with followed(installed, "logs", "--follow", "saving-worker-1") as out:
        assert next(out).strip() == "begun"
        installed.kubectl("delete", "vcjob", "saving", "--wait=false")
        assert next(out).strip() == "saved"
    wait_for(lambda: not pods_of(installed, "saving"), "all pods to end", 40)
    assert "saving" not in installed.kubectl("get", "podgroup,service,configmap,secret")


def test_a_configuration_change_lets_an_important_job_preempt_and_its_victims_get_their_grace(
    installed: Cluster, release: Release
) -> None:
    """The kubelet carries the changed ConfigMap to the scheduler, which reads it again; then evictions begin."""
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("minor", 10), ("major", 1000))
    ]
    installed.apply([*classes, _with_grace(gang("minor", pods=3, cpu="1", command=_GRACEFUL, priorityClassName="minor"))])
    wait_for_phase(installed, "minor", "Running")
    installed.apply([gang("major", pods=3, cpu="1", command="true", priorityClassName="major")])
    with followed(installed, "logs", "--follow", "minor-worker-0") as out:
        assert next(out).strip() == "begun"
        release.upgrade("basic.scheduler_config_file=config/volcano-scheduler-ci.conf")
        assert next(out).strip() == "saved"
    wait_for_phase(installed, "major", "Completed", 180)
    installed.kubectl("delete", "vcjob", "minor", "major")
    release.upgrade()


def test_gangs_placed_before_their_pods_complete_without_a_retry_beside_another_scheduler_on_the_same_nodes(
    installed: Cluster,
) -> None:
    for number in range(4):
        share = min(_free_cpu(installed).values()) // 4
        body = gang(f"seated-{number}", pods=7, cpu=f"{share}m", command="sleep 2")
        spec = body["spec"]["tasks"][0]["template"]["spec"]
        others = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"other-{number}-{index}", "labels": {"app": "other"}},
                "spec": {**spec, "schedulerName": "default-scheduler"},
            }
            for index in range(7)
        ]
        installed.apply([*others[:3], body, *others[3:]])
        wait_for_phase(installed, f"seated-{number}", "Completed", 180)
        status = installed.get("vcjob", f"seated-{number}")[0]["status"]
        assert status.get("retryCount", 0) == 0, status
        rejections = [each["message"] for each in installed.get("events", "--field-selector=reason=PodRejected")]
        print(f"round {number}: rejected so far: {rejections}")
        installed.kubectl("delete", "pods", "--selector=app=other", "--wait=true")
        installed.kubectl("delete", "vcjob", f"seated-{number}")


def test_a_gang_fits_exactly_beside_daemons_static_pods_and_the_default_scheduler(installed: Cluster) -> None:
    labels = {"app": "daemon"}
    container = gang("x", pods=1, cpu="70m", command="sleep 3600")["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    daemons = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "daemon", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    static = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "static"},
        "spec": {"containers": [{**container, "resources": {"requests": {"cpu": "110m"}}}], "terminationGracePeriodSeconds": 1},
    }
    manifest = installed.nodes["node-3"].static_pods / "static.yaml"
    manifest.write_text(yaml.safe_dump(static))
    installed.apply([daemons])
    try:
        installed.kubectl("rollout", "status", "daemonset/daemon", "--timeout=60s")
        wait_for(lambda: "Running" in installed.kubectl("get", "pods", "static-node-3", check=False), "the static pod")
        free = _free_cpu(installed)
        body = gang("exact", pods=1, cpu="1", command="sleep 3")
        body["spec"] |= {"minAvailable": 3, "tasks": [_filling(node, cpu) for node, cpu in free.items()]}
        installed.apply([body])
        wait_for_phase(installed, "exact", "Completed")
        more = gang("more", pods=1, cpu="1", command="true")
        more["spec"]["tasks"] = [_filling("node-3", free["node-3"] + 1)]
        installed.apply([more])
        says = "--output=jsonpath={.status.state.message}"
        wait_for(lambda: "NodesFull" in installed.kubectl("get", "vcjob", "more", says), "the Job to say why it waits")
        installed.kubectl("delete", "vcjob", "exact", "more")
    finally:
        manifest.unlink()
        installed.kubectl("delete", "daemonset", "daemon")


def _free_cpu(cluster: Cluster) -> dict[str, int]:
    """What the requests of the pods leave of each node, in thousandths of a core."""
    used: dict[str, int] = defaultdict(int)
    for pod in cluster.get("pods", "--all-namespaces"):
        if pod["status"].get("phase") not in {"Succeeded", "Failed"}:
            for container in pod["spec"]["containers"]:
                asked = container.get("resources", {}).get("requests", {}).get("cpu", "0")
                used[pod["spec"].get("nodeName", "")] += parse(asked).millis
    nodes = cluster.get("nodes")
    return {
        node["metadata"]["name"]: parse(node["status"]["allocatable"]["cpu"]).millis - used[node["metadata"]["name"]]
        for node in nodes
    }


def _filling(node: str, cpu: int) -> dict[str, Any]:
    task = gang("x", pods=1, cpu=f"{cpu}m", command="sleep 3")["spec"]["tasks"][0]
    task["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {**task, "name": f"on-{node}"}
