"""Binding, eviction, logs, quotas, events in two shapes, admission policies."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from .conftest import PODS, Api, pod


def binding(name: str, node: str = "n1", **metadata: object) -> dict[str, object]:
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


async def test_pod_is_bound_once_and_a_second_binding_returns_409(api: Api) -> None:
    await api.post(PODS, pod("a"))
    bound = await api.post(f"{PODS}/a/binding", binding("a", annotations={"x": "y"}, labels={"l": "m"}))
    assert (bound.code, bound.body["status"]) == (201, "Success")
    found = (await api.get(f"{PODS}/a")).body
    assert found["spec"]["nodeName"] == "n1"
    assert (found["metadata"]["annotations"], found["metadata"]["labels"]) == ({"x": "y"}, {"l": "m"})
    assert found["metadata"]["generation"] == 1
    assert [(each["type"], each["status"]) for each in found["status"]["conditions"]] == [("PodScheduled", "True")]
    again = await api.post(f"{PODS}/a/binding", binding("a", "n2"))
    assert (again.code, again.body["details"]["kind"]) == (409, "pods/binding")
    assert again.body["message"].endswith('pod a is already assigned to node "n1"')


async def test_binding_is_refused_for_missing_gated_or_mismatched_pods(api: Api) -> None:
    bindings = "/api/v1/namespaces/default/bindings"
    assert (await api.post(bindings, binding("none"))).code == 404
    await api.post(PODS, pod("gated", schedulingGates=[{"name": "example.org/g"}]))
    assert "non-empty .spec.schedulingGates" in (await api.post(bindings, binding("gated"))).body["message"]
    await api.post(PODS, pod("a"))
    assert (await api.post(bindings, {**binding("a"), "target": {}})).code == 500
    other = binding("a", uid="00000000-0000-0000-0000-000000000000")
    assert "UID in precondition" in (await api.post(bindings, other)).body["message"]


async def test_evicted_pod_is_marked_for_deletion_with_a_condition(api: Api) -> None:
    await api.post(PODS, pod("a", nodeName="n1"))

    async def evict(name: str) -> tuple[int, str]:
        reply = await api.post(
            f"{PODS}/{name}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        )
        return reply.code, reply.reason

    assert await evict("a") == (201, "")
    marked = (await api.get(f"{PODS}/a")).body
    assert "deletionTimestamp" in marked["metadata"]
    assert marked["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    assert await evict("none") == (404, "NotFound")


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


async def test_events_are_served_in_both_api_groups_from_one_store(api: Api) -> None:
    new = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-02T15:04:05.000000Z",
        "reportingController": "example.org/c",
        "reportingInstance": "i",
        "action": "Act",
        "reason": "Why",
        "type": "Normal",
        "note": "hello",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    }
    assert (await api.post("/apis/events.k8s.io/v1/namespaces/default/events", new)).body["note"] == "hello"
    core = (await api.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp")).body["items"]
    assert [(each["message"], each["reportingComponent"]) for each in core] == [("hello", "example.org/c")]
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    assert [each["note"] for each in (await api.get(path)).body["items"]] == ["hello"]


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
