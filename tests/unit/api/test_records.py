"""The records that informers keep."""

import gc
import inspect
import subprocess
import sys

import msgspec
import pytest

from pyroclast.api import records
from pyroclast.api.enums import JobPhase, PodGroupPhase, PodPhase
from pyroclast.api.types import Key

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
