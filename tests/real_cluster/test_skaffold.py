"""`skaffold run`, `dev` and `delete` on real nodes: images by buildah, and a changed Python file that reaches the running pod.

skaffold is used if it is in the cache: to build it takes many minutes (`python -m tests.control_plane build skaffold`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.control_plane import build
from tests.real_cluster import images
from tests.real_cluster.conftest import Cluster
from tests.real_cluster.seen import ROOT, wait_for

pytestmark = [
    pytest.mark.skipif(bool(build.missing(["skaffold"])), reason="skaffold is not in the cache"),
    pytest.mark.skipif(shutil.which("podman") is None, reason="there is no podman to answer skaffold in place of docker"),
]
_SYSTEM = "--namespace=pyroclast-system"


class Skaffold:
    """skaffold with a copy of the checkout, in which tests change files."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.checkout = folder / "checkout"
        self.checkout.mkdir()
        copy = f"git ls-files -coz --exclude-standard | tar -c --null --ignore-failed-read -T - | tar -x -C {self.checkout}"
        subprocess.run(["bash", "-c", copy], cwd=ROOT, check=True)
        self.socket = folder / "podman.sock"
        path = f"{build.program('helm').parent}:{os.environ['PATH']}"
        load = f"{sys.executable} -m tests.real_cluster load --dir {cluster.kubeconfig.parent}"
        flags = f"--storage-driver overlay --isolation chroot --network host --pull-never --build-arg PYTHON={images.PYTHON}"
        self._environment = {
            **os.environ,
            "PATH": path,
            "KUBECONFIG": str(cluster.kubeconfig),
            "HOME": str(folder),  # skaffold keeps what it knows there
            "SKAFFOLD_UPDATE_CHECK": "false",
            "SKAFFOLD_INTERACTIVE": "false",
            "DOCKER_HOST": f"unix://{self.socket}",
            "BUILD_FLAGS": flags,
            "LOAD_IMAGE": f"env PYTHONPATH={ROOT} {load}",
        }

    @contextlib.contextmanager
    def started(self, verb: str, *options: str) -> Iterator[IO[str]]:
        """What a skaffold prints that goes on until it is ended."""
        command = [str(build.program("skaffold")), verb, "--profile=buildah", *options]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen(command, cwd=self.checkout, env=self._environment, **streams) as process:
            assert process.stdout is not None
            try:
                yield process.stdout
            finally:
                process.terminate()

    def run(self, verb: str, *options: str) -> str:
        """Run a verb to its end, and return what it prints."""
        with self.started(verb, *options) as out:
            return out.read()


@pytest.fixture(scope="module")
def skaffold(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Skaffold]:
    images.project_images()  # their layers are those that skaffold needs
    cluster.uninstall()
    found = Skaffold(cluster, tmp_path_factory.mktemp("skaffold"))
    serve = ["podman", "--storage-driver", "overlay", "system", "service", "--time=0", f"unix://{found.socket}"]
    with subprocess.Popen(serve) as service:
        try:
            yield found
        finally:
            service.terminate()


def test_skaffold_dev_carries_a_changed_python_file_into_the_running_pod(cluster: Cluster, skaffold: Skaffold) -> None:
    package = "pyroclast_jobflow_controller/__init__.py"
    asked = (
        "exec",
        _SYSTEM,
        "deployment/pyroclast-jobflow",
        "--",
        "cat",
        f"/opt/pyroclast/lib/python3.13/site-packages/{package}",
    )
    with skaffold.started("dev", "--port-forward=off", "--tail=false") as out:
        said = _until(out, "Watching for changes")
        pods = cluster.get("pods", _SYSTEM, "--selector=app.kubernetes.io/instance=pyroclast")
        with (skaffold.checkout / "services" / package).open("a") as file:
            file.write('\nCHANGED = "seen"\n')
        said += _until(out, "Watching for changes")
        assert 'CHANGED = "seen"' in cluster.kubectl(*asked)
        wait_for(
            lambda: "files changed" in cluster.kubectl("logs", _SYSTEM, "deployment/pyroclast-jobflow"),
            "the program to start anew",
        )
        assert _names(cluster.get("pods", _SYSTEM, "--selector=app.kubernetes.io/instance=pyroclast")) == _names(pods)
    assert "Syncing" in said


def test_skaffold_run_installs_a_release_that_works_and_delete_removes_it(cluster: Cluster, skaffold: Skaffold) -> None:
    said = skaffold.run("run", "--tail=false")
    assert "pyroclast" in cluster.helm("list", "--all-namespaces", "--short").split(), said
    assert "Phase:          Succeeded" in cluster.helm("test", "pyroclast", _SYSTEM)
    said = skaffold.run("delete")
    assert "pyroclast" not in cluster.helm("list", "--all-namespaces", "--short").split(), said


def _until(out: IO[str], words: str) -> str:
    said = ""
    for line in out:
        said += line
        if words in line:
            return said
    raise AssertionError(f"skaffold ended:\n{said[-6000:]}")


def _names(pods: list[dict]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}
