"""Every field of a record exists in the model of its kind (or in the built-in schema) and has the same type."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec import inspect as types

from pyroclast.api import builtin, crds, records
from pyroclast.api.crds import structural_schema

OURS = {
    records.Job: "Job",
    records.CronJob: "CronJob",
    records.Command: "Command",
    records.PodGroup: "PodGroup",
    records.Queue: "Queue",
    records.JobFlow: "JobFlow",
    records.JobTemplate: "JobTemplate",
    records.HyperNode: "HyperNode",
    records.Numatopology: "Numatopology",
    records.NodeShard: "NodeShard",
    records.ColocationConfiguration: "ColocationConfiguration",
    records.HyperJob: "HyperJob",
}
BUILT_IN = {
    records.Pod: ("", "v1", "Pod"),
    records.Node: ("", "v1", "Node"),
    records.NodeMeta: ("", "v1", "Node"),
    records.PodMeta: ("", "v1", "Pod"),
    records.Namespace: ("", "v1", "Namespace"),
    records.ConfigMap: ("", "v1", "ConfigMap"),
    records.Secret: ("", "v1", "Secret"),
    records.Service: ("", "v1", "Service"),
    records.PersistentVolumeClaim: ("", "v1", "PersistentVolumeClaim"),
    records.ResourceQuota: ("", "v1", "ResourceQuota"),
    records.PodDisruptionBudget: ("policy", "v1", "PodDisruptionBudget"),
    records.PriorityClass: ("scheduling.k8s.io", "v1", "PriorityClass"),
    records.NetworkPolicy: ("networking.k8s.io", "v1", "NetworkPolicy"),
    records.ReplicaSet: ("apps", "v1", "ReplicaSet"),
    records.StatefulSet: ("apps", "v1", "StatefulSet"),
    records.BatchJob: ("batch", "v1", "Job"),
    records.PersistentVolume: ("", "v1", "PersistentVolume"),
    records.StorageClass: ("storage.k8s.io", "v1", "StorageClass"),
    records.CsiNode: ("storage.k8s.io", "v1", "CSINode"),
    records.CsiDriver: ("storage.k8s.io", "v1", "CSIDriver"),
    records.CsiStorageCapacity: ("storage.k8s.io", "v1", "CSIStorageCapacity"),
    records.DeviceClass: ("resource.k8s.io", "v1", "DeviceClass"),
    records.ResourceClaim: ("resource.k8s.io", "v1", "ResourceClaim"),
    records.ResourceSlice: ("resource.k8s.io", "v1", "ResourceSlice"),
}
NEWER = {records.BatchJob: [".spec.scheduling: unknown"]}
"""What a later Kubernetes has than the one whose schemas are here; its own PodGroup is too."""
MODELS = {kind.resource.kind: kind.model for kind in crds.KINDS}


def resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = builtin.definitions()[schema["$ref"].removeprefix("#/components/schemas/")]
    return schema


def differences(found: types.Type, schema: Mapping[str, Any], path: str) -> list[str]:
    schema = resolve(schema)
    match found:
        case types.UnionType():
            some = [option for option in found.types if not isinstance(option, types.NoneType)]
            if len(some) == 1:
                return differences(some[0], schema, path)
            is_quantity = schema.get("x-kubernetes-int-or-string") or "oneOf" in schema
            return [] if is_quantity else [f"{path}: not an int or string"]
        case types.StructType():
            fields = ((field, schema.get("properties", {}).get(field.encode_name)) for field in found.fields)
            return [
                problem
                for field, inner in fields
                for problem in (
                    [f"{path}.{field.encode_name}: unknown"]
                    if inner is None
                    else []
                    if (path, field.encode_name) == ("", "metadata")
                    else differences(field.type, inner, f"{path}.{field.encode_name}")
                )
            ]
        case types.VarTupleType():
            return (
                differences(found.item_type, schema["items"], f"{path}[]") if schema["type"] == "array" else [f"{path}: no list"]
            )
        case types.DictType() if not isinstance(found.value_type, types.AnyType):
            return differences(found.value_type, schema["additionalProperties"], f"{path}{{}}")
        case types.DictType() | types.RawType():
            return [] if schema["type"] == "object" else [f"{path}: no object"]
        case types.EnumType():
            words = {word.value for word in found.cls if word.value}
            return [] if schema["type"] == "string" and words >= set(schema.get("enum", words)) else [f"{path}: other words"]
    wanted = {types.StrType: "string", types.IntType: "integer", types.BoolType: "boolean"}[type(found)]
    return [] if schema.get("type") == wanted else [f"{path}: {wanted} here, {schema.get('type')} in the model"]


@pytest.mark.parametrize("record", OURS, ids=OURS.values())
def test_record_fields_exist_in_the_model_of_their_kind_with_the_same_type(record):
    assert differences(types.type_info(record), structural_schema(MODELS[OURS[record]]), "") == []


@pytest.mark.parametrize("record", BUILT_IN, ids=[record.__name__ for record in BUILT_IN])
def test_record_fields_of_built_in_kinds_exist_in_the_schema_with_the_same_type(record):
    schema = builtin.definition_of(*BUILT_IN[record])
    assert schema is not None
    assert differences(types.type_info(record), schema, "") == NEWER.get(record, [])


def test_fields_of_the_metadata_record_exist_in_object_meta_with_the_same_type():
    schema = builtin.definitions()["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]
    assert differences(types.type_info(records.Meta), schema, "metadata") == []


def test_every_object_record_is_listed_for_comparison_with_a_schema():
    objects = {value for value in vars(records).values() if isinstance(value, type) and issubclass(value, records.ObjectRecord)}
    assert objects - {records.ObjectRecord} == OURS.keys() | BUILT_IN.keys() | {records.NativePodGroup, records.CompositePodGroup}


def other_defaults(found: types.Type, schema: Mapping[str, Any], path: str) -> list[str]:
    wrong = []
    match found:
        case types.UnionType():
            for option in found.types:
                wrong += other_defaults(option, schema, path)
        case types.StructType():
            for field in found.fields:
                inner = schema.get("properties", {}).get(field.encode_name, {})
                if "default" in inner and field.default != inner["default"]:
                    wrong.append(f"{path}.{field.encode_name}: {field.default!r}, not {inner['default']!r}")
                wrong += other_defaults(field.type, inner, f"{path}.{field.encode_name}")
        case types.VarTupleType():
            wrong += other_defaults(found.item_type, schema.get("items", {}), f"{path}[]")
        case types.DictType():
            wrong += other_defaults(found.value_type, schema.get("additionalProperties", {}), f"{path}{{}}")
    return wrong


@pytest.mark.parametrize("record", OURS, ids=OURS.values())
def test_defaults_of_records_equal_those_of_the_model_also_in_items_of_lists_and_maps(record):
    """A record may not read an absent field as something else than the schema would have made of it."""
    assert other_defaults(types.type_info(record), structural_schema(MODELS[OURS[record]]), "") == []


def test_model_keeps_unknown_fields():
    body = {
        "apiVersion": "v",
        "kind": "Job",
        "metadata": {"name": "a", "later": 1},
        "spec": {"tasks": [{"name": "t", "x": {"y": 2}}], "z": 3},
    }
    job = MODELS["Job"].model_validate(body)
    assert job.model_dump(by_alias=True, exclude_unset=True) == body
    assert msgspec.json.decode(job.model_dump_json(by_alias=True, exclude_unset=True)) == body
    assert job.spec.tasks[0].name == "t"
    assert job.spec.queue == "default"
