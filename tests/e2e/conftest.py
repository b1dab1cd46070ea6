"""The control plane that a run of the end-to-end tests uses, chosen by `--control-plane`."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane import build
from tests.control_plane.real import real_control_plane
from tests.e2e.cluster import Cluster, kubectl_is_there, started

NODES = 8


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--control-plane"))


@pytest.fixture(scope="session")
def cluster(control_plane: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One control plane with all services and simulated nodes, shared by the tests of a session."""
    folder = tmp_path_factory.mktemp(control_plane)
    data = ["--data-dir", str(folder / "data"), "--nodes", str(NODES)]
    if control_plane == "embedded":
        audit_log = folder / "audit.log"
        with started("embedded", folder / "data" / "kubeconfig", audit_log, [*data, "--audit-log", str(audit_log)]) as running:
            yield running
        return
    with (
        _real(folder / "real") as (kubeconfig, audit_log),
        started("real", kubeconfig, audit_log, [*data, "--kubeconfig", str(kubeconfig)]) as running,
    ):
        yield running


@contextlib.contextmanager
def _real(folder: Path) -> Iterator[tuple[Path, Path]]:
    """A real control plane, kept by an event loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    plane = real_control_plane(folder)
    try:
        running = asyncio.run_coroutine_threadsafe(plane.__aenter__(), loop).result()
        try:
            yield running.kubeconfig, running.audit_log
        finally:
            asyncio.run_coroutine_threadsafe(plane.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own, deleted afterwards."""
    words = request.node.name.split("[")[0].removeprefix("test_").replace("_", "-")
    name = f"{words[:40].strip('-')}-{secrets.token_hex(3)}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a program that is not there, and put last what judges the whole run."""
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)
    real = config.getoption("--control-plane") == "real"
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "cluster" not in fixtures:
            continue
        if not kubectl_is_there():
            item.add_marker(pytest.mark.skip(reason="kubectl is not on this machine"))
        elif real and build.missing(["etcd", "kube-apiserver", "kube-controller-manager"]):
            item.add_marker(pytest.mark.skip(reason="the real control plane is not built: `make control-plane` needs Go"))
