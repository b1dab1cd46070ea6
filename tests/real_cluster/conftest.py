"""One cluster of three real nodes for all tests of this folder, with Pyroclast installed as the production page says.

The tests run only by `make test-cluster`. `PYROCLAST_CLUSTER=DIR` uses a cluster that runs already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_cluster import images
from tests.real_cluster.cluster import Access, obstacle
from tests.real_cluster.node import Node
from tests.real_cluster.seen import ROOT, wait_for

collect_ignore_glob = [] if os.environ.get("PYROCLAST_REAL_CLUSTER") else ["test_*.py"]
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
def installed(cluster: Cluster) -> Cluster:
    """The cluster with Pyroclast, installed with the values of the page for production and small requests."""
    page = (ROOT / "docs/how-to/install-for-production.md").read_text()
    block = page.split("```yaml", 1)[1].split("```", 1)[0]
    values = cluster.kubeconfig.with_name("values.yaml")
    values.write_text("\n".join(line[3:] for line in block.splitlines()))
    small = values.with_name("small.yaml")
    small.write_text(_SMALL)
    key = os.environ.get("PYROCLAST_IMAGES") or images.project_images().stem
    names = ["--set", "basic.image_registry=example.org/", "--set", f"basic.image_tag_version={key}"]
    place = ["--namespace=pyroclast-system", "--create-namespace", "--wait", "--timeout=5m"]
    cluster.helm(
        "upgrade", "--install", "pyroclast", "charts/pyroclast", f"--values={values}", f"--values={small}", *names, *place
    )
    return cluster
