"""Deletion: preconditions, grace, finalizers, cascades, namespaces, definitions."""

from __future__ import annotations

import pytest

from .conftest import CONFIG_MAPS, CRD, PODS, Api, config_map, pod

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NONE = "00000000-0000-0000-0000-000000000000"


async def test_delete_returns_a_pod_but_a_status_for_a_config_map(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    reply = await api.delete(f"{CONFIG_MAPS}/a")
    assert (reply.code, reply.body["status"], reply.body["details"]["kind"]) == (200, "Success", "configmaps")
    await api.post(PODS, pod("a"))
    assert (await api.delete(f"{PODS}/a")).body["kind"] == "Pod"
    assert (await api.delete(f"{PODS}/a")).code == 404


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"preconditions": {"uid": NONE}}, 409, f"the UID in the precondition ({NONE}) does not match the UID in record"),
        ({"preconditions": {"resourceVersion": "1"}}, 409, "the ResourceVersion in the precondition (1) does not match"),
        ({"propagationPolicy": "What"}, 422, "propagationPolicy: Unsupported value"),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "cannot be both set"),
        ({"dryRun": ["Some"]}, 422, "dryRun: Unsupported value"),
    ],
)
async def test_delete_with_invalid_options_fails_and_keeps_the_object(
    api: Api, options: dict[str, object], code: int, message: str
) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    reply = await api.delete(f"{CONFIG_MAPS}/a", options)
    assert reply.code == code
    assert message in reply.body["message"]
    assert (await api.get(f"{CONFIG_MAPS}/a")).code == 200


async def test_bound_pod_is_removed_only_by_a_delete_with_grace_period_zero(api: Api) -> None:
    await api.post(PODS, pod("a", nodeName="n", terminationGracePeriodSeconds=20))
    marked = (await api.delete(f"{PODS}/a")).body["metadata"]
    assert (marked["deletionGracePeriodSeconds"], marked["generation"]) == (20, 2)
    longer = (await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 60})).body["metadata"]
    assert longer["deletionTimestamp"] == marked["deletionTimestamp"]
    shorter = (await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 5})).body["metadata"]
    assert shorter["deletionTimestamp"] < marked["deletionTimestamp"]
    await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert (await api.get(f"{PODS}/a")).code == 404
    kinds = [change.kind for change in api.server.history("pods")]
    assert kinds == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]


async def test_an_object_waits_for_its_finalizers(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a", finalizers=["example.org/one"]))
    marked = await api.delete(f"{CONFIG_MAPS}/a")
    assert marked.body["metadata"]["deletionGracePeriodSeconds"] == 0
    again = await api.post(CONFIG_MAPS, config_map("a"))
    assert again.body["message"] == 'object is being deleted: configmaps "a" already exists'
    more = await api.merge(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": ["example.org/one", "example.org/two"]}})
    assert (more.code, len(more.body["details"]["causes"])) == (422, 2)
    last = await api.merge(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}})
    assert "finalizers" not in last.body["metadata"]
    assert last.version == marked.version
    assert (await api.get(f"{CONFIG_MAPS}/a")).code == 404
    gone = api.server.history("configmaps")[-1]
    assert gone.kind == "DELETED"
    assert gone.current.load()["metadata"]["finalizers"] == ["example.org/one"]


async def test_delete_collection_deletes_only_objects_matching_the_selector(api: Api) -> None:
    for name in "abc":
        await api.post(CONFIG_MAPS, config_map(name, labels={"n": name}))
    reply = await api.delete(f"{CONFIG_MAPS}?labelSelector=n%20in%20(a,b)")
    assert [item["metadata"]["name"] for item in reply.body["items"]] == ["a", "b"]
    assert [item["metadata"]["name"] for item in (await api.get(CONFIG_MAPS)).body["items"]] == ["c", "kube-root-ca.crt"]


async def _owner_and_dependent(api: Api, *, block: bool = False) -> None:
    owner = await api.post(CONFIG_MAPS, config_map("owner"))
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner.body["metadata"]["uid"],
        "blockOwnerDeletion": block,
    }
    await api.post(CONFIG_MAPS, config_map("dependent", ownerReferences=[reference]))


async def _names(api: Api) -> set[str]:
    listed = {item["metadata"]["name"] for item in (await api.get(CONFIG_MAPS)).body["items"]}
    return listed - {"kube-root-ca.crt"}


async def test_dependents_are_deleted_after_their_owner(api: Api) -> None:
    await _owner_and_dependent(api)
    await api.delete(f"{CONFIG_MAPS}/owner")
    await api.server.settle()
    assert await _names(api) == set()


async def test_foreground_deletion_deletes_dependents_before_their_owner(api: Api) -> None:
    await _owner_and_dependent(api, block=True)
    await api.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Foreground"})
    await api.server.settle()
    assert await _names(api) == set()
    gone = [change.current.name for change in api.server.history("configmaps") if change.kind == "DELETED"]
    assert gone == ["dependent", "owner"]


async def test_orphan_policy_keeps_dependents_and_removes_the_owner_reference(api: Api) -> None:
    await _owner_and_dependent(api)
    await api.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Orphan"})
    await api.server.settle()
    assert await _names(api) == {"dependent"}
    assert "ownerReferences" not in (await api.get(f"{CONFIG_MAPS}/dependent")).body["metadata"]


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


async def test_dependent_of_a_nonexistent_owner_is_deleted(api: Api) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": NONE}
    await api.post(CONFIG_MAPS, config_map("dependent", ownerReferences=[reference]))
    await api.server.settle()
    assert await _names(api) == set()


async def test_namespace_is_terminating_until_it_is_empty_and_default_cannot_be_deleted(api: Api) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    await api.post("/api/v1/namespaces/n/configmaps", config_map("a", finalizers=["example.org/x"]))
    assert (await api.delete("/api/v1/namespaces/n")).body["status"]["phase"] == "Terminating"
    refused = await api.post("/api/v1/namespaces/n/configmaps", config_map("b"))
    assert (refused.code, refused.body["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    assert (await api.delete("/api/v1/namespaces/n")).code == 200
    await api.merge("/api/v1/namespaces/n/configmaps/a", {"metadata": {"finalizers": None}})
    await api.server.settle()
    assert (await api.get("/api/v1/namespaces/n")).code == 404
    assert (await api.delete("/api/v1/namespaces/default")).body["message"] == (
        'namespaces "default" is forbidden: this namespace may not be deleted'
    )


async def test_deleting_a_crd_deletes_its_custom_resources(api: Api) -> None:
    await api.post(DEFINITIONS, CRD)
    path = "/apis/example.org/v1/namespaces/default/widgets"
    await api.post(path, {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}})
    await api.delete(f"{DEFINITIONS}/widgets.example.org")
    await api.server.settle()
    assert (await api.get(path)).body == "404 page not found\n"
    await api.post(DEFINITIONS, CRD)
    assert (await api.get(path)).body["items"] == []
