"""Who may do what: certificates, tokens, impersonation, roles, reviews, the audit log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyroclast_standalone.apiserver.access.authn import InvalidToken, TokenSigner
from tests.unit.running import running_server

from .conftest import CONFIG_MAPS, Api, client_of, config_map


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


async def _token(api: Api, name: str) -> str:
    await api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    reply = await api.post(
        f"/api/v1/namespaces/default/serviceaccounts/{name}/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )
    return str(reply.body["status"]["token"])


async def test_impersonated_extra_has_its_key_without_percent_escapes(api: Api) -> None:
    path, body = "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"metadata": {}}
    extra = {"Impersonate-Extra-Example.com%2fproject%25": "p"}
    told = await api.post(path, body, Impersonate_User="joe", **extra)
    assert told.body["status"]["userInfo"]["extra"] == {"example.com/project%": ["p"]}


async def test_token_review_names_the_user_of_a_valid_token_only(api: Api) -> None:
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    good = await api.post(path, {"spec": {"token": await _token(api, "bot")}})
    assert good.body["status"]["user"]["username"] == "system:serviceaccount:default:bot"
    assert "authenticated" not in (await api.post(path, {"spec": {"token": "bad"}})).body["status"]


ACCOUNT = {"metadata": {"name": "a", "namespace": "n", "uid": "u"}}


def test_token_is_accepted_only_by_its_signer_within_its_lifetime() -> None:
    signer = TokenSigner(b"secret")
    token = signer.issue(ACCOUNT, now=1000, seconds=600)
    assert signer.read(token, now=1500)["sub"] == "system:serviceaccount:n:a"
    for other, now in ((signer, 1600), (signer, 900), (TokenSigner(b"other"), 1500)):
        with pytest.raises(InvalidToken):
            other.read(token, now=now)
    with pytest.raises(InvalidToken):
        signer.read(token[:-2] + "xx", now=1500)
    with pytest.raises(InvalidToken):
        signer.read("a.b", now=1500)
