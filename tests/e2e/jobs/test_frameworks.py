"""What plugins promise, taken at their word by what the frameworks read: pods are processes of this machine here."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.cluster import Cluster, running

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SSH = shutil.which("ssh")

RENDEZVOUS = """
import os, socket, time
host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert 0 <= rank < world
if rank == 0:
    server = socket.create_server((host, port))
    peers = [server.accept()[0] for _ in range(world - 1)]
    ranks = sorted([0, *(int(peer.recv(16)) for peer in peers)])
    assert ranks == list(range(world)), ranks
    for peer in peers:
        peer.sendall(b"%d" % sum(ranks))
    print("sum", sum(ranks))
else:
    for _ in range(600):
        try:
            peer = socket.create_connection((host, port))
            break
        except OSError:
            time.sleep(0.1)
    peer.sendall(b"%d" % rank)
    print("sum", int(peer.recv(16)))
"""
"""The environment's rendezvous of torch.distributed by its documented rules: rank 0 listens, all others come to it."""

TORCH = """
import torch, torch.distributed
torch.distributed.init_process_group("gloo", init_method="env://")
total = torch.tensor(torch.distributed.get_rank())
torch.distributed.all_reduce(total)
print("sum", int(total))
"""

CLUSTER_SPEC = """
import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
cluster, task = config["cluster"], config["task"]
assert set(cluster) <= {"chief", "worker", "ps", "evaluator"}, cluster
everyone = [address for addresses in cluster.values() for address in addresses]
assert len(set(everyone)) == len(everyone), everyone
mine = cluster[task["type"]][task["index"]]
host, port = mine.rsplit(":", 1)
server = socket.create_server((host, int(port)), backlog=64)
for address in everyone:
    host, port = address.rsplit(":", 1)
    for _ in range(600):
        try:
            socket.create_connection((host, int(port))).close()
            break
        except OSError:
            time.sleep(0.1)
    else:
        raise SystemExit(f"{address} cannot be reached")
time.sleep(3)
print("reached", len(everyone))
"""
"""What each server of tf.train.ClusterSpec does: listen at its own place of the list, and connect to the others."""

RAY = """
import argparse, socket, sys, time
parser = argparse.ArgumentParser(prog="ray")
start = parser.add_subparsers(dest="command", required=True).add_parser("start", allow_abbrev=False)
for flag in ("--head", "--block"):
    start.add_argument(flag, action="store_true")
for flag in ("--port", "--dashboard-port", "--ray-client-server-port"):
    start.add_argument(flag, type=int)
start.add_argument("--dashboard-host", default="localhost")
start.add_argument("--address")
given = parser.parse_args()
assert given.head != bool(given.address), "a node is the head, or joins one"
if given.head:
    ports = (given.port, given.dashboard_port, given.ray_client_server_port)
    servers = [socket.create_server(("0.0.0.0", port)) for port in ports]
    for _ in range(2):
        peer, _ = servers[0].accept()
        peer.sendall(b"welcome")
    print("head: 2 nodes joined", flush=True)
    time.sleep(3)
else:
    host, port = given.address.rsplit(":", 1)
    for _ in range(600):
        try:
            peer = socket.create_connection((host, int(port)))
            break
        except OSError:
            time.sleep(0.1)
    assert peer.recv(16) == b"welcome"
    print("joined", flush=True)
"""
"""The part of the command line of `ray start` that its documentation tells of; the head listens, workers join it."""

SSH_LOGIN = """
set -e
for host in $(echo $MPI_HOST | tr ',' ' '); do
  {ssh} -o LogLevel=ERROR -o ConnectionAttempts=20 ${{host%%.*}} 'echo logged in'
done
"""
"""What mpirun does to start its daemons: a login per host, by the name that the list and the configuration share."""

SSH_SERVER = """
mkdir -p /run/sshd
set -- -f /dev/null -p 2222 -h /root/.ssh/id_rsa -o ListenAddress=$HOST_ADDRESS -o UsePAM=no -o StrictModes=no -o PidFile=none
exec {sshd} -D -e "$@"
"""


STAMP = """
from pyroclast.api.types import CONFIG_MAPS
from pyroclast_job_controller.plugins.base import JobPlugin, PluginObject
from pyroclast_job_controller.plugins.containers import annotated


class Stamp(JobPlugin):
    name = "stamp"
    defaults = {"text": ""}

    def objects(self, job):
        return [PluginObject(CONFIG_MAPS, f"{job.metadata.name}-stamp", {"data": {"text": self.flags.text("text")}})]

    def pod(self, job, task, index, manifest):
        return annotated(manifest, "example.com/stamp", self.flags.text("text"))
"""
"""A plugin of somebody else."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package of somebody else, as an installer leaves it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "stamp.py").write_text(STAMP)
    installed = folder / "stamp-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: stamp\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[pyroclast.job_plugins]\nstamp = stamp:Stamp\n")
    return folder


@pytest.fixture(scope="module")
def cluster(control_plane: str, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane whose nodes run the commands of containers as processes, with a plugin of somebody else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
        with running(control_plane, tmp_path_factory.mktemp("processes"), nodes=2, mode="process") as cluster:
            yield cluster


def task(name: str, replicas: int, *command: str, env: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    variables = [{"name": key, "value": value} for key, value in (env or {}).items()]
    container = {"name": name, "image": "any", "command": list(command), "env": variables}
    container["resources"] = {"requests": {"cpu": "100m"}}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def run(cluster: Cluster, namespace: str, plugins: dict[str, list[str]], *tasks: dict[str, Any]) -> dict[str, str]:
    """Run a Job to its end; the logs of its pods."""
    spec = {"schedulerName": "volcano", "plugins": plugins, "tasks": list(tasks)}
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    cluster.create(json.dumps(body), namespace)
    try:
        cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Completed", "vcjob/j", "--timeout=60s")
    finally:
        names = [pod["metadata"]["name"] for pod in cluster.get("pods", "-n", namespace)["items"]]
        logs = {name: cluster.kubectl("logs", "-n", namespace, name, "--all-containers") for name in names}
        print(json.dumps(logs, indent=1))
    return logs


def test_processes_meet_by_the_environment_of_torch_distributed(cluster: Cluster, namespace: str) -> None:
    try:
        __import__("torch")
        script = TORCH
    except ImportError:
        script = RENDEZVOUS
    arguments = ["--port=29500", *(["--wait-master-enabled"] if shutil.which("nc") else [])]
    command = (sys.executable, "-c", script)
    logs = run(cluster, namespace, {"pytorch": arguments}, task("master", 1, *command), task("worker", 2, *command))
    assert [log.splitlines()[-1] for log in logs.values()] == ["sum 3"] * 3


def test_servers_of_a_tensorflow_cluster_reach_each_other(cluster: Cluster, namespace: str) -> None:
    command = (sys.executable, "-c", CLUSTER_SPEC)
    tasks = [task(name, replicas, *command) for name, replicas in (("ps", 1), ("worker", 2), ("chief", 1))]
    logs = run(cluster, namespace, {"tensorflow": ["--port=5000"]}, *tasks)
    assert list(logs.values()) == ["reached 4\n"] * 4


def test_workers_join_the_head_that_ray_starts(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    program = tmp_path / "ray"
    program.write_text(f"#!{sys.executable}\n{RAY}")
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    logs = run(cluster, namespace, {"ray": []}, task("head", 1, env=env), task("worker", 2, env=env))
    assert logs == {"j-head-0": "head: 2 nodes joined\n", "j-worker-0": "joined\n", "j-worker-1": "joined\n"}


@pytest.mark.skipif(not (SSHD and SSH and os.geteuid() == 0), reason="a login by ssh needs sshd, ssh and root on this machine")
def test_the_launcher_logs_in_to_its_workers(cluster: Cluster, namespace: str) -> None:
    workers = task("worker", 2, "sh", "-c", SSH_SERVER.format(sshd=SSHD))
    address = {"name": "HOST_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    workers["template"]["spec"]["containers"][0]["env"] = [address]
    done = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    launcher = task("master", 1, "sh", "-c", SSH_LOGIN.format(ssh=SSH), policies=done)
    plugins = {"mpi": ["--port=2222"], "svc": ["--wait-for-workers"], "ssh": ["--ssh-port=2222"]}
    logs = run(cluster, namespace, plugins, launcher, workers)
    assert logs["j-master-0"].count("logged in\n") == 2
    assert "2 names of task worker resolve" in logs["j-master-0"]


def test_a_plugin_of_somebody_else_works_where_it_is_installed(cluster: Cluster, namespace: str) -> None:
    spec = {"schedulerName": "volcano", "plugins": {"stamp": ["--text=seen"]}, "tasks": [task("a", 1, "sleep", "60")]}
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    cluster.create(json.dumps(body), namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=create", "pod/j-a-0", "--timeout=60s")
    assert cluster.get("pod", "j-a-0", "-n", namespace)["metadata"]["annotations"]["example.com/stamp"] == "seen"
    stamp = cluster.get("configmap", "j-stamp", "-n", namespace)
    assert (stamp["data"], stamp["metadata"]["ownerReferences"][0]["name"]) == ({"text": "seen"}, "j")
