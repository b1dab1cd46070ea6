"""Two users of one machine: `pyroclast up --multi-user`, each with an account, a namespace and a kubeconfig."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.cluster import Cluster, started, wait_until

GPUS = [Path(f"/dev/nvidia{number}") for number in range(2)]
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("useradd") is None or any(gpu.exists() for gpu in GPUS),
    reason="this needs root, useradd, and a machine without GPUs",
)


@dataclass
class User:
    """An account of this machine, and the cluster as this user reaches it."""

    name: str
    cluster: Cluster

    def submit(self, name: str, script: str, *, volumes: list[dict[str, Any]] | None = None, **resources: str) -> None:
        container = {"name": "main", "image": "any", "command": ["sh", "-c", script], "resources": {"limits": resources}}
        if volumes:
            container["volumeMounts"] = [{"name": each["name"], "mountPath": f"/data/{each['name']}"} for each in volumes]
        template = {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": volumes or []}}
        spec = {"maxRetry": 1, "minAvailable": 1, "tasks": [{"name": "main", "replicas": 1, "template": template}]}
        job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(job))

    def pod(self, name: str) -> dict[str, Any]:
        pods = self.cluster.get("pods", "-n", self.name)["items"]
        return next((pod for pod in pods if pod["metadata"]["name"] == f"{name}-main-0"), {"status": {}})

    def runs(self, name: str) -> None:
        wait_until(lambda: self.pod(name)["status"].get("phase") == "Running", f"{name} runs")

    def ends(self, name: str) -> dict[str, Any]:
        wait_until(lambda: self.pod(name)["status"].get("phase") in ("Succeeded", "Failed"), f"the end of {name}")
        return self.pod(name)["status"]

    def prints(self, name: str, script: str, **options: Any) -> list[str]:
        self.submit(name, script, **options)
        self.ends(name)
        return self.cluster.kubectl("logs", f"{name}-main-0").splitlines()


def admin(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pyroclast_standalone", *words, "--data-dir", str(cluster.data)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[User, User]]:
    """Two users of a machine with two GPUs, whose device files can be told by their text."""
    folder = tmp_path_factory.mktemp("machine")
    folder.parent.chmod(0o755)
    smi = folder / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho GPU-zero, Fake, 00000000:01:00.0\necho GPU-one, Fake, 00000000:02:00.0\n")
    smi.chmod(0o755)
    names = [f"pyro{which}{secrets.token_hex(3)}" for which in "ab"]
    try:
        for gpu in GPUS:
            gpu.write_text(f"{gpu.name}\n")
            gpu.chmod(0o666)
        for name in names:
            subprocess.run(["useradd", "-m", name], check=True)
            Path("/home", name).chmod(0o755)
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
            arguments = ["--data-dir", str(folder / "data"), "--multi-user"]
            with started("embedded", folder / "data/kubeconfig", folder / "no.log", arguments) as cluster:
                for name in names:
                    done = admin(cluster, "user", "add", name)
                    assert done.returncode == 0, done.stderr
                files = [Path("/home", name, ".kube/config") for name in names]
                alice, bob = (User(n, replace(cluster, kubeconfig=f)) for n, f in zip(names, files, strict=True))
                yield alice, bob
                for user in (alice, bob):
                    user.cluster.reader.close()
    finally:
        for name in names:
            subprocess.run(["userdel", "-r", name], check=False, capture_output=True)
        for gpu in GPUS:
            gpu.unlink(missing_ok=True)


def test_pods_run_under_the_account_of_who_submitted_them(users: tuple[User, User]) -> None:
    for user in users:
        script = "id -un; echo $HOME $OMP_NUM_THREADS; cat /etc/shadow 2>&1; touch /data/mine/x && echo mine"
        printed = user.prints("who", script, volumes=[{"name": "mine", "emptyDir": {}}], cpu="1")
        assert printed == [user.name, f"/home/{user.name} 1", "cat: /etc/shadow: Permission denied", "mine"]


def test_a_user_reaches_no_files_pods_or_logs_of_another(users: tuple[User, User]) -> None:
    alice, bob = users
    home = Path("/home", alice.name)
    (home / "private/open").mkdir(parents=True)
    (home / "private").chmod(0o700)
    (home / "private/open/secret").write_text("secret")
    alice.submit("long", "echo secret; sleep 600", volumes=[{"name": "scratch", "emptyDir": {}}])
    alice.runs("long")
    # a mount does not lead past a folder that only alice may enter
    host = {"name": "host", "hostPath": {"path": f"{home}/private/open"}}
    said = bob.prints("look", "cat /data/host/secret", volumes=[host])
    assert said == [f"cannot start: volume {str(home).lstrip('/')}/private/open: Permission denied"]
    uid = alice.pod("long")["metadata"]["uid"]
    data = alice.cluster.data
    script = (
        f"cat {data}/nodes/pods/{uid}/containers/main/0/log; ls {data}/nodes/pods/{uid}/volumes/scratch; pkill -f 'sleep 600'"
    )
    printed = bob.prints("peep", script)
    assert all("Permission denied" in line or "Operation not permitted" in line for line in printed), printed
    assert "forbidden" in bob.cluster.refused("delete", "pod", "long-main-0", "-n", alice.name)
    assert "forbidden" in bob.cluster.refused("logs", "long-main-0", "-n", alice.name)
    node = bob.cluster.get("nodes")["items"][0]["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    url = f"https://127.0.0.1:{node}/containerLogs/{alice.name}/long-main-0/main"
    done = subprocess.run(["curl", "-sk", "--max-time", "10", url], capture_output=True, text=True, check=False)
    assert "secret" not in done.stdout
    assert alice.cluster.kubectl("logs", "long-main-0") == "secret\n"
    assert alice.pod("long")["status"]["phase"] == "Running"


def test_servers_of_the_machine_answer_no_user_without_a_token(users: tuple[User, User]) -> None:
    addresses = json.loads((users[0].cluster.data / "addresses.json").read_text())
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"http://{addresses['scheduler']}/explain/queues/default", timeout=10)
    done = subprocess.run(
        [sys.executable, "-m", "pyroclast_cli", "explain", "queue/default"],
        env={**os.environ, "KUBECONFIG": str(users[0].cluster.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "token" not in done.stdout + done.stderr


def test_gpus_are_exclusive_and_another_users_gpu_cannot_be_opened(users: tuple[User, User]) -> None:
    alice, bob = users
    alice.submit("hold", "sleep 600", **{"nvidia.com/gpu": "1"})
    alice.runs("hold")
    script = "echo $CUDA_VISIBLE_DEVICES; cat /dev/nvidia0; cat /dev/nvidia1"
    printed = bob.prints("take", script, **{"nvidia.com/gpu": "1"})
    assert printed == ["GPU-one", "cat: /dev/nvidia0: Permission denied", "nvidia1"]
    nodes = bob.cluster.get("nodes")["items"][0]
    assert nodes["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    none = bob.prints("none", "echo visible $CUDA_VISIBLE_DEVICES; cat /dev/nvidia1")
    assert none == ["visible", "cat: /dev/nvidia1: Permission denied"]
    alice.cluster.kubectl("delete", "vcjob", "hold")
    both = bob.prints("both", "echo $CUDA_VISIBLE_DEVICES", **{"nvidia.com/gpu": "2"})
    assert both == ["GPU-zero,GPU-one"]


def test_a_pod_above_its_memory_limit_is_killed_as_on_a_cluster(users: tuple[User, User]) -> None:
    user = users[0]
    user.submit("much", "python3 -c 'bytearray(300_000_000)'", memory="64Mi")
    end = user.ends("much")["containerStatuses"][0]["state"]["terminated"]
    assert (end["exitCode"], end["reason"]) == (137, "OOMKilled")


def test_who_submitted_a_pod_cannot_be_forged(users: tuple[User, User]) -> None:
    """Bob may create pods in a namespace of both, and copies the owner and the annotations of a pod of alice."""
    alice, bob = users
    cluster = replace(bob.cluster, kubeconfig=bob.cluster.data / "kubeconfig")
    rule = {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["*"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "all"}, "rules": [rule]}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(role))
    cluster.kubectl("create", "rolebinding", "bob", "-n", alice.name, "--clusterrole=all", f"--user={bob.name}")
    alice.submit("origin", "sleep 600")
    alice.runs("origin")
    metadata = alice.pod("origin")["metadata"]
    assert metadata["annotations"]["pyroclast.dev/created-by"].startswith("system:serviceaccount:pyroclast-system:")
    kept = {"ownerReferences": metadata["ownerReferences"], "annotations": metadata["annotations"]}
    container = {"name": "main", "image": "any", "command": ["id", "-un"]}
    spec = {"nodeName": alice.pod("origin")["spec"]["nodeName"], "restartPolicy": "Never", "containers": [container]}
    forged = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "forged-main-0", **kept}, "spec": spec}
    bob.cluster.kubectl("create", "-n", alice.name, "-f", "-", stdin=json.dumps(forged))
    status = alice.ends("forged")
    assert alice.cluster.kubectl("logs", "forged-main-0") == f"{bob.name}\n", status
    unknown = json.dumps({**forged, "metadata": {"name": "unknown-main-0", "annotations": {}}})
    cluster.kubectl("create", "-n", alice.name, "-f", "-", "--as=nobody-here", "--as-group=system:masters", stdin=unknown)
    refused = alice.ends("unknown")
    assert refused["reason"] == "UnknownUser"
    assert 'user "nobody-here" submitted it, and this machine has no account of that name' in refused["message"]
    cluster.reader.close()
