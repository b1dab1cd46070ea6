"""Churn: Jobs made, scaled and deleted while services, the API server and watches break. Judged from the audit log."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.faults.test_faults import SERVICES, phases
from tests.e2e.faults.test_shards import begin_replica
from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, KubectlError, wait_until
from tests.e2e.support.slow_network import SOURCES, SlowNetwork, port_of, slow_network

SECONDS = float(os.environ.get("CHURN_SECONDS", "1200"))
KILL_EVERY = 20.0
STEP_SECONDS = 1.0
AWAY_SECONDS = 2.0  # of the API server
ALIVE = 12  # Jobs at a time
GROWTH = 1.5  # of resident memory of a service that was not killed since, against its first third


@pytest.mark.soak
@pytest.mark.timeout(2100)
def test_jobs_survive_churn_while_services_api_server_and_watches_fail(cluster: Cluster, namespace: str) -> None:
    with two_shards(cluster) as shards:
        churn(cluster, namespace, shards)


def churn(cluster: Cluster, namespace: str, shards: Sequence[Shard]) -> None:
    rng = random.Random(1)
    names = (f"churn-{number}" for number in itertools.count())
    alive: dict[str, bool] = {}  # by name, whether it runs until it is deleted
    memory: dict[int, list[int]] = {}
    began = killed = time.monotonic()
    while time.monotonic() - began < SECONDS:
        name = next(names)
        alive[name] = is_long = rng.random() < 0.3
        create(cluster, namespace, elastic_job(name, "600" if is_long else str(rng.randint(1, 3)), rng.randint(1, 4)))
        if is_long and rng.random() < 0.5:
            scale(cluster, namespace, name, rng.randint(1, 6))
        if len(alive) > ALIVE:
            oldest = next(iter(alive))
            wanted = "Running" if alive.pop(oldest) else "Completed"
            wait_until(lambda: phase(cluster, namespace, oldest) == wanted, f"{oldest} to be {wanted}")  # noqa: B023
            cluster.kubectl("delete", "vcjob", oldest, "-n", namespace, "--wait=false")
        if time.monotonic() - killed > KILL_EVERY:
            rng.choice(faults(cluster, shards))()
            killed = time.monotonic()
        for shard in shards:
            shard.keep()
        for pid in (*cluster.pids.values(), *(shard.process.pid for shard in shards)):
            memory.setdefault(pid, []).append(resident_kib(pid))
        assert over_committed(cluster, namespace) == []
        time.sleep(STEP_SECONDS)
    for name in alive:
        cluster.kubectl("delete", "vcjob", name, "-n", namespace, "--wait=false", "--ignore-not-found")
    wait_until(lambda: not phases(cluster, namespace), "all Jobs to be gone", seconds=120)
    kinds = "pods,podgroups.scheduling.volcano.sh"
    wait_until(lambda: not cluster.get(kinds, "-n", namespace)["items"], "all pods and PodGroups to be gone", seconds=120)
    assert pods_created_twice_in_one_life(cluster, namespace) == []
    for samples in memory.values():
        if len(samples) > 120:
            third = len(samples) // 3
            assert max(samples[-third:]) < GROWTH * max(samples[:third])


class Shard:
    """A replica of the job controller that is started again when it ends, on a network of its own."""

    def __init__(self, cluster: Cluster, network: SlowNetwork) -> None:
        self.network = network
        self._cluster = cluster
        self.process = self._begin()

    def keep(self) -> None:
        if self.process.poll() is not None:
            self.process = self._begin()

    def _begin(self) -> subprocess.Popen[bytes]:
        return begin_replica(self._cluster, server=f"https://127.0.0.1:{self.network.port}")


@contextlib.contextmanager
def two_shards(cluster: Cluster) -> Iterator[Sequence[Shard]]:
    """Two replicas of the job controller with two shards, instead of the one that there is."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(cluster.standing_aside("job-controller"))
        networks = [stack.enter_context(slow_network(port_of(cluster.kubeconfig), source)) for source in SOURCES]
        shards = [Shard(cluster, network) for network in networks]
        try:
            yield shards
        finally:
            for shard in shards:
                shard.process.kill()
                shard.process.wait()


def faults(cluster: Cluster, shards: Sequence[Shard]) -> list[Callable[[], object]]:
    """What may break."""
    services = [partial(cluster.kill, service) for service in SERVICES if service != "job-controller"]
    broken: list[Callable[[], object]] = [*services, partial(cluster.outage, AWAY_SECONDS)]
    return broken + [each for shard in shards for each in (shard.process.kill, shard.network.cut)]


def over_committed(cluster: Cluster, namespace: str) -> list[str]:
    """Pods that their node sent away for want of room."""
    pods = cluster.get("pods", "-n", namespace)["items"]
    return [pod["metadata"]["name"] for pod in pods if str(pod.get("status", {}).get("reason", "")).startswith("OutOf")]


def elastic_job(name: str, seconds: str, replicas: int) -> str:
    """A Job that runs with any number of its pods."""
    manifest = json.loads(job(name, command=["sleep", seconds], replicas=replicas, min_available=1))
    manifest["spec"]["tasks"][0]["minAvailable"] = 1
    return json.dumps(manifest)


def phase(cluster: Cluster, namespace: str, name: str) -> str:
    return cluster.kubectl("get", "vcjob", name, "-n", namespace, "-o", "jsonpath={.status.state.phase}")


def create(cluster: Cluster, namespace: str, manifest: str) -> None:
    """Create it as soon as the webhooks answer; they are among what is killed."""
    wait_until(lambda: taken(cluster, "create", "-n", namespace, "-f", "-", stdin=manifest), "the Job to be taken")


def scale(cluster: Cluster, namespace: str, name: str, replicas: int) -> None:
    patch = json.dumps([{"op": "replace", "path": "/spec/tasks/0/replicas", "value": replicas}])
    wait_until(
        lambda: taken(cluster, "patch", "vcjob", name, "-n", namespace, "--type=json", "-p", patch), "the Job to be scaled"
    )


def taken(cluster: Cluster, *arguments: str, stdin: str | None = None) -> bool:
    """Whether kubectl had success, now or at an earlier try; False when no webhook answered.

    Raises:
        KubectlError: the request is refused.
    """
    try:
        cluster.kubectl(*arguments, stdin=stdin)
    except KubectlError as error:
        if "failed calling webhook" in error.stderr:
            return False
        if "already exists" not in error.stderr:
            raise
    return True


def pods_created_twice_in_one_life(cluster: Cluster, namespace: str) -> list[str]:
    """Pods of a name that was created again without having been deleted between."""
    alive: Counter[str] = Counter()
    doubled = []
    for event in cluster.audit.events():
        reference = event.get("objectRef") or {}
        if reference.get("resource") != "pods" or reference.get("subresource") or reference.get("namespace") != namespace:
            continue
        name, code = reference.get("name", ""), event["responseStatus"]["code"]
        if event["verb"] == "create" and code == 201 and "dryRun" not in event["requestURI"]:
            alive[name] += 1
            if alive[name] > 1:
                doubled.append(name)
        elif event["verb"] == "delete" and code == 200:
            alive[name] = 0
    return doubled


def resident_kib(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
