"""A client that nobody here wrote: list, watch, patch and custom objects through kubernetes_asyncio."""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the library does at import is not ours to mend
    from kubernetes_asyncio import client, config, watch

GROUP = ("batch.volcano.sh", "v1alpha1")
OURS = "made-by=test"


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[client.ApiClient]:
    await config.load_kube_config(str(cluster.kubeconfig))
    async with client.ApiClient() as api_client:
        yield api_client


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"made-by": "test"}}, "data": data}


async def test_watch_from_the_list_resource_version_yields_later_changes(api: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api)
    for number in range(3):
        await core.create_namespaced_config_map(namespace, config_map(f"c{number}"))
    listed = await core.list_namespaced_config_map(namespace, label_selector=OURS)  # the cluster adds one of its own at any time
    names = {item.metadata.name for item in listed.items}
    assert names == {"c0", "c1", "c2"}
    await core.patch_namespaced_config_map("c0", namespace, {"data": {"colour": "red"}})
    await core.delete_namespaced_config_map("c1", namespace)
    seen = []
    async with watch.Watch() as watching:
        version = listed.metadata.resource_version
        async for event in watching.stream(
            core.list_namespaced_config_map, namespace, label_selector=OURS, resource_version=version, timeout_seconds=5
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 2:
                break
    assert seen == [("MODIFIED", "c0"), ("DELETED", "c1")]


async def test_json_merge_strategic_and_apply_patches_change_a_config_map(api: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api)
    await core.create_namespaced_config_map(namespace, config_map("c", a="1"))

    async def patched(body: object, content_type: str, **more: object) -> dict[str, str]:
        found = await core.patch_namespaced_config_map("c", namespace, body, _content_type=content_type, **more)
        return dict(found.data)

    assert await patched([{"op": "add", "path": "/data/b", "value": "2"}], "application/json-patch+json") == {"a": "1", "b": "2"}
    assert await patched({"data": {"a": None}}, "application/merge-patch+json") == {"b": "2"}
    assert await patched({"data": {"c": "3"}}, "application/strategic-merge-patch+json") == {"b": "2", "c": "3"}
    applied = config_map("c", d="4")
    assert await patched(applied, "application/apply-patch+yaml", field_manager="me") == {"b": "2", "c": "3", "d": "4"}


async def test_custom_objects_api_creates_patches_lists_and_deletes_a_vcjob(api: client.ApiClient, namespace: str) -> None:
    custom = client.CustomObjectsApi(api)
    await custom.create_namespaced_custom_object(*GROUP, namespace, "jobs", json.loads(job("mine", command=["sleep", "1"])))
    found = await custom.get_namespaced_custom_object(*GROUP, namespace, "jobs", "mine")
    assert found["spec"]["queue"] == "default"
    body = {"metadata": {"labels": {"team": "blue"}}}
    await custom.patch_namespaced_custom_object(
        *GROUP, namespace, "jobs", "mine", body, _content_type="application/merge-patch+json"
    )
    listed = await custom.list_namespaced_custom_object(*GROUP, namespace, "jobs", label_selector="team=blue")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["mine"]
    with pytest.raises(client.ApiException) as caught:
        await custom.patch_namespaced_custom_object(*GROUP, namespace, "jobs", "mine", body)  # goes out as a JSON patch
    assert caught.value.status == 400
    await custom.delete_namespaced_custom_object(*GROUP, namespace, "jobs", "mine")
