"""OpenAPI documents: what kubectl's explain, create and apply read."""

import json
import re

from pyroclast.api import builtin
from pyroclast_standalone.apiserver.documents.openapi import ServedResource, document
from tests.unit.apiserver_documents.conftest import WIDGET_SCHEMA

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CONFIG_MAP = ServedResource("", "v1", "ConfigMap", "configmaps", namespaced=True, verbs=VERBS)
WIDGET = ServedResource(
    "recorded.example.org",
    "v1",
    "W",
    "ws",
    namespaced=True,
    verbs=VERBS,
    schema=WIDGET_SCHEMA,
)


def operation(made, path, method):
    return made["paths"][path][method]


def parameters(made, path, method):
    return {each["name"] for each in made["paths"][path].get("parameters", []) + operation(made, path, method)["parameters"]}


def test_patch_operations_list_their_content_types_and_parameters():
    built_in, custom = document("", "v1", [CONFIG_MAP]), document("recorded.example.org", "v1", [WIDGET])
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
    made = document("", "v1", [CONFIG_MAP])
    post = operation(made, "/api/v1/namespaces/{namespace}/configmaps", "post")
    assert post["x-kubernetes-action"] == "post"
    assert post["x-kubernetes-group-version-kind"] == {"group": "", "kind": "ConfigMap", "version": "v1"}
    assert {"fieldValidation", "dryRun"} <= parameters(made, "/api/v1/namespaces/{namespace}/configmaps", "post")


def test_every_schema_reference_resolves():
    for group, served in (("", CONFIG_MAP), ("recorded.example.org", WIDGET)):
        made = document(group, "v1", [served])
        schemas = made["components"]["schemas"]
        named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(made)))
        assert named <= set(schemas)
        assert made["openapi"].startswith("3.")


def test_custom_resource_schemas_are_published():
    schemas = document("recorded.example.org", "v1", [WIDGET])["components"]["schemas"]
    widget = schemas["org.example.recorded.v1.W"]
    assert widget["x-kubernetes-group-version-kind"] == [{"group": "recorded.example.org", "kind": "W", "version": "v1"}]
    assert set(widget["properties"]) == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert widget["properties"]["spec"]["properties"]["size"]["maximum"] == 10
    assert "org.example.recorded.v1.WList" in schemas


def test_built_in_schemas_have_merge_keys_and_patch_strategies():
    pod = ServedResource("", "v1", "Pod", "pods", namespaced=True, verbs=VERBS)
    schemas = document("", "v1", [pod])["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert schemas["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]


def test_enum_values_are_published_and_refer_to_fields_without_an_enum():
    pods = ServedResource("", "v1", "Pod", "pods", namespaced=True, verbs=("list",))
    schemas = document("", "v1", [pods])["components"]["schemas"]
    assert schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["restartPolicy"]["enum"] == ["Always", "Never", "OnFailure"]
    definitions = builtin.definitions()
    for name in builtin.enumerations():
        definition, _, field = name.rstrip("[]{}").rpartition(".")
        assert "enum" not in definitions[definition]["properties"][field]
