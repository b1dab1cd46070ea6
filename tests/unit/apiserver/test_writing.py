"""Requests whose answers no comparison with a real API server shows: races, bounds, history, and what only this server says."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.unit.running import running_server

from .conftest import CONFIG_MAPS, CRD, PODS, Api, client_of, config_map, pod

WIDGETS = "/apis/example.org/v1/namespaces/default/widgets"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def widget(name: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec or {"size": 1}}


async def test_yaml_body_is_accepted_and_other_types_or_large_bodies_are_refused(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    yaml = "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: a\ndata: {n: '1'}\n"
    assert (await api.call("POST", CONFIG_MAPS, yaml, content_type="application/yaml")).code == 201
    assert (await api.call("POST", CONFIG_MAPS, "x", content_type="text/plain")).code == 415
    monkeypatch.setattr("pyroclast_standalone.apiserver.http.MAX_BODY", 1000)
    huge = await api.post(CONFIG_MAPS, config_map("b", {"a": "x" * 1000}))
    assert (huge.code, huge.reason) == (413, "RequestEntityTooLarge")


async def test_concurrent_patches_without_a_resource_version_never_conflict(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    replies = await asyncio.gather(*(api.merge(f"{CONFIG_MAPS}/a", {"data": {f"k{n}": "v"}}) for n in range(30)))
    assert {reply.code for reply in replies} == {200}
    assert len((await api.get(f"{CONFIG_MAPS}/a")).body["data"]) == 31


async def test_concurrent_updates_from_one_resource_version_succeed_only_once(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, config_map("a"))
    bodies = [{**made.body, "data": {"a": str(n)}} for n in range(5)]
    codes = sorted(reply.code for reply in await asyncio.gather(*(api.put(f"{CONFIG_MAPS}/a", body) for body in bodies)))
    assert codes == [200, 409, 409, 409, 409]


async def test_scale_without_the_subresource_returns_404_naming_the_replicas_field(api: Api) -> None:
    definition = json.loads(json.dumps(CRD))
    (version,) = definition["spec"]["versions"]
    del version["subresources"]["scale"]
    task = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = {"tasks": {"type": "array", "items": task}}
    await api.post(DEFINITIONS, definition)
    await api.post(WIDGETS, {**widget("a"), "spec": {"tasks": []}})
    refused = await api.get(f"{WIDGETS}/a/scale")
    assert refused.code == 404
    assert "kind Widget has no scale subresource; change spec.tasks[*].replicas" in refused.body["message"]


async def test_creating_a_pod_for_an_unknown_scheduler_returns_a_warning() -> None:
    async with running_server(schedulers=("volcano",)) as server, client_of(server) as api:
        assert "no scheduler named" in (await api.post(PODS, pod("a"))).headers["Warning"]
        assert "Warning" not in (await api.post(PODS, pod("b", schedulerName="volcano"))).headers
        assert "Warning" not in (await api.post(PODS, pod("c", nodeName="n1"))).headers


async def test_default_added_to_a_crd_applies_to_stored_objects(api: Api) -> None:
    await api.post(DEFINITIONS, CRD)
    before = await api.post(WIDGETS, widget("a"))
    schema = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]  # type: ignore[index]
    fields = schema["properties"]["spec"]["properties"]
    versions = json.loads(json.dumps(CRD["spec"]["versions"]))  # type: ignore[index]
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = {
        **fields,
        "extra": {"type": "string", "default": "new"},
    }
    await api.merge(f"{DEFINITIONS}/widgets.example.org", {"spec": {"versions": versions}})
    after = await api.get(f"{WIDGETS}/a")
    assert after.body["spec"]["extra"] == "new"
    assert after.version == before.version


async def test_crd_with_a_taken_name_is_served_only_after_the_name_is_free(api: Api) -> None:
    await api.post(DEFINITIONS, CRD)
    rival = json.loads(json.dumps(CRD))
    rival["metadata"]["name"] = "gadgets.example.org"
    rival["spec"]["names"] = {**rival["spec"]["names"], "plural": "gadgets", "singular": "gadget"}
    refused = (await api.post(DEFINITIONS, rival)).body["status"]["conditions"]
    assert {each["type"]: each["reason"] for each in refused} == {
        "NamesAccepted": "ListKindConflict",
        "Established": "NotAccepted",
    }
    assert (await api.get("/apis/example.org/v1/namespaces/default/gadgets")).body == "404 page not found\n"
    await api.delete(f"{DEFINITIONS}/widgets.example.org")
    await api.server.settle()
    assert (await api.get("/apis/example.org/v1/namespaces/default/gadgets")).code == 200


async def _names(api: Api) -> set[str]:
    listed = {item["metadata"]["name"] for item in (await api.get(CONFIG_MAPS)).body["items"]}
    return listed - {"kube-root-ca.crt"}


async def test_dependent_with_two_owners_is_deleted_only_after_both(api: Api) -> None:
    owners = [await api.post(CONFIG_MAPS, config_map(name)) for name in ("one", "two")]
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": each.body["metadata"]["name"], "uid": each.body["metadata"]["uid"]}
        for each in owners
    ]
    await api.post(CONFIG_MAPS, config_map("dependent", ownerReferences=references))
    await api.delete(f"{CONFIG_MAPS}/one")
    await api.server.settle()
    kept = (await api.get(f"{CONFIG_MAPS}/dependent")).body["metadata"]["ownerReferences"]
    assert [each["name"] for each in kept] == ["two"]
    await api.delete(f"{CONFIG_MAPS}/two")
    await api.server.settle()
    assert await _names(api) == set()


async def test_deleting_a_crd_deletes_its_custom_resources(api: Api) -> None:
    await api.post(DEFINITIONS, CRD)
    path = "/apis/example.org/v1/namespaces/default/widgets"
    await api.post(path, {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}})
    await api.delete(f"{DEFINITIONS}/widgets.example.org")
    await api.server.settle()
    assert (await api.get(path)).body == "404 page not found\n"
    await api.post(DEFINITIONS, CRD)
    assert (await api.get(path)).body["items"] == []


async def test_list_pages_show_one_revision_despite_concurrent_writes(api: Api) -> None:
    for name in "abcd":
        await api.post(CONFIG_MAPS, config_map(name, labels={"t": "y"}))
    first = await api.get(f"{CONFIG_MAPS}?limit=2")
    assert first.body["metadata"]["remainingItemCount"] == 3  # kube-root-ca.crt is there too
    await api.delete(f"{CONFIG_MAPS}/c")
    await api.post(CONFIG_MAPS, config_map("cc"))
    second = await api.get(f"{CONFIG_MAPS}?limit=5&continue={first.body['metadata']['continue']}")
    assert second.version == first.version
    assert [item["metadata"]["name"] for item in second.body["items"]] == ["c", "d", "kube-root-ca.crt"]


async def test_continue_token_expires_after_compaction_and_a_new_token_is_offered(api: Api) -> None:
    for name in "abc":
        await api.post(CONFIG_MAPS, config_map(name))
    first = await api.get(f"{CONFIG_MAPS}?limit=1")
    await api.post(CONFIG_MAPS, config_map("z"))
    api.server.compact()
    token = first.body["metadata"]["continue"]
    expired = await api.get(f"{CONFIG_MAPS}?limit=1&continue={token}")
    assert (expired.code, expired.reason) == (410, "Expired")
    again = await api.get(f"{CONFIG_MAPS}?limit=9&continue={expired.body['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in again.body["items"]] == ["b", "c", "kube-root-ca.crt", "z"]


async def test_exact_revisions_are_read_from_history(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    then = (await api.get(CONFIG_MAPS)).version
    await api.merge(f"{CONFIG_MAPS}/a", {"data": {"a": "2"}})
    await api.post(CONFIG_MAPS, config_map("b"))
    old = await api.get(f"{CONFIG_MAPS}?resourceVersionMatch=Exact&resourceVersion={then}")
    assert (old.body["items"][0]["metadata"]["name"], old.body["items"][0]["data"]) == ("a", {"a": "1"})
    assert len(old.body["items"]) == 2
    api.server.compact()
    gone = await api.get(f"{CONFIG_MAPS}?resourceVersionMatch=Exact&resourceVersion={then}")
    assert (gone.code, gone.body["message"]) == (410, "The resourceVersion for the provided list is too old.")


async def test_list_at_a_future_resource_version_times_out_with_504(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyroclast_standalone.apiserver.verbs.listing._FUTURE_SECONDS", 0.05)
    reply = await api.get(f"{CONFIG_MAPS}?resourceVersion=99999999")
    assert (reply.code, reply.reason) == (504, "Timeout")
    assert reply.body["details"]["causes"] == [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
