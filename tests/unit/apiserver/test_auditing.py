"""The audit log: one line per request, in the form of the real server's."""

from __future__ import annotations

import json
from pathlib import Path

from pyroclast_standalone.apiserver.running import running_server

from .conftest import CONFIG_MAPS, client_of, config_map


async def test_audit_log_has_one_line_for_each_request(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with running_server(tmp_path / "data", audit_log=log) as server, client_of(server) as api:
        await api.post(CONFIG_MAPS, config_map("a"))
        await api.get(f"{CONFIG_MAPS}/none", Impersonate_User="joe", Impersonate_Group="system:masters")
    made, missing = (json.loads(line) for line in log.read_text().splitlines())
    assert (made["verb"], made["responseStatus"]["code"], made["user"]["username"]) == ("create", 201, "kubernetes-admin")
    assert made["objectRef"] == {"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"}
    assert made["requestReceivedTimestamp"] <= made["stageTimestamp"]
    assert (missing["responseStatus"]["code"], missing["impersonatedUser"]["username"]) == (404, "joe")


async def test_running_server_injects_failures_and_latency_and_counts_requests(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, client_of(server) as api:
        server.fail_next("create", "configmaps", 503)
        assert (await api.post(CONFIG_MAPS, config_map("a"))).code == 503
        assert (await api.post(CONFIG_MAPS, config_map("a"))).code == 201
        server.fail_next("*", "*", 429)
        assert (await api.get(CONFIG_MAPS)).headers["Retry-After"] == "1"
        assert server.requests()["create", "configmaps"] == 2
        server.forget_requests()
        assert not server.requests()
        server.latency = 0.01
        assert (await api.get(CONFIG_MAPS)).code == 200
