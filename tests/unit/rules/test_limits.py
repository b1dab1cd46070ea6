"""What an installation does not allow in Jobs and their templates: too many pods, and pods that evade the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pyroclast.rules import cronjobs, hyperjobs, jobflows, jobs, jobtemplates, podgroups
from pyroclast.rules.lookups import JobOptions
from pyroclast.rules.verdicts import Verdict
from tests.unit.rules.builders import QUEUES, job, task

STRICT = JobOptions(max_pods=100, schedulers=("volcano", "other"), forbids_class=lambda name: "nohigh" if name == "high" else "")
LOOSE = JobOptions(max_pods=2**40, schedulers=None)
META = {"name": "it", "namespace": "team-a"}


class Templates:
    """One JobTemplate for all entries, whose patch replaces fields of its spec."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec

    def patched(self, namespace: str, entry: Mapping[str, Any], _: object) -> Mapping[str, Any]:
        return {**self.spec, **entry.get("patch", {}).get("jobSpec", {})}

    def expression_faults(self, *_: object) -> Iterator[tuple[str, str]]:
        return iter(())

    reads = expression_faults


def of_job(spec: Mapping[str, Any], options: JobOptions) -> Verdict:
    return jobs.validate_create({"metadata": META, "spec": spec}, QUEUES, options)


def of_template(spec: Mapping[str, Any], options: JobOptions) -> Verdict:
    return jobtemplates.validate({"metadata": META, "spec": spec}, QUEUES, options)


def of_cron_job(spec: Mapping[str, Any], options: JobOptions) -> Verdict:
    return cronjobs.validate({"metadata": META, "spec": {"schedule": "@hourly", "jobTemplate": {"spec": spec}}}, (), options)


def of_hyper_job(spec: Mapping[str, Any], options: JobOptions) -> Verdict:
    entries = [{"name": "a", "replicas": 1, "templateSpec": spec}]
    return hyperjobs.validate({"metadata": META, "spec": {"replicatedJobs": entries}}, options)


def of_flow(spec: Mapping[str, Any], options: JobOptions) -> Verdict:
    flow = {"metadata": META, "spec": {"flows": [{"name": "a", "patch": {"jobSpec": spec}}]}}
    return jobflows.validate_create(flow, Templates(job()["spec"]), options)


KINDS = {"Job": of_job, "JobTemplate": of_template, "CronJob": of_cron_job, "HyperJob": of_hyper_job, "patch of a flow": of_flow}


def pod(**spec: Any) -> dict[str, Any]:
    given = task()
    given["template"]["spec"] |= spec
    return given


REFUSED = {
    "one huge task": ({"tasks": [task(replicas=2**31 - 1)]}, "sum up to 2147483647 pods; one Job may have at most 100"),
    "many tasks": ({"tasks": [task("a", 50), task("b", 50), task("c", 1)]}, "sum up to 101 pods; one Job may have at most 100"),
    "a node": ({"tasks": [task("a"), {**pod(nodeName="node-0"), "name": "b"}]}, "tasks[1].template.spec.nodeName: Forbidden: "),
    "the scheduler of a pod": (
        {"tasks": [pod(schedulerName="mine")]},
        'tasks[0].template.spec.schedulerName: Unsupported value: "mine"',
    ),
    "the scheduler of the Job": (
        {"schedulerName": "default-scheduler", "tasks": [task()]},
        '.schedulerName: Unsupported value: "default-s',
    ),
}
REFUSED["a class that a quota forbids"] = (
    {"priorityClassName": "high", "tasks": [task()]},
    'priorityClassName: Forbidden: the ResourceQuota nohigh allows no pods of the PriorityClass "high"',
)
ALLOWED = {
    "another class": {"priorityClassName": "low", "tasks": [task()]},
    "at the limit": {"tasks": [task("a", 50), task("b", 50)]},
    "another scheduler of ours": {"schedulerName": "other", "tasks": [pod(schedulerName="volcano")]},
    "nothing said": {"tasks": [pod(nodeName="", schedulerName="")]},
}


@pytest.mark.parametrize("check", KINDS.values(), ids=KINDS.keys())
@pytest.mark.parametrize(("spec", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_jobs_that_evade_the_scheduler_or_have_too_many_pods_are_refused_unless_the_settings_allow_it(
    check: Any, spec: dict[str, Any], told: str
) -> None:
    assert told in check({"minAvailable": 1, **spec}, STRICT).message
    assert check({"minAvailable": 1, **spec}, LOOSE).allowed


@pytest.mark.parametrize("check", KINDS.values(), ids=KINDS.keys())
@pytest.mark.parametrize("spec", ALLOWED.values(), ids=ALLOWED.keys())
def test_jobs_within_the_limits_are_allowed(check: Any, spec: dict[str, Any]) -> None:
    assert check({"minAvailable": 1, **spec}, STRICT).message == ""


@pytest.mark.parametrize("check", [of_template, of_cron_job, of_hyper_job, of_flow])
def test_templates_for_the_root_queue_are_refused(check: Any) -> None:
    assert "can not submit job to root queue" in check({"queue": "root", "tasks": [task()]}, LOOSE).message


@pytest.mark.parametrize(
    ("before", "after", "is_allowed"), [(10, 100, True), (10, 101, False), (500, 400, True), (500, 500, True), (500, 501, False)]
)
def test_job_may_not_grow_beyond_the_limit_but_a_larger_one_may_shrink(before: int, after: int, is_allowed: bool) -> None:
    verdict = jobs.validate_update(job(task(replicas=after), minAvailable=2), job(task(replicas=before)), STRICT)
    assert verdict.allowed is is_allowed
    assert is_allowed or f"sum up to {after} pods" in verdict.message


@pytest.mark.parametrize(
    ("before", "after", "is_allowed"), [("low", "high", False), ("high", "high", True), ("high", "low", True)]
)
def test_class_that_a_quota_forbids_is_refused_at_a_change_too(before: str, after: str, is_allowed: bool) -> None:
    new, old = job(task(replicas=2), priorityClassName=after), job(task(replicas=1), priorityClassName=before)
    assert jobs.validate_update(new, old, STRICT).allowed is is_allowed


HYPER_JOBS = {
    "all Jobs together": (
        [{"name": "a", "replicas": 3, "templateSpec": {"tasks": [task(replicas=40)]}}],
        {},
        "have 120 pods together",
    ),
    "huge": ([{"name": "a", "replicas": 2**31 - 1, "templateSpec": {"tasks": [task()]}}], {}, "2147483647 Jobs are asked for"),
    "negative": ([{"name": "a", "replicas": -1, "templateSpec": {"tasks": [task()]}}], {}, ".replicas: Invalid value: -1"),
    "no name": ([{"name": "UPPER!", "templateSpec": {"tasks": [task()]}}], {}, 'name: Invalid value: "UPPER!"'),
    "a name twice": ([{"name": "a", "templateSpec": {"tasks": [task()]}}] * 2, {}, 'Duplicate value: "a"'),
    "no tasks": ([{"name": "a", "templateSpec": {"tasks": []}}], {}, "templateSpec.tasks: Required value"),
    "more than all": (
        [{"name": "a", "replicas": 2, "templateSpec": {"tasks": [task()]}}],
        {"minAvailable": 7},
        "spec.minAvailable: Invalid value: 7: must be between 0 and the number of Jobs, which is 2",
    ),
}


@pytest.mark.parametrize(("entries", "more", "told"), HYPER_JOBS.values(), ids=HYPER_JOBS.keys())
def test_hyper_job_whose_jobs_would_be_refused_is_refused(entries: list[Any], more: dict[str, Any], told: str) -> None:
    given = {"metadata": META, "spec": {"replicatedJobs": entries, **more}}
    assert told in hyperjobs.validate(given, STRICT).message
    assert told in hyperjobs.validate(given, STRICT, old={"spec": {}}).message
    assert hyperjobs.validate(given, STRICT, old=given).allowed


GROUPS = {
    "root": ({"queue": "root"}, "can not submit PodGroup to root queue"),
    "no queue": ({"queue": "nowhere"}, "unable to find queue"),
    "a closed queue": ({"queue": "closed"}, "status is `Closed`"),
    "resources": (
        {"minResources": {"cpu": "-1", "memory": "1Gi"}},
        'spec.minResources[cpu]: Invalid value: "-1": must be greater',
    ),
    "members": ({"minMember": -5}, "spec.minMember: Invalid value: -5"),
    "members of a task": ({"minTaskMember": {"a": -1}}, "spec.minTaskMember[a]: Invalid value: -1"),
}


@pytest.mark.parametrize(("spec", "told"), GROUPS.values(), ids=GROUPS.keys())
def test_pod_group_is_refused_at_a_change_as_at_its_creation(spec: dict[str, Any], told: str) -> None:
    old = {"spec": {"queue": "default", "minMember": 1}}
    assert told in podgroups.validate_create({"spec": {"queue": "default", **spec}}, QUEUES).message
    assert told in podgroups.validate_update({"spec": {**old["spec"], **spec}}, old, QUEUES).message


@pytest.mark.parametrize("queue", ["closed", "nowhere", "root"])
def test_pod_group_may_change_while_its_queue_is_closed_or_gone(queue: str) -> None:
    old = {"spec": {"queue": queue, "minMember": 1}}
    assert podgroups.validate_update({"spec": {"queue": queue, "minMember": 2}}, old, QUEUES).allowed
