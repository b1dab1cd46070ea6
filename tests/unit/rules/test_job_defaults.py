"""Defaults of Jobs: each rule of the table, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast.rules import jobs
from pyroclast.rules.verdicts import applied
from tests.unit.rules.builders import job, task

FULL = {"queue": "q", "schedulerName": "s", "maxRetry": 1, "minAvailable": 1}


def defaulted(spec: dict[str, Any], **options: Any) -> dict[str, Any]:
    return applied({"spec": spec}, jobs.default({"spec": spec}, **options))["spec"]


TASKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "all absent": ({"replicas": 2}, {"name": "default0", "minAvailable": 2, "maxRetry": 3}),
    "replicas absent": ({"name": "a"}, {"minAvailable": 0}),
    "an explicit minimum": ({"name": "a", "replicas": 2, "minAvailable": 1}, {"minAvailable": 1}),
    "partitions": (
        {"replicas": 9, "partitionPolicy": {"totalPartitions": 3, "minPartitions": 2, "partitionSize": 3}},
        {"minAvailable": 6},
    ),
    "partitions without a minimum": (
        {"replicas": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}},
        {"minAvailable": 4},
    ),
    "retries 0": ({"replicas": 1, "maxRetry": 0}, {"maxRetry": 3}),
    "negative replicas": ({"replicas": -1}, {"minAvailable": -1}),
    "the network of the host": (
        {"template": {"spec": {"hostNetwork": True}}},
        {"template": {"spec": {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}}},
    ),
    "the network of the host with a policy": (
        {"template": {"spec": {"hostNetwork": True, "dnsPolicy": "Default"}}},
        {"template": {"spec": {"hostNetwork": True, "dnsPolicy": "Default"}}},
    ),
}


@pytest.mark.parametrize(("before", "want"), TASKS.values(), ids=TASKS.keys())
def test_task_gets_default_name_min_available_max_retry_and_dns_policy(before: dict[str, Any], want: dict[str, Any]) -> None:
    after = defaulted({**FULL, "tasks": [before]})["tasks"][0]
    assert {key: after[key] for key in want} == want


def test_job_gets_default_queue_scheduler_max_retry_and_min_available() -> None:
    after = defaulted({"tasks": [{"replicas": 2}, {"replicas": 3, "minAvailable": 1}]}, scheduler_name="mine")
    assert {key: after[key] for key in ("queue", "schedulerName", "maxRetry", "minAvailable")} == {
        "queue": "default",
        "schedulerName": "mine",
        "maxRetry": 3,
        "minAvailable": 3,
    }


@pytest.mark.parametrize(
    ("plugins", "want"),
    [
        ({}, {}),
        ({"env": []}, {"env": []}),
        ({"tensorflow": []}, {"tensorflow": [], "svc": []}),
        ({"pytorch": [], "svc": ["-x"]}, {"pytorch": [], "svc": ["-x"]}),
        ({"ray": []}, {"ray": [], "svc": []}),
        ({"mpi": ["--master=m"]}, {"mpi": ["--master=m"], "svc": [], "ssh": []}),
    ],
)
def test_framework_plugins_add_the_svc_and_ssh_plugins_that_they_need(plugins: dict[str, Any], want: dict[str, Any]) -> None:
    assert defaulted({**FULL, "tasks": [task()], "plugins": plugins})["plugins"] == want


def test_complete_or_missing_job_spec_gets_no_default_patch() -> None:
    complete = job(task(minAvailable=1, maxRetry=2), maxRetry=1)
    assert jobs.default(complete) == []
    assert jobs.default({}) == jobs.default({"spec": None}) == jobs.default({"spec": 5}) == []


def updated(job: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    return applied({"spec": job}, jobs.default_update({"spec": job}, {"spec": old}, scheduler_name="another"))["spec"]


def test_the_manifest_that_made_a_job_changes_nothing_when_it_is_sent_again() -> None:
    given = {"queue": "q", "maxRetry": 3, "tasks": [{"replicas": 2}], "plugins": {"mpi": []}}
    made = defaulted(given)
    assert updated(given, made) == made
    assert jobs.validate_update({"spec": updated(given, made)}, {"spec": made}).allowed


def test_update_keeps_explicit_job_fields_and_defaults_missing_task_fields() -> None:
    given = {"queue": "q", "schedulerName": "mine", "maxRetry": 0, "minAvailable": 0, "tasks": [{"replicas": 2, "name": "a"}]}
    want = {**given, "tasks": [{"replicas": 2, "name": "a", "minAvailable": 2, "maxRetry": 3}]}
    assert updated(given, defaulted(given)) == want


def test_fields_of_wrong_types_are_not_defaulted() -> None:
    spec = {"queue": 5, "maxRetry": "x", "minAvailable": 1.5, "schedulerName": [], "plugins": [], "tasks": [7, {"replicas": "x"}]}
    assert [operation["path"] for operation in jobs.default({"spec": spec})] == ["/spec/tasks/1/name", "/spec/tasks/1/maxRetry"]


@settings(max_examples=60)
@given(
    st.lists(
        st.fixed_dictionaries(
            {}, optional={"replicas": st.integers(-2, 9), "minAvailable": st.integers(0, 9), "maxRetry": st.integers(0, 3)}
        ),
        max_size=4,
    )
)
def test_defaulting_twice_changes_nothing_more(tasks: list[dict[str, Any]]) -> None:
    once = defaulted({"tasks": tasks})
    again = defaulted(once)
    assert again == once
