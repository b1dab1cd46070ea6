"""What can be submitted, and what is said of what cannot; and which files are not sent."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pyroclast.api.jobs import Job as Model
from pyroclast_client import errors
from pyroclast_client.checking import checked_job
from pyroclast_client.documents import documents_of, fresh_name
from pyroclast_client.modules import ignored_in

ROOT = """
# comments and blanks are nothing

*.log
!kept.log
/top
build/
docs/*.txt
**/deep/x?.bin
cache/**
[ab].dat
a/**/z
"""
NESTED = "inner.py\n!again.log\n"
PATHS = [
    *("a.log", "src/b.log", "kept.log", "src/kept.log", "top", "src/top", "build/x.py", "src/build/y/z.py", "build.py"),
    *("docs/a.txt", "docs/in/a.txt", "src/docs/a.txt", "deep/x1.bin", "a/b/deep/xy.bin", "deep/x12.bin", "cache/a/b"),
    *("a.dat", "c.dat", "a/z", "a/b/c/z", "src/inner.py", "inner.py", "src/again.log", "src/main.py", "src/more/inner.py"),
]


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git, which is not installed here")
def test_files_are_ignored_as_git_ignores_them(tmp_path):
    (tmp_path / ".gitignore").write_text(ROOT)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / ".gitignore").write_text(NESTED)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    command = ["git", "-C", str(tmp_path), "check-ignore", "--stdin", "--no-index"]
    said = subprocess.run(command, input="\n".join(PATHS), capture_output=True, text=True, check=False)
    is_ignored = ignored_in(tmp_path)
    assert {path for path in PATHS if is_ignored(path)} == set(said.stdout.split())
    assert 10 < len(said.stdout.split()) < len(PATHS) - 5


def test_nothing_is_ignored_without_a_gitignore_file(tmp_path):
    assert not ignored_in(tmp_path)("a/b.py")


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
