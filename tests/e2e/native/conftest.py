"""A control plane of the next version for each module here, with nodes in two zones, and a namespace for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support.cluster import Cluster
from tests.e2e.support.natives import fresh_namespace, zoned_cluster


@pytest.fixture(scope="module")
def own(control_plane: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with zoned_cluster(control_plane, tmp_path_factory.mktemp("native")) as cluster:
        yield cluster


@pytest.fixture
def namespace(own: Cluster) -> Iterator[str]:
    with fresh_namespace(own) as name:
        yield name


@pytest.fixture(scope="module")
def cpu(own: Cluster) -> str:
    """All that a node has."""
    return str(own.get("node", "node-0")["status"]["allocatable"]["cpu"])
