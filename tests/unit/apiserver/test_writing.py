"""Creates, updates, patches: what is stored, what is refused, in which words."""

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


async def test_server_overrides_uid_and_creation_timestamp_of_a_new_object(api: Api) -> None:
    reply = await api.post(CONFIG_MAPS, config_map("a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", selfLink="x"))
    metadata = reply.body["metadata"]
    assert reply.code == 201
    assert metadata["uid"] != "mine"
    assert not metadata["creationTimestamp"].startswith("2001")
    assert "selfLink" not in metadata
    assert metadata["managedFields"][0]["operation"] == "Update"


async def test_generate_name_yields_unique_names_with_the_prefix(api: Api) -> None:
    replies = [await api.post(CONFIG_MAPS, {"metadata": {"generateName": "g-"}}) for _ in range(3)]
    names = {reply.body["metadata"]["name"] for reply in replies}
    assert len(names) == 3
    assert all(name.startswith("g-") and len(name) == 7 for name in names)


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "message"),
    [
        ("POST", CONFIG_MAPS, config_map("a"), 409, 'configmaps "a" already exists'),
        (
            "POST",
            CONFIG_MAPS,
            config_map("b", resourceVersion="1"),
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            "POST",
            CONFIG_MAPS,
            config_map("b", namespace="other"),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        ("POST", "/api/v1/namespaces/none/configmaps", config_map("b"), 404, 'namespaces "none" not found'),
        ("PUT", f"{CONFIG_MAPS}/a", config_map("b"), 400, "the name of the object (b) does not match the name on the URL (a)"),
        ("PUT", f"{CONFIG_MAPS}/none", config_map("none"), 404, 'configmaps "none" not found'),
        (
            "PUT",
            f"{CONFIG_MAPS}/a",
            config_map("a", resourceVersion="1"),
            409,
            'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes',
        ),
        (
            "PUT",
            f"{CONFIG_MAPS}/a",
            config_map("a", resourceVersion="x"),
            500,
            'strconv.ParseUint: parsing "x": invalid syntax',
        ),
        ("POST", CONFIG_MAPS, "{bad", 400, "the object provided is unrecognized (must be of type ConfigMap)"),
        (
            "POST",
            CONFIG_MAPS,
            {"kind": "Pod", "metadata": {"name": "x"}},
            400,
            "converting (v1.Pod) to (core.ConfigMap): unknown",
        ),
        ("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", {**config_map("x"), "no": 1}, 400, 'unknown field "no"'),
        ("POST", f"{CONFIG_MAPS}?fieldValidation=What", config_map("x"), 422, 'fieldValidation: Unsupported value: "What"'),
        ("POST", f"{CONFIG_MAPS}?dryRun=Some", config_map("x"), 422, "dryRun: Unsupported value"),
    ],
)
async def test_invalid_writes_are_refused_with_code_and_message(
    api: Api, method: str, path: str, body: object, code: int, message: str
) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    reply = await api.call(method, path, body)
    assert reply.code == code
    assert message in reply.body["message"]


async def test_yaml_body_is_accepted_and_other_types_or_large_bodies_are_refused(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    yaml = "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: a\ndata: {n: '1'}\n"
    assert (await api.call("POST", CONFIG_MAPS, yaml, content_type="application/yaml")).code == 201
    assert (await api.call("POST", CONFIG_MAPS, "x", content_type="text/plain")).code == 415
    monkeypatch.setattr("pyroclast_standalone.apiserver.http.MAX_BODY", 1000)
    huge = await api.post(CONFIG_MAPS, config_map("b", {"a": "x" * 1000}))
    assert (huge.code, huge.reason) == (413, "RequestEntityTooLarge")


async def test_unknown_fields_are_dropped_with_a_warning(api: Api) -> None:
    reply = await api.post(CONFIG_MAPS, {**config_map("a"), "no": 1})
    assert reply.warnings == ['299 - "unknown field \\"no\\""']
    assert "no" not in reply.body


async def test_dry_runs_store_nothing(api: Api) -> None:
    revision = api.server.server.store.revision
    made = await api.post(f"{CONFIG_MAPS}?dryRun=All", config_map("a"))
    assert (made.code, "resourceVersion" in made.body["metadata"]) == (201, False)
    assert made.body["metadata"]["uid"]
    assert api.server.server.store.revision == revision
    stored = await api.post(CONFIG_MAPS, config_map("a"))
    changed = await api.merge(f"{CONFIG_MAPS}/a?dryRun=All", {"data": {"a": "9"}})
    assert (changed.body["data"], changed.version) == ({"a": "9"}, stored.version)
    assert (await api.get(f"{CONFIG_MAPS}/a")).body["data"] == {"a": "1"}


@pytest.mark.parametrize(
    ("content_type", "patch", "code"),
    [
        ("application/json-patch+json", [{"op": "replace", "path": "/data/a", "value": "2"}], 200),
        ("application/merge-patch+json", {"data": {"a": "2"}}, 200),
        ("application/strategic-merge-patch+json", {"data": {"a": "2"}}, 200),
        ("application/json-patch+json", {"data": {"a": "2"}}, 400),
        ("application/json-patch+json", [{"op": "test", "path": "/data/a", "value": "9"}], 422),
        ("application/merge-patch+json", "{bad", 400),
        ("application/merge-patch+json", {"data": 5}, 422),
        ("application/merge-patch+json", {"metadata": {"resourceVersion": "1"}}, 409),
        ("application/merge-patch+json", {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}, 422),
        ("text/plain", {"data": {"a": "2"}}, 415),
        ("application/apply-patch+yaml", {"data": {"a": "2"}}, 422),
    ],
)
async def test_patch_is_applied_or_refused_with_the_matching_status_code(
    api: Api, content_type: str, patch: object, code: int
) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    reply = await api.call("PATCH", f"{CONFIG_MAPS}/a", patch, content_type=content_type)
    assert reply.code == code
    if code == 200:
        assert reply.body["data"] == {"a": "2"}


async def test_server_side_apply_conflicts_with_fields_of_another_manager_unless_forced(api: Api) -> None:
    def apply(manager: str, value: str, **more: str) -> object:
        query = "&".join([f"fieldManager={manager}", *(f"{name}={text}" for name, text in more.items())])
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": value}}
        return api.call("PATCH", f"{CONFIG_MAPS}/a?{query}", body, content_type="application/apply-patch+yaml")

    made = await apply("one", "1")  # type: ignore[misc]
    assert made.code == 201
    assert (await apply("one", "1")).version == made.version  # type: ignore[misc]
    conflict = await apply("two", "2")  # type: ignore[misc]
    assert (conflict.code, conflict.reason) == (409, "Conflict")
    assert conflict.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
    ]
    assert (await apply("two", "2", force="true")).body["data"] == {"a": "2"}  # type: ignore[misc]


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


async def test_status_and_spec_of_a_custom_resource_are_written_separately(api: Api) -> None:
    await api.post(DEFINITIONS, CRD)
    made = await api.post(WIDGETS, {**widget("a"), "status": {"phase": "no"}})
    assert "status" not in made.body
    assert (made.body["metadata"]["generation"], made.body["spec"]["color"]) == (1, "red")
    told = await api.merge(f"{WIDGETS}/a/status", {"status": {"phase": "ok"}, "spec": {"size": 9}})
    assert (told.body["status"], told.body["spec"]["size"], told.body["metadata"]["generation"]) == ({"phase": "ok"}, 1, 1)
    wished = await api.merge(f"{WIDGETS}/a", {"status": {"phase": "no"}, "spec": {"size": 9}})
    assert (wished.body["status"], wished.body["spec"]["size"], wished.body["metadata"]["generation"]) == ({"phase": "ok"}, 9, 2)


async def test_custom_resource_put_needs_a_version_and_strategic_merge_is_refused(api: Api) -> None:
    await api.post(DEFINITIONS, CRD)
    await api.post(WIDGETS, widget("a"))
    blind = await api.put(f"{WIDGETS}/a", widget("a", size=2))
    assert (blind.code, blind.body["details"]["kind"]) == (422, "widgets")
    assert "must be specified for an update" in blind.body["message"]
    strategic = await api.call("PATCH", f"{WIDGETS}/a", {}, content_type="application/strategic-merge-patch+json")
    assert strategic.code == 415
    assert "application/apply-patch+yaml" in strategic.body["message"]
    small = await api.post(WIDGETS, widget("b", size=0))
    assert small.body["message"] == (
        'Widget.example.org "b" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1'
    )
    assert (await api.get(f"{WIDGETS}/a/nothing")).body["message"] == 'widgets.example.org "a" not found'


async def test_scale_reads_and_writes_replicas_where_the_definition_says(api: Api) -> None:
    await api.post(DEFINITIONS, CRD)
    await api.post(WIDGETS, widget("a", size=1, replicas=2))
    assert (await api.get(f"{WIDGETS}/a/scale")).body["spec"] == {"replicas": 2}
    assert (await api.merge(f"{WIDGETS}/a/scale", {"spec": {"replicas": 5}})).body["spec"] == {"replicas": 5}
    assert (await api.get(f"{WIDGETS}/a")).body["spec"]["replicas"] == 5
    assert (await api.merge(f"{WIDGETS}/a/scale", {"spec": {"replicas": -1}})).code == 422


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


async def test_new_pod_gets_default_account_priority_tolerations_and_token_mount(api: Api) -> None:
    spec = (await api.post(PODS, pod("a"))).body["spec"]
    assert spec["serviceAccountName"] == "default"
    assert spec["priority"] == 0
    assert [each["key"] for each in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert spec["containers"][0]["volumeMounts"][0]["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    refused = await api.post(PODS, pod("b", priorityClassName="none"))
    assert refused.body["message"] == 'pods "b" is forbidden: no PriorityClass with name none was found'
    refused = await api.post(PODS, pod("b", serviceAccountName="none"))
    assert "error looking up service account default/none" in refused.body["message"]
