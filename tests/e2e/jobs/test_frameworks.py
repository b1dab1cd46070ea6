"""What plugins promise, taken at their word by what the frameworks read: pods are processes of this machine here."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyroclast_standalone.processes import free_port
from tests.e2e.support.cluster import Cluster, running, wait_until
from tests.third_party.environments import NotInstalled, environment
from tests.unit.docs.pages import PAGES, blocks

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SSH = shutil.which("ssh")
HAS_LOGIN = bool(SSHD and SSH and os.geteuid() == 0)

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
import os, time
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

deadline = time.monotonic() + 240

def until(holds):
    while not holds():
        assert time.monotonic() < deadline, ray.nodes()
        time.sleep(0.2)

def connects():
    try:
        return ray.init(os.environ["HEAD"], logging_level="ERROR")
    except ConnectionError as error:  # the head has not started yet
        return print(error, flush=True)

until(connects)
until(lambda: len(ray.nodes()) == 3)

@ray.remote(num_cpus=1)
def node():
    return ray.get_runtime_context().get_node_id()

@ray.remote
class Counter:
    count = 0
    def add(self):
        self.count += 1
        return self.count

nodes = [each["NodeID"] for each in ray.nodes()]
ran = ray.get([node.options(scheduling_strategy=On(each, soft=False)).remote() for each in nodes])
counter = Counter.remote()
print("ran on all:", ran == nodes, "counted:", ray.get([counter.add.remote() for _ in range(3)]))
"""
RAY_VARIABLES = {
    "RAY_START_HOOK": "pod_address.of_ray",
    "RAY_AUTH_MODE": "disabled",  # else a token in the home of whoever runs the tests decides
    "RAY_OVERRIDE_RESOURCES": '{"CPU": 1}',
    "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": "80000000",
    "RAY_memory_monitor_refresh_ms": "0",  # it would end work for what other tests have taken
    "RAY_USAGE_STATS_ENABLED": "0",
}

MPI = """
from mpi4py import MPI
everyone = MPI.COMM_WORLD
print("rank", everyone.rank, "sum", everyone.allreduce(everyone.rank), "on", MPI.Get_processor_name(), flush=True)
"""

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
WITHOUT_SSH = """
import os, socket, subprocess, threading
def serve(peer):
    with peer, peer.makefile("rb") as lines:
        done = subprocess.run(["sh", "-c", lines.readline()], stdout=peer, stderr=peer)
        peer.sendall(b" %d" % done.returncode)
server = socket.create_server((os.environ["HOST_ADDRESS"], 2222))
while True:
    threading.Thread(target=serve, args=(server.accept()[0],)).start()
"""
WITHOUT_SSH_LOGIN = """
import socket, sys
with socket.create_connection((sys.argv[1], 2222)) as host:
    host.sendall(" ".join(sys.argv[2:]).encode() + b"\\n")
    with host.makefile() as said:
        sys.exit(int(said.read().split()[-1]))
"""
"""A remote shell without keys, for machines without sshd."""

STAMP = """
from pyroclast.api.types import CONFIG_MAPS
from pyroclast_job_controller.plugins.registry import JobPlugin, PluginObject
from pyroclast.lifecycle.plugins.containers import annotated


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


def add_address(task: dict[str, Any], variable: str) -> None:
    """Let the containers of `task` know the address of their pod."""
    address = {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    task["template"]["spec"]["containers"][0]["env"].append(address)


def installed(name: str) -> Path:
    """The Python of an environment with the real package; without it, the test is left out."""
    try:
        return environment(name)
    except NotInstalled as error:
        pytest.skip(str(error))


def processes_with(text: str) -> list[Path]:
    """Those that have a variable with this text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            found += [path] if text in path.read_bytes().decode(errors="replace") else []
    return found


def run(
    cluster: Cluster, namespace: str, plugins: dict[str, list[str]], *tasks: dict[str, Any], seconds: int = 60
) -> dict[str, str]:
    """Run a Job to its end; the logs of its pods."""
    spec = {"schedulerName": "volcano", "plugins": plugins, "tasks": list(tasks)}
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    cluster.create(json.dumps(body), namespace)
    try:
        completed = ("--for=jsonpath={.status.state.phase}=Completed", f"--timeout={seconds}s")
        cluster.kubectl("wait", "-n", namespace, "vcjob/j", *completed, timeout=seconds + 30)
    finally:
        names = [pod["metadata"]["name"] for pod in cluster.get("pods", "-n", namespace)["items"]]
        logs = {name: cluster.kubectl("logs", "-n", namespace, name, "--all-containers") for name in names}
        print(json.dumps(logs, indent=1))
    return logs


def test_pytorch_plugin_environment_lets_all_ranks_join_one_process_group(cluster: Cluster, namespace: str) -> None:
    try:
        __import__("torch")
        script = TORCH
    except ImportError:
        script = RENDEZVOUS
    arguments = ["--port=29500", *(["--wait-master-enabled"] if shutil.which("nc") else [])]
    command = (sys.executable, "-c", script)
    logs = run(cluster, namespace, {"pytorch": arguments}, task("master", 1, *command), task("worker", 2, *command))
    assert [log.splitlines()[-1] for log in logs.values()] == ["sum 3"] * 3


def test_tf_config_lets_all_tensorflow_tasks_connect_to_each_other(cluster: Cluster, namespace: str) -> None:
    command = (sys.executable, "-c", CLUSTER_SPEC)
    tasks = [task(name, replicas, *command) for name, replicas in (("ps", 1), ("worker", 2), ("chief", 1))]
    logs = run(cluster, namespace, {"tensorflow": ["--port=5000"]}, *tasks)
    assert list(logs.values()) == ["reached 4\n"] * 4


@pytest.mark.thirdparty
@pytest.mark.timeout(700)  # the first time it installs
def test_ray_runs_tasks_on_all_nodes_of_a_job_and_leaves_no_processes(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    python = installed("ray")
    (hook,) = blocks(PAGES["docs/reference/simulated-nodes.md"], "python")
    (tmp_path / "pod_address.py").write_text(hook)
    env = {"PATH": f"{python.parent}:/usr/bin:/bin", "PYTHONPATH": str(tmp_path), **RAY_VARIABLES}
    tasks = [task("head", 1, env=env), task("worker", 2, env=env)]
    for each in tasks:
        add_address(each, "POD_IP")
        each["template"]["spec"]["volumes"] = [{"name": "ray", "emptyDir": {}}]
        each["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "ray", "mountPath": "/tmp/ray"}]
    port, client_port = free_port(), free_port()  # Ray listens on the first at all addresses of the machine
    driver = f"export HEAD=ray://$VC_HEAD_HOSTS:{client_port}; exec python -c {shlex.quote(RAY)}"
    done = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    tasks.append(task("driver", 1, "sh", "-c", driver, env=env, policies=done))
    logs = run(cluster, namespace, {"ray": [f"--port={port}", f"--clientPort={client_port}"]}, *tasks, seconds=300)
    assert logs["j-driver-0"].splitlines()[-1] == "ran on all: True counted: [1, 2, 3]"
    wait_until(lambda: not processes_with(str(tmp_path)), "all processes of Ray to end")


@pytest.mark.thirdparty
@pytest.mark.timeout(700)  # the first time it installs
def test_mpirun_starts_one_rank_per_worker_and_ranks_communicate(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    python = installed("mpi")
    (tmp_path / "ranks.py").write_text(MPI)
    if HAS_LOGIN:
        server, login = ("sh", "-c", SSH_SERVER.format(sshd=SSHD)), f"{SSH} -p 2222 -o LogLevel=ERROR"
    else:
        (tmp_path / "login").write_text(f"#!{sys.executable}{WITHOUT_SSH_LOGIN}")
        (tmp_path / "login").chmod(0o755)
        server, login = (sys.executable, "-c", WITHOUT_SSH), str(tmp_path / "login")
    start = f"exec {python.with_name('mpirun')} --allow-run-as-root --host $MPI_HOST {python} {tmp_path}/ranks.py"
    done = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    launcher = task("master", 1, "sh", "-c", start, env={"PRTE_MCA_plm_ssh_agent": login}, policies=done)
    workers = task("worker", 2, *server)
    add_address(workers, "HOST_ADDRESS")
    plugins = {"mpi": ["--port=2222"], "svc": ["--wait-for-workers"], "ssh": ["--ssh-port=2222"]}
    log = run(cluster, namespace, plugins, launcher, workers)["j-master-0"]
    assert sorted(line for line in log.splitlines() if line.startswith("rank")) == [
        "rank 0 sum 1 on j-worker-0",
        "rank 1 sum 1 on j-worker-1",
    ]


@pytest.mark.skipif(not HAS_LOGIN, reason="a login by ssh needs sshd, ssh and root on this machine")
def test_mpi_launcher_logs_in_to_every_worker_by_ssh(cluster: Cluster, namespace: str) -> None:
    workers = task("worker", 2, "sh", "-c", SSH_SERVER.format(sshd=SSHD))
    add_address(workers, "HOST_ADDRESS")
    done = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    launcher = task("master", 1, "sh", "-c", SSH_LOGIN.format(ssh=SSH), policies=done)
    plugins = {"mpi": ["--port=2222"], "svc": ["--wait-for-workers"], "ssh": ["--ssh-port=2222"]}
    logs = run(cluster, namespace, plugins, launcher, workers)
    assert logs["j-master-0"].count("logged in\n") == 2
    assert "2 names of task worker resolve" in logs["j-master-0"]


def test_installed_third_party_job_plugin_annotates_pods_and_creates_its_config_map(cluster: Cluster, namespace: str) -> None:
    spec = {"schedulerName": "volcano", "plugins": {"stamp": ["--text=seen"]}, "tasks": [task("a", 1, "sleep", "60")]}
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    cluster.create(json.dumps(body), namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=create", "pod/j-a-0", "--timeout=60s")
    assert cluster.get("pod", "j-a-0", "-n", namespace)["metadata"]["annotations"]["example.com/stamp"] == "seen"
    stamp = cluster.get("configmap", "j-stamp", "-n", namespace)
    assert (stamp["data"], stamp["metadata"]["ownerReferences"][0]["name"]) == ({"text": "seen"}, "j")
