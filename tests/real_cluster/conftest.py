"""One cluster of three real nodes for all tests of this folder, with Pyroclast installed as the production page says.

The tests run only by `make test-cluster`. `PYROCLAST_CLUSTER=DIR` uses a cluster that runs already.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane import build
from tests.real_cluster import images
from tests.real_cluster.cluster import Access, obstacle
from tests.real_cluster.node import Node
from tests.real_cluster.seen import ROOT, wait_for

collect_ignore_glob = [] if os.environ.get("PYROCLAST_REAL_CLUSTER") else ["test_*.py"]
_PAGE = ROOT / "docs/how-to/install-for-production.md"
_START_SECONDS = 1500  # with programs and images that must be built first
_SMALL = """
custom:
  scheduler_resources: {requests: {cpu: 50m, memory: 128Mi}}
  controller_resources: {requests: {cpu: 50m, memory: 128Mi}}
"""


class Cluster(Access):
    """The cluster as tests use it: the administrator's tools, and the power switches of the nodes."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "kubeconfig")
        self.nodes = {f"node-{index}": Node(index, directory / f"node-{index}") for index in (1, 2, 3)}

    def uninstall(self) -> None:
        """Uninstall the release, if there is one."""
        if "pyroclast" in self.helm("list", "--all", "--all-namespaces", "--short").split():
            self.helm("uninstall", "pyroclast", "--namespace=pyroclast-system", "--wait", "--timeout=5m")

    def load(self, name: str) -> None:
        """Give all nodes one of the large images."""
        for node in self.nodes.values():
            node.load(images.image(name))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster of three nodes, with the images of this checkout."""
    if running := os.environ.get("PYROCLAST_CLUSTER"):
        yield Cluster(Path(running).absolute())
        return
    if reason := obstacle():
        pytest.skip(f"no real cluster can run here: {reason}")
    directory = Path(tempfile.mkdtemp(prefix="pyroclast-cluster-"))
    command = [sys.executable, "-m", "tests.real_cluster", "up", "--ours", "--dir", str(directory)]
    log = directory / "up.log"
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)
    try:
        wait_for(lambda: "ready KUBECONFIG" in log.read_text() or process.poll() is not None, "the cluster", _START_SECONDS)
        assert process.poll() is None, log.read_text()[-4000:]
        yield Cluster(directory)
    finally:
        process.terminate()
        process.wait(120)
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def built_images() -> Path:
    """The archive of the images of this checkout."""
    return images.project_images()


class Release:
    """The helm release, installed by the commands of the page for production."""

    def __init__(self, cluster: Cluster, archive: Path) -> None:
        self.cluster, self._archive = cluster, archive
        self._folder = cluster.kubeconfig.parent
        (self._folder / "small.yaml").write_text(_SMALL)
        self.said = ""
        """What the commands of the page printed."""
        self.warnings: list[str] = []
        """The Warning events of an installation from an empty cluster, but those about the pods of other programs."""

    def follow_page(self) -> None:
        """Run the commands of the page one after the other, on a cluster without a release. Only nobody pushes an image."""
        for node in self.cluster.nodes.values():
            _name_images(node, self._archive)
        values = self._folder / "values.yaml"
        values.unlink(missing_ok=True)
        before = {each["metadata"]["uid"] for each in self.cluster.get("events", "--all-namespaces")}
        blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
        path = f"{build.program('helm').parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "KUBECONFIG": str(self.cluster.kubeconfig)}
        for language, indented in blocks:
            block = textwrap.dedent(indented)
            if language == "yaml":  # the first is what the page installs
                if not values.exists():
                    values.write_text(block)
            elif "docker" not in block:
                block = block.replace("-f values.yaml", f"-f {values}")
                done = subprocess.run(
                    ["bash", "-exc", block], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600
                )
                self.said += done.stdout
                assert done.returncode == 0, f"{block}{done.stdout}{done.stderr}"
        events = [each for each in self.cluster.get("events", "--all-namespaces") if each["metadata"]["uid"] not in before]
        self.warnings = [each["message"] for each in events if _is_our_warning(each)]
        self.cluster.kubectl("delete", "-f", "examples/mpi.yaml")

    def upgrade(self, *changes: str) -> None:
        """Upgrade it to the values of the page, small requests and `changes`."""
        values = [f"--values={self._folder}/{name}.yaml" for name in ("values", "small")]
        sets = [option for change in changes for option in ("--set", change)]
        place = ("--namespace=pyroclast-system", "--wait", "--timeout=5m")
        self.cluster.helm("upgrade", "--install", "pyroclast", "charts/pyroclast", *values, *sets, *place)


def _name_images(node: Node, archive: Path) -> None:
    """Give a node the images with the names that the page gives them."""
    ours = [f"{images.REPOSITORY}/{target}:{archive.stem}" for target in images.TARGETS]
    if not set(ours) <= set(node.enter("ctr", "-n", "k8s.io", "images", "ls", "-q").split()):
        node.load(archive)
    for target, name in zip(images.TARGETS, ours, strict=True):
        node.enter("ctr", "-n", "k8s.io", "images", "tag", "--force", name, f"registry.example.org/pyroclast/{target}:0.1.0")


def _is_our_warning(event: dict[str, Any]) -> bool:
    source = event["reportingComponent"]
    is_ours = source.startswith("pyroclast") or "volcano" in source or event["metadata"]["namespace"] == "pyroclast-system"
    is_slow_kubelet = event["reason"] == "FailedMount" and "failed to sync" in event["message"]
    return is_ours and event["type"] == "Warning" and not is_slow_kubelet


@pytest.fixture(scope="session")
def release(cluster: Cluster, built_images: Path) -> Release:
    """The release, installed as the page for production says, then with small requests, as three nodes share one machine."""
    release = Release(cluster, built_images)
    cluster.uninstall()
    release.follow_page()
    release.upgrade()
    return release


@pytest.fixture(scope="session")
def installed(release: Release) -> Cluster:
    """The cluster with Pyroclast."""
    return release.cluster
