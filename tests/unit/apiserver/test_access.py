"""Who may do what: certificates, tokens, impersonation, roles, reviews, the audit log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyroclast_standalone.apiserver.access.authn import InvalidToken, TokenSigner
from tests.unit.running import running_server

from .conftest import CONFIG_MAPS, PODS, Api, client_of, config_map


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


RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"


async def _token(api: Api, name: str) -> str:
    await api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    reply = await api.post(
        f"/api/v1/namespaces/default/serviceaccounts/{name}/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )
    return str(reply.body["status"]["token"])


async def _allow(api: Api, account: str) -> None:
    rules = [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]
    await api.post(f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "reader"}, "rules": rules})
    binding = {
        "metadata": {"name": "reading"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    }
    await api.post(f"{RBAC}/namespaces/default/rolebindings", binding)


async def test_service_account_may_do_only_what_its_role_allows(api: Api) -> None:
    token = await _token(api, "bot")
    async with client_of(api.server, token=token) as bot:
        refused = await bot.get(PODS)
        assert (refused.code, refused.reason) == (403, "Forbidden")
        assert refused.body["message"] == (
            'pods is forbidden: User "system:serviceaccount:default:bot" cannot list resource "pods" in API group "" '
            'in the namespace "default"'
        )
        await _allow(api, "bot")
        assert (await bot.get(PODS)).code == 200
        assert (await bot.get("/api/v1/pods")).body["message"].endswith("at the cluster scope")
        assert (await bot.get(f"{PODS}/x/log")).code == 403
        assert (await bot.get("/apis")).code == 200
        await api.delete("/api/v1/namespaces/default/serviceaccounts/bot")
        assert (await bot.get(PODS)).code == 401


async def test_access_reviews_agree_with_rbac_rules(api: Api) -> None:
    await _token(api, "bot")
    await _allow(api, "bot")
    user = "system:serviceaccount:default:bot"

    async def review(kind: str, spec: dict[str, object], **headers: str) -> dict[str, object]:
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        reply = await api.post(f"{REVIEWS}/{kind.lower()}s", body, **headers)
        assert reply.code == 201
        return dict(reply.body["status"])

    listing = {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}
    assert await review("SubjectAccessReview", {"user": user, **listing}) == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "reading/default" of Role "reader" to ServiceAccount "bot/default"',
    }
    assert (await review("SelfSubjectAccessReview", listing, Impersonate_User=user))["allowed"] is True
    denied = {"resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "default"}}
    assert await review("SelfSubjectAccessReview", denied, Impersonate_User=user) == {"allowed": False}
    rules = await review("SelfSubjectRulesReview", {"namespace": "default"}, Impersonate_User=user)
    assert {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]} in rules["resourceRules"]  # type: ignore[operator]


async def test_impersonated_extra_has_its_key_without_percent_escapes(api: Api) -> None:
    path, body = "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"metadata": {}}
    extra = {"Impersonate-Extra-Example.com%2fproject%25": "p"}
    told = await api.post(path, body, Impersonate_User="joe", **extra)
    assert told.body["status"]["userInfo"]["extra"] == {"example.com/project%": ["p"]}


async def test_impersonation_is_refused_without_the_impersonate_right(api: Api) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    told = await api.post(path, body, Impersonate_User="joe", Impersonate_Group="devs")
    assert told.body["status"]["userInfo"] == {"username": "joe", "groups": ["devs", "system:authenticated"]}
    async with client_of(api.server, token=await _token(api, "bot")) as bot:
        assert (await bot.post(path, body, Impersonate_User="joe")).code == 403


async def test_invalid_token_returns_401_and_no_token_is_anonymous(api: Api) -> None:
    async with client_of(api.server, token="nonsense") as nobody:
        assert (await nobody.get(PODS)).body["message"] == "Unauthorized"
    async with client_of(api.server, token="x") as anonymous:
        del anonymous.session.headers["Authorization"]
        assert (await anonymous.get("/readyz")).body == "ok"
        assert 'User "system:anonymous" cannot list' in (await anonymous.get(PODS)).body["message"]


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
