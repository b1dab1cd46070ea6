"""Control planes whose nodes run the commands of containers as processes of this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support.cluster import Cluster, running


@pytest.fixture(scope="session")
def process_nodes(control_plane: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane with two such nodes, shared by the modules of a process. A module makes it its `cluster`."""
    with running(control_plane, tmp_path_factory.mktemp("processes"), nodes=2, mode="process") as cluster:
        yield cluster
