"""Binding, eviction, logs, quotas, events in two shapes, admission policies."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from .conftest import PODS, Api, pod


@pytest.fixture
async def node(api: Api) -> AsyncIterator[str]:
    """A node whose agent answers with what it was asked."""

    async def logs(request: web.Request) -> web.Response:
        return web.Response(text=f"{request.path} {request.query_string}")

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*api.server.server.identity.serving)
    application = web.Application()
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", logs)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    await api.post("/api/v1/nodes", {"metadata": {"name": "n1"}})
    state = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": runner.addresses[0][1]}},
    }
    await api.merge("/api/v1/nodes/n1/status", {"status": state})
    yield "n1"
    await runner.cleanup()


async def test_pod_logs_are_proxied_from_the_kubelet_of_the_node(api: Api, node: str) -> None:
    await api.post(PODS, pod("a", nodeName=node))
    reply = await api.get(f"{PODS}/a/log?tailLines=5&timestamps=true")
    assert reply.body == "/containerLogs/default/a/c tailLines=5&timestamps=true"
    assert (await api.get(f"{PODS}/a/log?container=x")).body["message"] == "container x is not valid for pod a"
    await api.post(PODS, pod("unbound"))
    assert (await api.get(f"{PODS}/unbound/log")).code == 204
    await api.post(PODS, pod("two", containers=[{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]))
    choice = await api.get(f"{PODS}/two/log")
    assert choice.body["message"] == "a container name must be specified for pod two, choose one of: [a b]"


async def test_resource_quota_is_charged_on_create_and_released_on_delete(api: Api) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1", "requests.cpu": "1"}}}
    await api.post("/api/v1/namespaces/default/resourcequotas", quota)
    await api.server.settle()
    assert "must specify requests.cpu for: c" in (await api.post(PODS, pod("a"))).body["message"]
    sized = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "600m"}}}]
    assert (await api.post(PODS, pod("a", containers=sized))).code == 201
    over = await api.post(PODS, pod("b", containers=sized))
    assert over.body["message"] == (
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=600m, used: pods=1,requests.cpu=600m, '
        "limited: pods=1,requests.cpu=1"
    )
    await api.delete(f"{PODS}/a")
    await api.server.settle()
    used = (await api.get("/api/v1/namespaces/default/resourcequotas/q")).body["status"]["used"]
    assert used == {"pods": "0", "requests.cpu": "0"}


CONTAINERS = [{"name": "c", "image": "i"}]
ONCE = {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}
ALWAYS = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/apis/apps/v1/namespaces/default/deployments", {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": ALWAYS}}),
        ("/apis/batch/v1/namespaces/default/jobs", {"spec": {"template": ONCE}}),
        ("/apis/batch/v1/namespaces/default/cronjobs", {"spec": {"jobTemplate": {"spec": {"template": ONCE}}}}),
        ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", {"spec": {"minAvailable": 1}}),
        ("/api/v1/namespaces/default/limitranges", {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}),
        ("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", {"spec": {"validations": []}}),
    ],
    ids=["deployment", "job", "cron job", "budget", "limits", "policy"],
)
async def test_creating_an_object_without_a_controller_returns_a_warning(api: Api, path: str, document: dict[str, Any]) -> None:
    reply = await api.post(path, {"metadata": {"name": "x"}, **document})
    assert reply.code == 201
    assert "the embedded control plane stores" in reply.headers["Warning"]
    again = await api.merge(f"{path}/x", {"metadata": {"labels": {"a": "b"}}})
    assert "Warning" not in again.headers


@pytest.mark.parametrize(
    ("plural", "spec", "field"),
    [
        ("services", {"type": "NodePort", "ports": [{"port": 80}]}, "spec.type"),
        ("services", {"type": "ExternalName", "externalName": "a.b"}, "spec.type"),
        ("resourcequotas", {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}, "spec.scopes"),
        ("resourcequotas", {"scopeSelector": {"matchExpressions": [{"scopeName": "Terminating"}]}}, "spec.scopeSelector"),
    ],
)
async def test_object_that_would_have_no_effect_here_is_refused(api: Api, plural: str, spec: dict[str, Any], field: str) -> None:
    reply = await api.post(f"/api/v1/namespaces/default/{plural}", {"metadata": {"name": "x"}, "spec": spec})
    causes = [(cause["field"], "embedded API server" in cause["message"]) for cause in reply.body["details"]["causes"]]
    assert (reply.code, causes[:1]) == (422, [(field, True)])
