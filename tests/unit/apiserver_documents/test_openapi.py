"""OpenAPI documents: what kubectl's explain, create and apply read."""

import json
import re

from pyroclast.api import builtin
from pyroclast_standalone.apiserver.kinds import custom_strategy, strategy_of
from pyroclast_standalone.apiserver.storage.registry import Resource
from pyroclast_standalone.apiserver.storage.store import Collection
from pyroclast_standalone.apiserver.verbs.openapi import document
from tests.unit.apiserver_documents.conftest import WIDGETS

KEPT = Collection("things", 1, 0)
CONFIG_MAP, POD = (Resource(strategy_of("", "v1", kind), KEPT) for kind in ("ConfigMap", "Pod"))
WIDGET = Resource(custom_strategy(WIDGETS, "v1"), KEPT)


def operation(made, path, method):
    return made["paths"][path][method]


def parameters(made, path, method):
    return {each["name"] for each in made["paths"][path].get("parameters", []) + operation(made, path, method)["parameters"]}


def test_patch_operations_list_their_content_types_and_parameters():
    built_in, custom = document([CONFIG_MAP]), document([WIDGET])
    path = "/api/v1/namespaces/{namespace}/configmaps/{name}"
    types = set(operation(built_in, path, "patch")["requestBody"]["content"])
    assert types == {
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    }
    assert {"fieldValidation", "fieldManager", "dryRun", "force"} <= parameters(built_in, path, "patch")
    path = "/apis/recorded.example.org/v1/namespaces/{namespace}/ws/{name}"
    assert "application/strategic-merge-patch+json" not in operation(custom, path, "patch")["requestBody"]["content"]
    assert {"fieldValidation", "fieldManager"} <= parameters(custom, path, "patch")


def test_operations_name_their_kind_and_action():
    made = document([CONFIG_MAP])
    post = operation(made, "/api/v1/namespaces/{namespace}/configmaps", "post")
    assert post["x-kubernetes-action"] == "post"
    assert post["x-kubernetes-group-version-kind"] == {"group": "", "kind": "ConfigMap", "version": "v1"}
    assert {"fieldValidation", "dryRun"} <= parameters(made, "/api/v1/namespaces/{namespace}/configmaps", "post")


def test_every_schema_reference_resolves():
    for served in (CONFIG_MAP, WIDGET):
        made = document([served])
        schemas = made["components"]["schemas"]
        named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(made)))
        assert named <= set(schemas)
        assert made["openapi"].startswith("3.")


def test_custom_resource_schemas_are_published():
    schemas = document([WIDGET])["components"]["schemas"]
    widget = schemas["org.example.recorded.v1.W"]
    assert widget["x-kubernetes-group-version-kind"] == [{"group": "recorded.example.org", "kind": "W", "version": "v1"}]
    assert set(widget["properties"]) == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert widget["properties"]["spec"]["properties"]["size"]["maximum"] == 10
    assert "org.example.recorded.v1.WList" in schemas


def test_built_in_schemas_have_merge_keys_and_patch_strategies():
    schemas = document([POD])["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert schemas["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]


def test_enum_values_are_published_and_refer_to_fields_without_an_enum():
    schemas = document([POD])["components"]["schemas"]
    assert schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["restartPolicy"]["enum"] == ["Always", "Never", "OnFailure"]
    definitions = builtin.definitions()
    for name in builtin.enumerations():
        definition, _, field = name.rstrip("[]{}").rpartition(".")
        assert "enum" not in definitions[definition]["properties"][field]
