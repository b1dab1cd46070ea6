"""Two shards on changing processes: one is killed, one is stopped for a while and one is started while Jobs are being made."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.e2e.faults.test_faults import phases, pods_created_twice, submit
from tests.e2e.support.cluster import Cluster, wait_until

JOBS = 40
LEASE = "vc-sharded"
SECONDS = {"lease-duration": 4, "renew-deadline": 3, "retry-period": 1}


def begin_replica(cluster: Cluster, *, server: str = "") -> subprocess.Popen[bytes]:
    """A job controller that leads what shards it can get of two; `server` is the API server's URL if not the usual one."""
    flags = [f"--leader-elect-{name}={seconds}s" for name, seconds in SECONDS.items()]
    command = [sys.executable, "-m", "pyroclast_job_controller", f"--kubeconfig={cluster.kubeconfig}", *flags]
    command += [
        "--leader-elect-resource-namespace=pyroclast-system",
        "--leader-elect-shards=2",
        f"--leader-elect-resource-name={LEASE}",
    ]
    command += [f"--master={server}"] if server else []
    with (cluster.data / f"sharded-{time.monotonic_ns()}.log").open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


@contextlib.contextmanager
def replica(cluster: Cluster) -> Iterator[subprocess.Popen[bytes]]:
    """One that ends with the block."""
    with begin_replica(cluster) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            process.kill()


def holders(cluster: Cluster) -> list[str]:
    items = cluster.get("leases", "-n", "pyroclast-system")["items"]
    mine = [item for item in items if item["metadata"]["name"].startswith(f"{LEASE}-")]
    return [item["spec"].get("holderIdentity") or "" for item in mine]


@pytest.mark.timeout(600)
def test_jobs_complete_without_duplicate_pods_when_shards_change_their_controller(cluster: Cluster, namespace: str) -> None:
    with cluster.standing_aside("job-controller"), replica(cluster) as first, replica(cluster) as second:
        wait_until(lambda: len(set(filter(None, holders(cluster)))) == 2, "each replica to lead a shard", seconds=60)
        submit(cluster, namespace, JOBS // 2)
        wait_until(lambda: phases(cluster, namespace)["Pending"] >= 3, "some Jobs to be begun")
        first.kill()
        submit(cluster, namespace, JOBS // 2, prefix="late")
        with replica(cluster):
            wait_until(lambda: phases(cluster, namespace)["Completed"] >= JOBS // 2, "half of the Jobs to complete", seconds=120)
            os.kill(second.pid, signal.SIGSTOP)
            time.sleep(SECONDS["lease-duration"] + 1)
            os.kill(second.pid, signal.SIGCONT)
            wait_until(lambda: phases(cluster, namespace) == {"Completed": JOBS}, "all Jobs to complete", seconds=120)
    assert pods_created_twice(cluster, namespace) == []
