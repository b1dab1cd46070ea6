"""Which queues a request begins to use, for each kind, and which namespaces a queue admits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyroclast.api.keys import QUEUE_NAMESPACES, QUEUE_PERSON_LIMITS, SERVICE_CLASS
from pyroclast.rules import queues
from pyroclast.rules.lookups import QueueView, namespaces_in
from pyroclast.rules.queue_access import check_class, check_use, newly_used
from tests.bench.admission_server import FixedQueues

KEY = "scheduling.volcano.sh/queue-name"


class Templates:
    """A JobTemplate `t` in queue `of-template`; any other does not exist."""

    def patched(self, _: str, entry: dict[str, Any], __: object) -> dict[str, Any] | None:
        if entry["name"] != "t":
            return None
        if "bad" in entry:
            raise ValueError(entry["bad"])
        return {"queue": "of-template", **entry.get("patch", {}).get("spec", {})}

    def expression_faults(self, *_: object) -> Iterator[tuple[str, str]]:
        return iter(())

    reads = expression_faults


def named(part: str = "annotations", queue: str = "q") -> dict[str, Any]:
    return {"metadata": {part: {KEY: queue}}}


def job(queue: str | None = "q", **more: Any) -> dict[str, Any]:
    return {"spec": {"queue": queue, **more}}


def flow(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"flows": list(entries)}}


def hyper(*used: str) -> dict[str, Any]:
    return {"spec": {"replicatedJobs": [{"templateSpec": {"queue": queue}} for queue in used]}}


OF_FLOW = flow(
    {"name": "t"},
    {"name": "t", "patch": {"spec": {"queue": "patched"}}},
    {"name": "absent", "patch": {"jobSpec": {"queue": "old-field"}}},
    {"name": "absent"},
)


@pytest.mark.parametrize(
    ("kind", "body", "want"),
    [
        ("jobs.batch.volcano.sh", job(), ["q"]),
        ("jobs.batch.volcano.sh", {}, ["default"]),
        ("podgroups.scheduling.volcano.sh", job(), ["q"]),
        ("jobtemplates.flow.volcano.sh", job(None), ["default"]),
        ("cronjobs.batch.volcano.sh", {"spec": {"jobTemplate": job()}}, ["q"]),
        ("hyperjobs.training.volcano.sh", hyper("b", "a", "b", ""), ["a", "b", "default"]),
        ("jobflows.flow.volcano.sh", OF_FLOW, ["of-template", "old-field"]),
        ("jobflows.flow.volcano.sh", flow({"name": "t", "bad": "patch"}), []),
        ("pods", named(), ["q"]),
        ("pods", named("labels"), ["q"]),
        ("pods", {}, []),
        ("podgroups.scheduling.k8s.io", named(), ["q"]),
        ("compositepodgroups.scheduling.k8s.io", named("labels"), ["q"]),
        ("deployments.apps", {"spec": {"template": named()}}, ["q"]),
        ("cronjobs.batch", {"spec": {"jobTemplate": {"spec": {"template": named()}}}}, ["q"]),
        ("cronjobs.batch", {"spec": {"jobTemplate": named("labels")}}, ["q"]),
    ],
)
def test_a_new_object_uses_the_queues_that_it_names(kind: str, body: dict[str, Any], want: list[str]) -> None:
    assert list(newly_used(kind, body, None, "team", Templates())) == want
    assert newly_used(kind, body, body, "team", Templates()) == ()


@pytest.mark.parametrize(
    ("kind", "old", "new", "want"),
    [
        ("jobs.batch.volcano.sh", job(), job(minAvailable=2), []),
        ("podgroups.scheduling.volcano.sh", job("a"), job("b"), ["b"]),
        ("pods", named(queue="a"), named(queue="b"), ["b"]),
        ("pods", {}, named(), ["q"]),
        ("cronjobs.batch.volcano.sh", {"spec": {"jobTemplate": job()}}, {"spec": {"jobTemplate": job(), "suspend": True}}, []),
        ("cronjobs.batch.volcano.sh", {"spec": {"jobTemplate": job()}}, {"spec": {"jobTemplate": job(maxRetry=9)}}, ["q"]),
        ("jobtemplates.flow.volcano.sh", job(), job(maxRetry=9), ["q"]),
        ("hyperjobs.training.volcano.sh", hyper("a"), hyper("a", "b"), ["a", "b"]),
        ("deployments.apps", {"spec": {"template": named()}}, {"spec": {"template": named(), "replicas": 2}}, []),
        ("deployments.apps", {"spec": {"template": named()}}, {"spec": {"template": {**named(), "spec": {"x": 1}}}}, ["q"]),
    ],
)
def test_a_change_uses_queues_anew_where_it_names_another_or_changes_a_template(
    kind: str, old: dict[str, Any], new: dict[str, Any], want: list[str]
) -> None:
    assert list(newly_used(kind, new, old, "team", Templates())) == want


@pytest.mark.parametrize(("annotation", "allowed"), [(None, True), ("team", True), ("other, team", True), ("other", False)])
def test_a_queue_admits_the_namespaces_that_it_names(annotation: str | None, allowed: bool) -> None:
    lookup = FixedQueues(QueueView("q", namespaces=namespaces_in(annotation)))
    verdict = check_use(["gone", "q"], {}, "team", lookup)
    assert verdict.allowed is allowed
    if not allowed:
        assert verdict.message.startswith('queue: Forbidden: queue "q" may not be used in the namespace "team"')
        assert "names other;" in verdict.message


@pytest.mark.parametrize(("annotation", "fault"), [("a,b", ""), ("a,,b", '""'), ("", '""'), ("*", '"*"'), ("A", '"A"')])
def test_a_queue_names_only_names_of_namespaces(annotation: str, fault: str) -> None:
    queue = {"metadata": {"name": "q", "annotations": {QUEUE_NAMESPACES: annotation}}, "spec": {"weight": 1}}
    message = queues.validate_create(queue, FixedQueues(), queues.QueueLimits()).message
    assert f"{QUEUE_NAMESPACES}]: Invalid value: {fault}" in message if fault else not message
    assert queues.validate_update(queue, queue, FixedQueues(), queues.QueueLimits()).allowed


@pytest.mark.parametrize(
    ("limits", "service_class", "fault"),
    [
        (
            '{"classes": {"long": {}, "interactive": {}}}',
            "short",
            'no class of service "short" in this queue; it has interactive, l',
        ),
        ('{"classes": {"long": {}}}', "long", ""),
        ('{"classes": {"long": {}}}', "normal", ""),
        ('{"classes": {"long": {}}}', None, ""),
        ('{"runningJobs": 1}', "short", ""),
        ("{", "short", ""),
    ],
)
def test_a_job_has_a_class_of_its_queue(limits: str, service_class: str | None, fault: str) -> None:
    body = {"metadata": {"labels": {SERVICE_CLASS: service_class} if service_class else {}}}
    verdict = check_use(["q"], body, "team", FixedQueues(QueueView("q", person_limits=limits)))
    assert fault in verdict.message if fault else verdict.allowed
    assert check_class(body, body).allowed
    assert "cannot be changed" in check_class({"metadata": {"labels": {SERVICE_CLASS: "other"}}}, body).message


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"runningJobs": 1, "resources": {"cpu": "4"}, "runTime": "4h", "persons": {"ann": {}}, "classes": {"a": {}}}', ""),
        ('{"runningJob": 1}', "unknown field `runningJob`"),
        ('{"waitingJobs": -1}', "- at `$.waitingJobs`"),
        ('{"classes": {"a": {"runTime": "0s"}}}', "classes.a.runTime: '0s' is not a duration above 0s"),
        ('{"persons": {"ann": {"resources": {"cpu": "-1"}}}}', "persons.ann.resources.cpu: '-1' is not a quantity of 0 or more"),
        ("[" * 9999, "limits are like"),
    ],
)
def test_the_limits_of_each_person_are_checked_when_they_are_written(text: str, fault: str) -> None:
    queue = {"metadata": {"name": "q", "annotations": {QUEUE_PERSON_LIMITS: text}}, "spec": {"weight": 1}}
    message = queues.validate_create(queue, FixedQueues(), queues.QueueLimits()).message
    assert fault in message if fault else not message
    assert queues.validate_update(queue, queue, FixedQueues(), queues.QueueLimits()).allowed


@pytest.mark.parametrize(
    ("estimate", "labels", "fault"),
    [
        ("1h", {}, ""),
        ("2h", {}, "for at most 1h0m0s in queue q"),
        ("1h", {SERVICE_CLASS: "a"}, "10m"),
        ("", {}, ""),
        ("x", {}, ""),
    ],
)
def test_a_declared_run_time_above_the_limit_is_refused(estimate: str, labels: dict[str, str], fault: str) -> None:
    limits = FixedQueues(QueueView("q", person_limits='{"runTime": "1h", "classes": {"a": {"runTime": "10m"}}}'))
    body = {"metadata": {"labels": labels}, "spec": {"runningEstimate": estimate}}
    message = check_use(["q"], body, "team", limits).message
    assert message.startswith("spec.runningEstimate: Invalid value") if fault else not message
    assert fault in message
