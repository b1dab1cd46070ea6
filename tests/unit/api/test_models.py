"""The models of kinds that have no CRD, and what all models have in common."""

from pyroclast.api import crds, hyperjobs
from pyroclast.api.crds import structural_schema


def test_kinds_without_a_crd_have_a_schema_all_the_same():
    schema = structural_schema(hyperjobs.HyperJob)
    assert schema["properties"]["spec"]["type"] == "object"
    assert schema["properties"]["status"]["description"]


def test_a_hyper_job_is_made_of_jobs():
    body = {"spec": {"replicatedJobs": [{"name": "a", "templateSpec": {"queue": "q"}, "splitPolicy": {"mode": "auto"}}]}}
    job = hyperjobs.HyperJob.model_validate(body)
    assert job.spec.replicated_jobs[0].template_spec.queue == "q"
    assert job.spec.replicated_jobs[0].replicas == 1


def test_model_accepts_python_field_names_and_dumps_api_field_names():
    (model,) = (kind.model for kind in crds.KINDS if kind.resource.kind == "Command")
    made = model(action="AbortJob", target={"api_version": "v", "kind": "Job", "name": "a", "uid": "u"})
    assert made.model_dump(by_alias=True, exclude_none=True) == {
        "action": "AbortJob",
        "target": {"apiVersion": "v", "kind": "Job", "name": "a", "uid": "u"},
    }
