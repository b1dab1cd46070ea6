"""What admission asks the API server before it serves."""

from __future__ import annotations

import pytest

from pyroclast_admission import service
from tests.unit.kube.fault_server import FaultServer, answer, status


@pytest.mark.parametrize(
    ("version", "has_them"),
    [
        ({"major": "1", "minor": "33"}, False),
        ({"major": "1", "minor": "34"}, True),
        ({"major": "1", "minor": "33+"}, False),
        ({"major": "1", "minor": "35+"}, True),
        ({}, True),
        ({"minor": 34}, True),
        ([], True),
        (b"\xff", True),
    ],
)
async def test_pod_level_resources_are_assumed_unless_kubernetes_is_older_than_1_34(version: object, has_them: bool) -> None:
    async with FaultServer() as server, server.client() as client:
        server.on("GET /version", answer(200, version))
        assert await service.known_pod_resources(client) is has_them


async def test_the_kubernetes_version_is_requested_until_the_api_server_returns_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that is away while the service starts does not end it."""
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.001)
    async with FaultServer() as server, server.client() as client:
        server.on("GET /version", status(403, "Forbidden"), status(429, "TooManyRequests"), answer(200, {"minor": "30"}))
        assert await service.known_pod_resources(client) is False
