"""The checked-in definitions of the built-in kinds."""

from importlib import resources

import pytest

from pyroclast.api import builtin
from pyroclast.api.builtin.__main__ import generate
from pyroclast.api.builtin.structural import QUANTITY

POD_SPEC = builtin.structural_schema(builtin.POD_TEMPLATE)["properties"]["spec"]["properties"]
CONTAINER = POD_SPEC["containers"]["items"]


def test_schema_files_equal_the_generator_output_and_stay_below_600_kb():
    want = generate()
    assert want[builtin.DEFINITIONS_FILE] == builtin.definitions()
    assert want[builtin.STRUCTURAL_FILE] == {
        "io.k8s.api.core.v1.PodTemplateSpec": builtin.structural_schema(builtin.POD_TEMPLATE),
        "io.k8s.api.core.v1.PersistentVolumeClaimSpec": builtin.structural_schema(builtin.PVC_SPEC),
        "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector": builtin.structural_schema(builtin.LABEL_SELECTOR),
    }
    sizes = [file.stat().st_size for file in (resources.files(builtin) / "data").iterdir()]
    assert sum(sizes) < 600_000


@pytest.mark.parametrize(
    ("group", "version", "kind", "want"),
    [
        ("", "v1", "Pod", "spec"),
        ("apps", "v1", "Deployment", "spec"),
        ("rbac.authorization.k8s.io", "v1", "ClusterRole", "rules"),
        ("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", "spec"),
    ],
)
def test_a_kind_is_found_by_group_version_and_name(group, version, kind, want):
    found = builtin.definition_of(group, version, kind)
    assert found is not None
    assert want in found["properties"]


def test_kinds_that_are_not_built_in_are_not_found():
    assert builtin.definition_of("batch.volcano.sh", "v1alpha1", "Job") is None
    assert builtin.definition_of("", "v1", "DeleteOptions") is None


def test_every_schema_reference_resolves_and_no_field_is_nullable():
    definitions = builtin.definitions()

    def walk(node):
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str):
                assert reference.removeprefix("#/components/schemas/") in definitions
            assert not isinstance(node.get("type"), list)
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(definitions)


def test_built_in_schemas_keep_patch_and_list_extensions():
    containers = builtin.definitions()["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["description"]


def test_the_pod_template_keeps_five_fields_of_metadata():
    metadata = builtin.structural_schema(builtin.POD_TEMPLATE)["properties"]["metadata"]["properties"]
    assert sorted(metadata) == ["annotations", "finalizers", "labels", "name", "namespace"]


def test_the_pod_template_carries_defaults_and_required_fields_of_the_go_types():
    assert CONTAINER["required"] == ["name"]
    assert CONTAINER["properties"]["ports"]["items"]["properties"]["protocol"]["default"] == "TCP"
    assert CONTAINER["properties"]["livenessProbe"]["properties"]["grpc"]["properties"]["service"]["default"] == ""
    assert POD_SPEC["imagePullSecrets"]["items"]["properties"]["name"]["default"] == ""
    assert POD_SPEC["volumes"]["items"]["properties"]["rbd"]["properties"]["pool"]["default"] == "rbd"
    assert CONTAINER["properties"]["resources"]["properties"]["limits"]["additionalProperties"] == QUANTITY


def test_keys_of_map_lists_are_required_or_defaulted():
    def walk(node):
        if not isinstance(node, dict):
            return
        if node.get("x-kubernetes-list-type") == "map":
            for key in node["x-kubernetes-list-map-keys"]:
                assert key in node["items"].get("required", ()) or "default" in node["items"]["properties"][key]
        for value in node.values():
            walk(value)

    walk(builtin.structural_schema(builtin.POD_TEMPLATE))
