"""Lists: pages, revisions, selectors, forms."""

from __future__ import annotations

import pytest

from .conftest import CONFIG_MAPS, PODS, Api, config_map, pod


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


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("limit=abc", 400, ""),
        ("resourceVersion=abc", 400, "invalid resource version: "),
        ("resourceVersionMatch=Exact", 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("resourceVersionMatch=Exact&resourceVersion=0", 422, 'forbidden for resourceVersion \\"0\\"'),
        ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
        ("continue=garbage", 400, "invalid continue token: continue key is not valid: "),
        ("continue=abcd&resourceVersion=5", 400, "specifying resource version is not allowed when using continue"),
        ("labelSelector=a%20in", 400, "unable to parse requirement"),
        ("fieldSelector=x%3Dy", 400, 'is not a known field selector: only \\"metadata.name\\", \\"metadata.namespace\\"'),
    ],
)
async def test_list_with_invalid_parameters_is_refused_with_the_reason(api: Api, query: str, code: int, message: str) -> None:
    reply = await api.get(f"{CONFIG_MAPS}?{query}")
    assert reply.code == code
    assert message.replace("\\", "") in reply.body["message"]


async def test_list_at_a_future_resource_version_times_out_with_504(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyroclast_standalone.apiserver.verbs.listing._FUTURE_SECONDS", 0.05)
    reply = await api.get(f"{CONFIG_MAPS}?resourceVersion=99999999")
    assert (reply.code, reply.reason) == (504, "Timeout")
    assert reply.body["details"]["causes"] == [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]


async def test_field_selectors_filter_pods_by_node_name_and_phase(api: Api) -> None:
    await api.post(PODS, pod("here", nodeName="n1"))
    await api.post(PODS, pod("nowhere"))

    async def names(selector: str) -> list[str]:
        reply = await api.get(f"{PODS}?fieldSelector={selector}")
        return [item["metadata"]["name"] for item in reply.body["items"]]

    assert await names("spec.nodeName%3Dn1") == ["here"]
    assert await names("spec.nodeName%3D") == ["nowhere"]
    assert await names("metadata.name!%3Dhere,status.phase%3DPending") == ["nowhere"]


async def test_items_of_built_in_lists_have_no_kind_or_api_version(api: Api) -> None:
    await api.post(PODS, pod("a"))
    item = (await api.get(PODS)).body["items"][0]
    assert "kind" not in item
    assert "apiVersion" not in item


async def test_accept_header_selects_table_or_partial_metadata_and_else_returns_406(api: Api) -> None:
    await api.post(PODS, pod("a"))
    table = await api.get(PODS, Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table.body["kind"] == "Table"
    assert table.body["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    part = await api.get(f"{PODS}/a", Accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
    assert set(part.body) == {"kind", "apiVersion", "metadata"}
    for accept in ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/yaml", "application/xml"):
        assert (await api.get(f"{PODS}/a", Accept=accept)).code == 406


async def test_unknown_paths_return_404_and_wrong_methods_405(api: Api) -> None:
    assert (await api.get("/api/v1/foos")).body["details"] == {}
    assert (await api.get("/apis/nobody.example.org/v1/foos")).body == "404 page not found\n"
    assert (await api.get("/nope")).body == "404 page not found\n"
    assert (await api.call("PUT", CONFIG_MAPS, {})).code == 405
