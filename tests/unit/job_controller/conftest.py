"""The cluster of most tests here: the controllers at work, and pods that run until a test ends them."""

from collections.abc import AsyncIterator

import pytest

from .cluster import Cluster, running_cluster


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """Controllers and an API server; no pod ends by itself."""
    async with running_cluster() as running:
        running.holding.add("all")
        yield running
