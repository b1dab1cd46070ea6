"""Every field of a record exists in the model of its kind (or in the built-in schema) and has the same type."""

from __future__ import annotations

import gc
import inspect
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec import inspect as types

from pyroclast.api import builtin, crds, records
from pyroclast.api.crds import structural_schema
from pyroclast.api.enums import JobPhase, PodGroupPhase, PodPhase
from pyroclast.api.schedulers import SCHEDULER_NAMES, schedulers_of
from pyroclast.api.types import Key

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
    records.NodeHealth: ("", "v1", "Node"),
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
    records.LimitRange: ("", "v1", "LimitRange"),
    records.RuntimeClass: ("node.k8s.io", "v1", "RuntimeClass"),
}
NEWER = {records.BatchJob: [".spec.scheduling: unknown"]}
"""What a later Kubernetes has than the one whose schemas are here; its own PodGroup is too."""
WITHOUT_SCHEMA = {records.NativePodGroup, records.CompositePodGroup, records.DeviceTaintRule}
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
    assert objects - {records.ObjectRecord} == OURS.keys() | BUILT_IN.keys() | WITHOUT_SCHEMA


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


STRUCTS = [
    value
    for value in vars(records).values()
    if inspect.isclass(value) and issubclass(value, msgspec.Struct) and value.__module__.startswith(records.__name__)
]
OBJECTS = [struct for struct in STRUCTS if issubclass(struct, records.ObjectRecord) and struct is not records.ObjectRecord]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_records_are_frozen_untracked_by_gc_and_decoded_from_an_empty_object(struct):
    made = msgspec.json.decode(b"{}", type=struct)
    assert made == struct()
    assert not gc.is_tracked(made)
    assert struct.__struct_config__.frozen


@pytest.mark.parametrize("struct", OBJECTS, ids=lambda struct: struct.__name__)
def test_unknown_fields_pass_and_the_key_is_namespace_and_name(struct):
    body = b'{"kind": "X", "metadata": {"name": "a", "namespace": "b", "managedFields": []}, "later": {"x": 1}}'
    made = msgspec.json.decode(body, type=struct)
    assert made.key == Key("b", "a")


def test_job_record_keeps_pod_templates_and_volume_claims_undecoded():
    body = b"""{"metadata": {"name": "ring", "namespace": "team", "uid": "u", "resourceVersion": "7"},
    "spec": {"minAvailable": 3, "plugins": {"svc": [], "env": ["--x"]},
      "tasks": [{"name": "head", "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}},
                 "policies": [{"event": "PodFailed", "action": "RestartJob", "timeout": "5s"}]}],
      "volumes": [{"mountPath": "/d", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]},
    "status": {"state": {"phase": "Running", "lastTransitionTime": null},
      "taskStatusCount": {"head": {"phase": {"Running": 1}}}}}"""
    job = msgspec.json.decode(body, type=records.Job)
    (task,) = job.spec.tasks
    assert msgspec.json.decode(task.template) == {"spec": {"containers": [{"name": "c"}]}}
    assert msgspec.json.decode(job.spec.volumes[0].volume_claim) == {"accessModes": ["ReadWriteOnce"]}
    assert job.status.state.phase is JobPhase.RUNNING
    assert job.status.task_status_count["head"].phase == {"Running": 1}
    assert job.spec.plugins == {"svc": (), "env": ("--x",)}
    assert job.spec.queue == "default"
    assert task.min_available is None


def test_irregular_api_field_names_are_decoded_into_record_fields():
    pod = msgspec.json.decode(
        b'{"spec": {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "1"}, "gcePersistentDisk": {}}],'
        b'"containers": [{"ports": [{"hostIP": "1.2.3.4", "hostPort": 80}]}]}, "status": {"podIP": "10.0.0.1"}}',
        type=records.Pod,
    )
    assert pod.status.pod_ip == "10.0.0.1"
    assert pod.status.phase is PodPhase.PENDING
    assert pod.spec.containers[0].ports[0].host_ip == "1.2.3.4"
    assert pod.spec.volumes[0].aws_elastic_block_store == {"volumeID": "1"}
    flow = msgspec.json.decode(b'{"status": {"unKnowJobs": ["a"]}, "spec": {"flows": [{"else": ["b"]}]}}', type=records.JobFlow)
    assert flow.status.unknown_jobs == ("a",)
    assert flow.spec.flows[0].otherwise == ("b",)
    group = msgspec.json.decode(b'{"status": {"conditions": [{"transitionID": "s"}]}}', type=records.PodGroup)
    assert group.status.phase is PodGroupPhase.PENDING
    assert group.status.conditions[0].transition_id == "s"


def test_metadata_returns_its_controller_owner_and_whether_it_is_terminating():
    owner = records.OwnerReference(name="b", controller=True)
    meta = records.Meta(owner_references=(records.OwnerReference(name="a"), owner), deletion_timestamp="2026-01-01T00:00:00Z")
    assert meta.controller == owner
    assert meta.is_terminating
    assert records.Meta().controller is None


def test_common_api_modules_import_neither_pydantic_nor_yaml():
    """Pydantic and YAML cost time and memory that services which only keep records should not pay."""
    heavy = "[name for name in ('pydantic', 'yaml') if name in sys.modules]"
    program = f"import sys; from pyroclast.api import enums, keys, records, types; print({heavy})"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout == "[]\n"


NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
AT = NOW.timestamp()


def lease(name: str, *, age: float = 2.0, duration: int = 15, serves: str = "", holder: str = "me", space: str = "system") -> Any:
    renewed = datetime.fromtimestamp(AT - age, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    annotations = {SCHEDULER_NAMES: serves} if serves else {}
    spec = {"holderIdentity": holder, "leaseDurationSeconds": duration, "renewTime": renewed}
    return {"metadata": {"name": name, "namespace": space, "annotations": annotations}, "spec": spec}


CASES = {
    "a Lease serves its own name": ([lease("volcano")], "volcano", True),
    "no other": ([lease("volcano")], "volcan", False),
    "nor one that begins alike": ([lease("volcano-extra")], "volcano", False),
    "a member of a ring serves the name of all": ([lease("volcano-0", age=3600), lease("volcano-1")], "volcano", True),
    "a Lease may say whom it serves": ([lease("lock", serves="a, b")], "b", True),
    "and serves nobody else then": ([lease("lock", serves="a,b")], "lock", False),
    "the scheduler of Kubernetes has another name": ([lease("kube-scheduler")], "default-scheduler", True),
    "the newest of several counts": ([lease("a", space="x"), lease("a", space="y", age=3600)], "a", True),
    "29 s are a pause": ([lease("volcano", age=29)], "volcano", True),
    "31 s are silence": ([lease("volcano", age=31)], "volcano", False),
    "unless the leader renews more seldom": ([lease("volcano", age=50, duration=60)], "volcano", True),
    "one that was given back has 30 s to be taken": ([lease("volcano", age=20, duration=1, holder="")], "volcano", True),
    "one that nobody ever held is none": ([{"metadata": {"name": "volcano"}, "spec": {}}], "volcano", False),
    "nor is one without a time": ([{"metadata": {"name": "volcano"}, "spec": {"renewTime": "soon"}}], "volcano", False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_scheduler_name_is_live_only_if_a_recently_renewed_lease_serves_it(case: tuple[list[Any], str, bool]) -> None:
    leases, name, want = case
    found = schedulers_of(leases, AT)
    assert (name in found.live) is want
    assert (found.absence(name) == "") is want


def test_absence_message_names_the_running_schedulers() -> None:
    found = schedulers_of([lease("volcano", serves="volcano"), lease("kube-scheduler"), lease("cert-manager")], AT)
    want = 'no scheduler named "volcan" is at work; schedulers at work: default-scheduler, volcano'
    assert found.absence("volcan") == want


def test_absence_message_of_a_silent_leader_names_its_lease_and_last_renewal() -> None:
    found = schedulers_of([lease("volcano", age=60, serves="volcano")], AT)
    since = "2026-11-24T11:59:00.000000Z"
    want = f'scheduler "volcano" is silent: its Lease system/volcano was last renewed at {since}; schedulers at work: none'
    assert found.absence("volcano") == want
    assert found.is_known("volcano")


@pytest.mark.parametrize(("heard", "want"), [(AT - 5, True), (AT - 31, False)])
def test_observed_lease_renewal_overrides_the_renew_time_written_by_the_leader(heard: float, *, want: bool) -> None:
    ahead, behind = lease("volcano", age=-7200), lease("volcano", age=7200)
    for each in (ahead, behind):
        assert schedulers_of([each], AT, {"system/volcano": heard}).live == (frozenset({"volcano"}) if want else frozenset())
