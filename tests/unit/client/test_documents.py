"""What can be submitted, and what is said of what cannot."""

import pytest

from pyroclast.api.jobs import Job as Model
from pyroclast_client import errors
from pyroclast_client.checking import checked_job
from pyroclast_client.documents import documents_of, fresh_name

TEXT = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec:
  tasks:
    - name: main
      replicas: 1
      template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}
"""


def test_a_model_a_dict_a_file_and_text_are_the_same_manifest(tmp_path):
    (document,) = documents_of(TEXT)
    path = tmp_path / "job.yaml"
    path.write_text(TEXT)
    assert documents_of(path) == documents_of(str(path)) == documents_of(document) == [document]
    (of_model,) = documents_of(Model.model_validate(document))
    assert (of_model["metadata"], of_model["spec"]["tasks"]) == (document["metadata"], document["spec"]["tasks"])


def test_given_manifest_is_not_modified_by_changes_to_the_document():
    given = {"spec": {"tasks": []}}
    (document,) = documents_of(given)
    document["spec"]["queue"] = "q"
    assert given == {"spec": {"tasks": []}}


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        (3, errors.Usage, "int cannot be submitted"),
        ("missing.yaml", errors.Usage, "missing.yaml: No such file"),
        ("a: [", errors.Rejected, "not YAML"),
        ("- a\n- b", errors.Rejected, "holds no manifest"),
        ({"apiVersion": "v1", "kind": "Pod"}, errors.Rejected, "Pod of v1 cannot be submitted"),
    ],
)
def test_unsupported_or_invalid_manifest_is_refused_with_the_reason(given, kind, words):
    with pytest.raises(kind, match=words):
        documents_of(given)


def test_all_rule_violations_of_a_job_are_reported_at_once_with_field_paths():
    (document,) = documents_of(TEXT)
    task = document["spec"]["tasks"][0]
    document["spec"] |= {"minAvailable": 5, "plugins": {"nonsense": []}, "tasks": [task, task]}
    document["spec"]["policies"] = [{"event": "PodFailed", "action": "Explode"}]
    with pytest.raises(errors.Rejected) as caught:
        checked_job(document)
    (document,) = documents_of(TEXT)
    fields = {cause.field for cause in caught.value.causes}
    assert fields == {"spec.minAvailable", "spec.plugins", "spec.tasks[1].name", "spec.policies[0].action"}, caught.value


def test_all_schema_violations_of_a_job_are_reported_at_once_with_field_paths():
    (document,) = documents_of(TEXT)
    document["spec"] |= {"minAvailable": "two", "queu": "q", "maxRetry": -1}
    document["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["imag"] = "busybox"
    with pytest.raises(errors.Rejected) as caught:
        checked_job(document)
    fields = {cause.field for cause in caught.value.causes}
    assert fields == {
        "spec.minAvailable",
        "spec.queu",
        "spec.maxRetry",
        "spec.tasks[0].template.spec.containers[0].imag",
    }


def test_fresh_names_are_valid_kubernetes_names_and_unique():
    assert fresh_name("My_Function.v2").startswith("my-function-v2-")
    assert fresh_name("2x").startswith("job-2x-")
    assert len(fresh_name("x" * 300)) == 46
    assert fresh_name("a") != fresh_name("a")
