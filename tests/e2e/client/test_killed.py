"""A client that is killed while it submits: the same submission again finds what is there, and makes what lacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.slow_network import SOURCES, SlowNetwork, port_of, slow_network

pytestmark = pytest.mark.timeout(600)  # they start many processes

PROGRAM = """
import sys
import pyroclast.client as pc
from pyroclast_client import asynchronous

def stopping(step, before):
    async def stop(*given, **named):
        print(step, flush=True)
        sys.stdin.readline()
        return await before(*given, **named)
    return stop

if len(sys.argv) > 2:
    setattr(asynchronous, sys.argv[2], stopping(sys.argv[2], getattr(asynchronous, sys.argv[2])))

@pc.task
def divided(a: int, b: int) -> float:
    return a / b

with pc.Client(namespace=sys.argv[1], image="local") as client:
    client.asynchronous.python = sys.executable
    client.jobs()  # there is a connection, whose handshake a mute network does not break
    job = client.submit(divided.call(8, 2), name="once")
    print(job.uid, job.result())
"""


@pytest.fixture(scope="module")
def cluster(process_nodes: Cluster) -> Cluster:
    return process_nodes


@pytest.fixture
def network(cluster: Cluster) -> Iterator[SlowNetwork]:
    with slow_network(port_of(cluster.kubeconfig), SOURCES[0]) as network:
        yield network


def started(folder: Path, kubeconfig: Path, *arguments: str) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(PROGRAM)
    variables = {**os.environ, "KUBECONFIG": str(kubeconfig), "XDG_STATE_HOME": str(folder / "state")}
    command = [sys.executable, str(folder / "program.py"), *arguments]
    return subprocess.Popen(command, env=variables, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def through(network: SlowNetwork, cluster: Cluster, folder: Path) -> Path:
    """A kubeconfig whose requests go through the network."""
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    for each in document["clusters"]:
        each["cluster"]["server"] = f"https://127.0.0.1:{network.port}"
    (folder / "kubeconfig").write_text(json.dumps(document))
    return folder / "kubeconfig"


def has_secret(cluster: Cluster, namespace: str) -> bool:
    return bool(cluster.get("secrets", "-n", namespace)["items"])


def has_job(cluster: Cluster, namespace: str) -> bool:
    return bool(cluster.get("vcjob", "-n", namespace)["items"])


def has_owner(cluster: Cluster, namespace: str) -> bool:
    return all(item["metadata"].get("ownerReferences") for item in cluster.get("secrets", "-n", namespace)["items"])


@pytest.mark.parametrize(
    ("step", "answer_is_lost_of"),
    [
        pytest.param("make_secret", has_secret, id="before the answer for the Secret"),
        pytest.param("create_job", None, id="after the Secret"),
        pytest.param("create_job", has_job, id="before the answer for the Job"),
        pytest.param("give_to", None, id="after the Job"),
        pytest.param("give_to", has_owner, id="before the answer that the Job owns the Secret"),
    ],
)
def test_repeated_submission_of_a_killed_client_yields_one_job_that_owns_one_secret(
    cluster: Cluster,
    network: SlowNetwork,
    namespace: str,
    tmp_path: Path,
    step: str,
    answer_is_lost_of: Callable[[Cluster, str], bool] | None,
) -> None:
    with started(tmp_path, through(network, cluster, tmp_path), namespace, step) as killed:
        assert killed.stdout is not None
        assert killed.stdin is not None
        assert killed.stdout.readline() == f"{step}\n"
        if answer_is_lost_of is not None:
            network.is_mute = True
            killed.stdin.write("\n")
            killed.stdin.flush()
            wait_until(lambda: answer_is_lost_of(cluster, namespace), "the server to have done what the client asks for")
        killed.kill()
    assert killed.returncode < 0
    for _ in range(2):
        with started(tmp_path, cluster.kubeconfig, namespace) as again:
            said, _ = again.communicate(timeout=200)
        assert again.returncode == 0
        (job,) = cluster.get("vcjob", "-n", namespace)["items"]
        assert said.split() == [job["metadata"]["uid"], "4.0"]
        (secret,) = cluster.get("secrets", "-n", namespace)["items"]
        assert [owner["uid"] for owner in secret["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
