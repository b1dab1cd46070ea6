"""The service and the PodGroups of Kubernetes itself, on an API server that serves them, does not, or only later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyroclast.api.types import COMPOSITE_POD_GROUPS, CRDS, EVENTS, NATIVE_POD_GROUPS, PODS, QUEUES, Key, ResourceType
from pyroclast.kube.http.native_groups import composite_kind_served, kind_served
from pyroclast_scheduler.shell import watches
from pyroclast_standalone.apiserver.kinds import pod_defaults
from tests.unit.logs import captured
from tests.unit.scheduler.conftest import Cluster

_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(*versions: str, kind: ResourceType = NATIVE_POD_GROUPS) -> dict[str, Any]:
    """A definition that has an API server serve the kind, as the server of Kubernetes does."""
    schema = {"type": "object", "properties": {"spec": _ANY, "status": _ANY}}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {
            "name": kind.qualified,
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"plural": kind.plural, "singular": kind.plural[:-1], "kind": kind.kind, "listKind": f"{kind.kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[-1],
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
                for version in versions
            ],
        },
    }


@pytest.fixture(autouse=True)
def pods_name_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_defaults, "OFF", ())


async def serve(cluster: Cluster, *versions: str, kind: ResourceType = NATIVE_POD_GROUPS) -> None:
    await cluster.client.create(CRDS, definition(*versions, kind=kind))


async def make_group(cluster: Cluster, name: str, policy: dict[str, Any], **spec: Any) -> None:
    await cluster.make(NATIVE_POD_GROUPS, name, {"schedulingPolicy": policy, **spec})


async def make_composite(cluster: Cluster, least: int, **spec: Any) -> None:
    await cluster.make(COMPOSITE_POD_GROUPS, "c", {"schedulingPolicy": {"gang": {"minGroupCount": least}}, **spec})


async def make_pods(cluster: Cluster, group: str, numbers: range) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    spec = {"schedulerName": "volcano", "schedulingGroup": {"podGroupName": group}, "containers": [container]}
    for i in numbers:
        await cluster.make(PODS, f"{group}-{i}", spec)


async def bound(cluster: Cluster, prefix: str) -> int:
    return sum(bool(node) for node in (await cluster.places(prefix)).values())


async def is_event(cluster: Cluster, kind: ResourceType, reason: str = "Scheduled") -> bool:
    events, _ = await cluster.client.list(EVENTS)
    about = {(event["involvedObject"]["apiVersion"], event["involvedObject"]["kind"], event["reason"]) for event in events}
    return (kind.api_version, kind.kind, reason) in about


async def is_tried(cluster: Cluster) -> bool:
    """Tried: this server takes no strategic patch of what is not built in; the tests on Kubernetes see what it says."""
    return bool(cluster.server.requests()["patch", COMPOSITE_POD_GROUPS.plural])


async def test_a_kubernetes_podgroup_is_bound_only_once_all_its_pods_exist(cluster: Cluster):
    await serve(cluster, "v1beta1")
    await cluster.node("n1")
    await make_group(cluster, "g", {"gang": {"minCount": 3}})
    await make_pods(cluster, "g", range(2))
    async with cluster.scheduler():
        await asyncio.sleep(2)
        assert await bound(cluster, "g-") == 0
        await make_pods(cluster, "g", range(2, 3))

        async def is_whole() -> bool:
            return await bound(cluster, "g-") == 3

        async def is_counted() -> bool:
            queue = await cluster.client.get(QUEUES, Key("", "default"))
            return (queue.get("status") or {}).get("allocated", {}).get("cpu") == "3"

        await cluster.until(is_whole)
        await cluster.until(is_counted)
        await cluster.until(lambda: is_event(cluster, NATIVE_POD_GROUPS))
        listed, _ = await cluster.client.list(PODS)
        queues = [pod["metadata"]["annotations"].get("scheduling.volcano.sh/queue-name") for pod in listed]
        assert queues == ["default"] * 3


async def test_a_missing_podgroup_api_is_logged_once_and_found_when_served_later(cluster: Cluster, monkeypatch):
    monkeypatch.setattr(watches, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(watches.NativeWatch.__init__, "__kwdefaults__", {"pause": 0.2})
    logs = captured(monkeypatch, watches)
    async with cluster.scheduler():
        await cluster.node("n1")

        async def is_absent() -> bool:
            return any(each["event"] == "native_groups.not_served" for each in logs)

        await cluster.until(is_absent)
        await asyncio.sleep(0.5)
        await serve(cluster, "v1alpha2", "v1beta1")
        await make_group(cluster, "g", {"basic": {}})
        await make_pods(cluster, "g", range(1))

        async def is_bound() -> bool:
            return await bound(cluster, "g-") == 1

        await cluster.until(is_bound)
    told = [each["event"] for each in logs if each["event"].startswith("native_groups.")]
    assert told == ["native_groups.not_served", "native_groups.served"]


async def test_an_alpha_version_of_the_podgroup_api_is_not_used(cluster: Cluster):
    assert await kind_served(cluster.client) is None
    await serve(cluster, "v1alpha2")
    assert await kind_served(cluster.client) is None


async def test_podgroup_api_v1_is_preferred_to_v1beta1(cluster: Cluster):
    await serve(cluster, "v1beta1", "v1")
    kind = await kind_served(cluster.client)
    assert kind is not None
    assert kind.version == "v1"


async def test_a_compositepodgroup_is_bound_whole_when_its_api_is_served_later(cluster: Cluster, monkeypatch):
    monkeypatch.setattr(watches.NativeWatch.__init__, "__kwdefaults__", {"pause": 0.2})
    parent = {"parentCompositePodGroupName": "c"}
    await serve(cluster, "v1beta1")
    await cluster.node("n1")
    for name in ("g", "h"):
        await make_group(cluster, name, {"gang": {"minCount": 1}}, **parent)
        await make_pods(cluster, name, range(1))
    async with cluster.scheduler():
        await asyncio.sleep(1)
        assert await composite_kind_served(cluster.client) is None
        await serve(cluster, "v1alpha3", kind=COMPOSITE_POD_GROUPS)
        await make_composite(cluster, 3)
        await asyncio.sleep(1)
        assert await bound(cluster, "") == 0
        await make_group(cluster, "k", {"basic": {}}, **parent)
        await make_pods(cluster, "k", range(1))

        async def is_whole() -> bool:
            return await bound(cluster, "") == 3

        await cluster.until(is_whole)
        await cluster.until(lambda: is_event(cluster, COMPOSITE_POD_GROUPS))
        await cluster.until(lambda: is_tried(cluster))


async def test_a_compositepodgroup_that_is_its_own_parent_is_patched_and_not_bound(cluster: Cluster):
    await serve(cluster, "v1beta1")
    await serve(cluster, "v1alpha3", kind=COMPOSITE_POD_GROUPS)
    await cluster.node("n1")
    await make_composite(cluster, 1, parentCompositePodGroupName="c")
    await make_group(cluster, "g", {"gang": {"minCount": 1}}, parentCompositePodGroupName="c")
    await make_pods(cluster, "g", range(1))

    async with cluster.scheduler():
        await cluster.until(lambda: is_tried(cluster))
        assert await bound(cluster, "") == 0


async def test_kubernetes_podgroups_are_ignored_if_native_workloads_is_false(cluster: Cluster):
    await serve(cluster, "v1beta1")
    await cluster.node("n1")
    await make_group(cluster, "g", {"basic": {}})
    await make_pods(cluster, "g", range(1))
    async with cluster.scheduler(**{"native-workloads": "false"}):
        await asyncio.sleep(2)
        assert await bound(cluster, "g-") == 0
        assert cluster.server.requests()["list", "podgroups"] <= 1  # those of Volcano
