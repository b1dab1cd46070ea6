"""A control plane that checks the access to queues, and two users with the role of the chart in namespaces of their own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.conftest import NODES
from tests.e2e.support.cluster import Cluster, running
from tests.e2e.support.tenants import User, user_of, with_role


class Tenants(NamedTuple):
    """Two users who have nothing in common but the cluster."""

    alice: User
    bob: User


@pytest.fixture(scope="package")
def cluster(control_plane: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One control plane for all tests of this folder."""
    with running(control_plane, tmp_path_factory.mktemp(f"tenants-{control_plane}"), nodes=NODES) as cluster:
        yield cluster


@pytest.fixture
def tenants(cluster: Cluster, tmp_path: Path) -> Iterator[Tenants]:
    """Alice and Bob, each with the role `pyroclast-user` in one namespace."""
    cluster.wait_for_services()
    names = [f"{name}-{secrets.token_hex(3)}" for name in ("alice", "bob")]
    for name in names:
        cluster.make_namespace(name)
    yield Tenants(*(with_role(user_of(cluster, name, tmp_path, name.partition("-")[0])) for name in names))
    for name in names:
        cluster.delete_namespace(name)
