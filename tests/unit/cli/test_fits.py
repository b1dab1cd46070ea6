"""Whether the Job of a manifest is valid, by the rules of the webhooks, and would start, by the scheduler alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pyroclast_cli import programs
from pyroclast_cli.views.manifests import check_manifests
from tests.unit.cli.golden.server import serving

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


MANIFEST = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: ask}
spec:
  queue: research
  tasks:
  - name: main
    replicas: 2
    template: {spec: {containers: [{name: c, image: busybox, resources: {requests: {cpu: CPU}}}]}}
"""


def answer(code: str | None, sentence: str, *, never: bool = False) -> dict[str, Any]:
    """What the scheduler says of a Job that it tried."""
    waits = {"waitedSeconds": 0, "start": None, "startReason": "it does not wait yet", "help": "wait", "doc": "docs/codes.md"}
    named = {"metadata": {"namespace": "default", "name": "ask"}, "queue": "research"}
    said = {"code": code, "never": never, "sentence": sentence, "asOf": "2026-03-01T12:00:00Z", "complete": True}
    return {"kind": "Explanation", **named, **said, **(waits if code else {})}


STARTS = answer(None, "it would start at once")
WAITS = answer("QueueFull", "not now: it asks for 6 cpu")
NEVER = answer("AboveQueueLimit", "never: it asks for 60 cpu", never=True)
REFUSED = {"kind": "Status", "message": "this Job cannot be tried: it has more than 20000 pods", "code": 400}
JOB = MANIFEST.replace("CPU", "1")
TYPO = JOB.replace("  queue:", "  schedulerName: volcan\n  queue:")


@pytest.mark.parametrize(
    ("text", "flags", "fits", "status", "line"),
    [
        (JOB, [], STARTS, 0, "default/ask in queue research: it would start at once"),
        (JOB, [], WAITS, 0, "default/ask would wait in queue research: QueueFull, not now"),
        (JOB, [], NEVER, 3, "default/ask would wait in queue research: AboveQueueLimit, never"),
        (JOB, [], REFUSED, 1, "this Job cannot be tried: it has more than 20000 pods"),
        (JOB, [], None, 5, "only the scheduler can try a Job: "),
        (TYPO, [], None, 0, "default/ask in queue research: NoScheduler"),
        (JOB, ["-q", "nightly"], None, 1, "it would be refused: can only submit job to queue with state"),
        (JOB, ["-q", "nothing"], None, 1, "it would be refused: unable to find job queue"),
        (JOB.replace("replicas", "replikas"), [], None, 1, "it would be refused: "),
        ("kind: Pod", [], None, 1, "there must be one Job of batch.volcano.sh/v1alpha1, and there are 0"),
        ("{", [], None, 1, "is not YAML"),
    ],
)
def test_vcctl_fits_prints_whether_a_manifest_would_start_wait_or_be_refused(text, flags, fits, status, line, tmp_path, capsys):
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with serving(fits=fits) as url:
        assert programs.vcctl(["fits", "-f", str(file), *flags, "--master", url]) == status
    printed = capsys.readouterr()
    is_failure = status in {1, 5}
    assert line in (printed.err if is_failure else printed.out)
    assert len(printed.err.splitlines()) == is_failure
