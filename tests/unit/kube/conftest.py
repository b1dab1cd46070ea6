from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import structlog

from pyroclast.kube.http.client import Client
from tests.unit.kube.fault_server import FaultServer, Observed


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    async with FaultServer() as server:
        yield server


@pytest.fixture
def observed() -> Observed:
    return Observed()


@pytest.fixture
async def client(server: FaultServer, observed: Observed) -> AsyncIterator[Client]:
    async with server.client(observer=observed) as client:
        yield client


@pytest.fixture(autouse=True, scope="package")
def quiet() -> Iterator[None]:
    """The faults that the tests inject are logged, which costs more than the tests."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()
