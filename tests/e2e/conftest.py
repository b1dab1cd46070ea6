"""The control plane that a run of the end-to-end tests uses, chosen by `--control-plane`."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane import build
from tests.e2e.support import workers
from tests.e2e.support.audit import Audit
from tests.e2e.support.cluster import FLAGS, Cluster, kubectl_is_there, running
from tests.e2e.support.server import real_server

NODES = 8
AUDIT = pytest.StashKey[Audit]()


def pytest_configure(config: pytest.Config) -> None:
    FLAGS.extend(["--no-place-before-pods"] if config.getoption("--bind-pods") else [])
    FLAGS.extend(["--one-pod-without-group"] if config.getoption("--one-pod-without-group") else [])


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--control-plane"))


@pytest.fixture(scope="session")
def cluster(control_plane: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One control plane with all services and simulated nodes, shared by the tests of a process."""
    with running(control_plane, tmp_path_factory.mktemp(control_plane), nodes=NODES) as cluster:
        request.config.stash[AUDIT] = cluster.audit
        yield cluster


@pytest.fixture
def bare(control_plane: str, tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a control plane of the test's own that has nothing of ours in it."""
    if control_plane == "real":
        with real_server(tmp_path / "bare") as server:
            yield server.kubeconfig
        return
    folder = tmp_path / "bare"
    command = [sys.executable, "-m", "pyroclast_standalone.apiserver", "--data-dir", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready ")
            yield folder / "kubeconfig"
        finally:
            process.terminate()


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own, deleted afterwards. All services run when the test begins."""
    cluster.wait_for_services()
    words = request.node.name.split("[")[0].removeprefix("test_").replace("_", "-")
    name = f"{words[:40].strip('-')}-{secrets.token_hex(3)}"
    cluster.make_namespace(name)
    yield name
    cluster.delete_namespace(name)


def pytest_sessionfinish(session: pytest.Session) -> None:
    workers.leave(session.config, session.config.stash.get(AUDIT, None))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what another run has tested and what needs a program that is not there, and order the rest."""
    items.sort(key=workers.rank_of)
    real = config.getoption("--control-plane") == "real"
    tested, left_out = (os.environ.get(f"PYROCLAST_{name}", "").split() for name in ("TESTED_BEFORE", "LEFT_OUT"))
    chosen = [
        item
        for item in items
        if (module := workers.module_of(item)) in left_out or (module in tested and "control_plane" not in item.fixturenames)
    ]
    config.hook.pytest_deselected(items=chosen)
    items[:] = [item for item in items if item not in chosen]
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if not {"cluster", "bare"} & set(fixtures):
            continue
        if not kubectl_is_there():
            item.add_marker(pytest.mark.skip(reason="kubectl is not on this machine"))
        elif real and build.missing(["etcd", "kube-apiserver", "kube-controller-manager"]):
            item.add_marker(pytest.mark.skip(reason="the real control plane is not built: `make control-plane` needs Go"))
