"""`vcctl lint`: the rules of the webhooks and the schemas, without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pyroclast_cli import programs
from pyroclast_cli.views.manifests import check_manifests

EXAMPLES = Path(__file__).parents[3] / "examples"
INVALID = set((EXAMPLES / "invalid").glob("*.yaml"))
NEEDS_A_CLUSTER = EXAMPLES / "invalid" / "queue-missing.yaml"
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}


def job(**spec) -> dict:
    tasks = [{"name": "main", "replicas": 1, "template": TEMPLATE}]
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"tasks": tasks, **spec}}


def faults(*documents) -> list[str]:
    return [fault for each in check_manifests(documents, "team") for fault in each.faults]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_lint_accepts_every_valid_example_manifest(file):
    assert faults(*yaml.safe_load_all(file.read_text())) == []


@pytest.mark.parametrize("file", sorted(INVALID - {NEEDS_A_CLUSTER}), ids=lambda file: file.stem)
def test_lint_refuses_every_invalid_example_manifest(file):
    assert faults(*yaml.safe_load_all(file.read_text()))


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (job(minAvailabel=1), "spec.minAvailabel: unknown field"),
        (job(minAvailable="two"), "spec.minAvailable: must be an integer, not a string"),
        (job(tasks={"name": "main"}), "spec.tasks: must be an array, not an object"),
        (job(minAvailable=True), "spec.minAvailable: must be an integer, not a boolean"),
        ({**job(), "spce": {}}, "spce: unknown field"),
        ({**job(), "kind": "Jbo"}, "kind: there is no Jbo of batch.volcano.sh/v1alpha1"),
        (job(minAvailable=5), "job 'minAvailable' should not be greater than total replicas in tasks"),
        (job(queue="root"), "can not submit job to root queue"),
    ],
)
def test_lint_fault_names_the_invalid_field_or_rule(document, fault):
    (found,) = faults(document)
    assert found.startswith(fault)


def test_lint_checks_a_job_against_queues_of_the_same_manifests():
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team"}}
    below = {**queue, "metadata": {"name": "below"}, "spec": {"parent": "team"}}
    (found,) = faults(queue, below, job(queue="team"))
    assert "team" in found


def test_lint_checks_a_jobflow_against_jobtemplates_of_the_same_manifests():
    template = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "metadata": {"name": "a"}, "spec": job()["spec"]}
    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "f"}}
    flow["spec"] = {"jobRetainPolicy": "retain", "flows": [{"name": "a", "patch": {"spec": {"minAvailable": 5}}}]}
    assert faults(flow) == []
    (found,) = faults(template, flow)
    assert "'minAvailable' should not be greater than total replicas" in found


def test_lint_warns_that_an_object_of_another_kind_was_not_checked():
    (checked,) = check_manifests([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}], "team")
    assert (checked.name, checked.faults) == ("Pod team/x", ())
    assert "was not checked" in checked.warnings[0]


@pytest.mark.parametrize(
    ("text", "status", "line"),
    [
        (yaml.safe_dump(job()), 0, "1 object checked, 0 errors"),
        (yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": [job(), job(x=1)]}), 1, "2 objects checked, 1 error"),
        ("", 0, "0 objects checked, 0 errors"),
    ],
)
def test_lint_exit_status_is_1_if_any_object_has_errors(text, status, line, tmp_path, capsys):
    (tmp_path / "job.yaml").write_text(text)
    assert programs.vcctl(["lint", "-f", str(tmp_path / "job.yaml")]) == status
    assert capsys.readouterr().out.splitlines()[-1] == line


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "is not YAML, line 2"), ("- 1", "each document must be an object"), (None, "No such file")],
)
def test_lint_reports_an_unreadable_manifest_in_one_line(text, message, tmp_path, capsys):
    if text is not None:
        (tmp_path / "job.yaml").write_text(text)
    assert programs.vcctl(["lint", str(tmp_path / "job.yaml")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
