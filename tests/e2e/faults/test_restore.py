"""The API server is brought back to what it held a while ago, as from a backup: all converges, and nothing is done twice."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyroclast_standalone.processes import free_port
from tests.e2e.faults.test_faults import phases, pods_created_twice
from tests.e2e.jobs.test_first_light import job
from tests.e2e.observability.test_history import ask
from tests.e2e.support.cluster import Cluster, kubectl_is_there, started, wait_until
from tests.e2e.support.server import RealServer, real_server

NODES = 4
DOWN_SECONDS = 2.0
"""No restore is faster; who does not notice that the API server was away cannot tell that it was restored."""


@dataclass(frozen=True, slots=True)
class Restorable:
    """A control plane. `offline(work)` stops it, does `work` on the folder of its data, and starts it again."""

    kubeconfig: Path
    audit_log: Path
    data: Path
    offline: Callable[[Callable[[], object]], None]

    def save(self) -> None:
        """Keep a copy of what it holds."""
        self.offline(lambda: shutil.copytree(self.data, self._backup))

    def restore(self) -> None:
        """Hold again what `save` kept."""

        def replace() -> None:
            shutil.rmtree(self.data)
            shutil.copytree(self._backup, self.data)

        self.offline(replace)

    @property
    def _backup(self) -> Path:
        return self.data.with_name("backup")


@contextlib.contextmanager
def real(folder: Path) -> Iterator[Restorable]:
    with real_server(folder) as server:
        plane = server.plane

        def offline(work: Callable[[], object]) -> None:
            server.do(_offline(server, work))

        yield Restorable(server.kubeconfig, server.audit_log, plane.directory / "etcd", offline)


async def _offline(server: RealServer, work: Callable[[], object]) -> None:
    plane = server.plane
    await plane.controller_manager.stop()
    await plane.apiserver.stop()
    await plane.etcd.stop()
    await asyncio.to_thread(work)
    await asyncio.sleep(DOWN_SECONDS)
    await plane.etcd.start()
    await plane.apiserver.start()
    await plane.controller_manager.start()


@contextlib.contextmanager
def embedded(folder: Path) -> Iterator[Restorable]:
    folder.mkdir()
    data, audit_log, port = folder / "data", folder / "audit.log", free_port()
    command = [sys.executable, "-m", "pyroclast_standalone.apiserver", "--port", str(port), "--data-dir", str(data)]

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen([*command, "--audit-log", str(audit_log)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        return process

    def stop(process: subprocess.Popen[str]) -> None:
        process.terminate()
        process.communicate(timeout=30)

    running = [start()]

    def offline(work: Callable[[], object]) -> None:
        stop(running.pop())
        work()
        time.sleep(DOWN_SECONDS)
        running.append(start())

    yield Restorable(data / "kubeconfig", audit_log, data, offline)
    stop(running.pop())


@pytest.mark.timeout(600)
def test_services_converge_after_the_api_server_is_restored_from_a_backup(control_plane: str, tmp_path: Path) -> None:
    if not kubectl_is_there():
        pytest.skip("kubectl is not on this machine")
    with (real if control_plane == "real" else embedded)(tmp_path / "server") as plane:
        data = ["--data-dir", str(tmp_path / "data"), "--kubeconfig", str(plane.kubeconfig), "--nodes", str(NODES)]
        with started(control_plane, plane.kubeconfig, plane.audit_log, data) as cluster:
            check(plane, cluster)


def check(plane: Restorable, cluster: Cluster) -> None:
    submit(cluster, "steady", seconds=25)
    submit(cluster, "deleted", seconds=25)
    wait_until(lambda: phases(cluster, "default") == {"Running": 2}, "both Jobs to run")
    plane.save()
    wait_until(lambda: cluster.get("vcjob", "steady", "-n", "default"), "the API server to answer")
    cluster.kubectl("delete", "vcjob", "deleted")
    submit(cluster, "lost", seconds=1)
    cluster.kubectl("wait", "--for=jsonpath={.status.state.phase}=Completed", "vcjob/lost", "--timeout=60s")
    before = sum(1 for _ in cluster.audit.events())
    plane.restore()
    wait_until(lambda: {name_of(each) for each in items(cluster, "vcjob")} == {"deleted", "steady"}, "the Jobs of the backup")
    submit(cluster, "new", seconds=1)
    wait_until(lambda: phases(cluster, "default") == {"Completed": 3}, "all Jobs to complete", seconds=180)
    assert {name_of(each) for each in items(cluster, "podgroup")} <= {f"{name}-{uid}" for name, uid in uids(cluster).items()}
    assert {pod["metadata"]["labels"]["volcano.sh/job-name"] for pod in items(cluster, "pod")} == {"deleted", "new", "steady"}
    assert pods_created_twice(cluster, "default", since=before) == []
    # a leader may have ended meanwhile; who comes after it does not know
    logs = [log.read_text() for log in (cluster.data / "logs").iterdir()]
    assert any('"informer.objects_gone"' in log and "default/lost" in log for log in logs)
    wait_until(lambda: ends_in_history(cluster) == {"deleted", "lost", "new", "steady"}, "the recorder to know all of them")
    assert ask(cluster, "usage", namespace="default")["gapSeconds"] > 0, "the recorder tells that it could not see all"


def ends_in_history(cluster: Cluster) -> set[str]:
    """The Jobs of which the recorder knows that they ended."""
    items = ask(cluster, "jobs", namespace="default")["items"]
    return {each["name"] for each in items if each["state"] in {"Completed", "Removed"}}


def submit(cluster: Cluster, name: str, *, seconds: int) -> None:
    cluster.create(job(name, command=["sleep", str(seconds)], replicas=2))


def items(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    return list(cluster.get(kind, "-n", "default")["items"])


def name_of(found: dict[str, Any]) -> str:
    return str(found["metadata"]["name"])


def uids(cluster: Cluster) -> dict[str, str]:
    return {name_of(each): str(each["metadata"]["uid"]) for each in items(cluster, "vcjob")}
