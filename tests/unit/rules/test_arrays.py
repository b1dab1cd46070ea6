"""What an array may be, and how it may change. The table of admission policies on a real API server uses the same cases."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import Any

import pytest

from pyroclast.rules import jobs
from pyroclast.rules.jobs import defaults
from pyroclast.rules.lookups import JobOptions
from pyroclast.rules.verdicts import applied
from tests.unit.rules.builders import QUEUES, job, template


def array_job(indexes: Any = "0-9", *, task: dict[str, Any] | None = None, **array: Any) -> dict[str, Any]:
    body = {"name": "a", "template": template(), "array": {"indexes": indexes, **array}, **(task or {})}
    return job({name: value for name, value in body.items() if value is not None})


ALLOWED = {
    "an array": array_job(),
    "ranges with steps": array_job("0-9999,20000-20100:5", maxParallel=64),
    "as many indexes as there may be": array_job("0-99999", maxParallel=64),
    "a limit of failures": array_job(maxFailures=0),
    "a per cent of failures": array_job(maxFailures="1%"),
    "a gang of the pods at once": array_job(maxParallel=4, task={"minAvailable": 4}),
    "cancelled indexes": array_job(cancelled="0-3,7"),
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an array of more pods than a Job may have": (array_job("0-50000"), "sum up to 50001 pods"),
    "more indexes than an array may have": (array_job("0-100000", maxParallel=64), "at most 100000 indexes; these are 100001"),
    "a range that ends before it begins": (array_job("9-0"), '"9-0" ends before it begins'),
    "ranges that overlap": (array_job("0-9,5-12"), '"5-12" does not follow 9'),
    "an array with replicas": (array_job(task={"replicas": 3}), "neither replicas nor partitions"),
    "a negative limit of failures": (array_job(maxFailures=-1), "a number that is not negative"),
    "more than all failures": (array_job(maxFailures="101%"), "a number that is not negative"),
    "a gang above the pods at once": (
        array_job(maxParallel=4, task={"minAvailable": 5}),
        "'minAvailable' is greater than 'replicas' in task: a",
    ),
    "an array without indexes": (job({"name": "a", "template": template(), "array": {"maxParallel": 2}}), "an array has indexes"),
}
CHANGES = {
    "the limit of pods": ({"maxParallel": 9}, ""),
    "a longer last range": ({"indexes": "0-4,10-40:5"}, ""),
    "another range": ({"indexes": "0-4,10-20:5,30"}, ""),
    "cancelled": ({"cancelled": "0-2"}, ""),
    "more retries and no limit of failures": ({"retriesPerIndex": 3, "maxFailures": None}, ""),
    "fewer indexes": ({"indexes": "0-4"}, "may only be added after the last"),
    "another step": ({"indexes": "0-4,10-40:2"}, "may only be added after the last"),
    "an index between": ({"indexes": "0-4,7,10-20:5"}, "may only be added after the last"),
    "a longer first range": ({"indexes": "0-8,10-20:5"}, "may only be added after the last"),
    "a limit below the gang": ({"maxParallel": 1}, "'minAvailable' must be <= 'replicas' in task: a"),
}
BEFORE = array_job("0-4,10-20:5", maxParallel=4, maxFailures=1, task={"minAvailable": 2})


def changed(**array: Any) -> dict[str, Any]:
    new = deepcopy(BEFORE)
    new["spec"]["tasks"][0]["array"] |= array
    return new


@pytest.mark.parametrize("given", ALLOWED.values(), ids=list(ALLOWED))
def test_array_is_allowed(given: dict[str, Any]) -> None:
    assert jobs.validate_create(applied(given, jobs.default(given)), QUEUES).message == ""


@pytest.mark.parametrize(("given", "said"), REFUSED.values(), ids=list(REFUSED))
def test_array_is_refused(given: dict[str, Any], said: str) -> None:
    assert said in jobs.validate_create(given, QUEUES).message


@pytest.mark.parametrize(("array", "said"), CHANGES.values(), ids=list(CHANGES))
def test_array_changes_only_by_its_limits_and_by_further_indexes(array: dict[str, Any], said: str) -> None:
    message = jobs.validate_update(changed(**array), BEFORE).message
    assert (said in message) if said else message == ""


def test_array_task_stays_an_array() -> None:
    new = deepcopy(BEFORE)
    del new["spec"]["tasks"][0]["array"]
    new["spec"]["tasks"][0]["replicas"] = 4
    assert "changed: spec.tasks[0].array" in jobs.validate_update(new, BEFORE).message


def test_minimum_of_an_array_is_one_by_default() -> None:
    given = array_job()
    del given["spec"]["minAvailable"]
    spec = applied(given, defaults.default(given))["spec"]
    assert (spec["minAvailable"], spec["tasks"][0]["minAvailable"]) == (1, 1)


def test_policies_for_single_pods_of_an_array_have_a_warning() -> None:
    given = array_job()
    given["spec"]["policies"] = [
        {"event": "PodFailed", "action": "RestartJob"},
        {"event": "TaskCompleted", "action": "CompleteJob"},
    ]
    warnings = jobs.validate_create(given, QUEUES).warnings
    assert [each for each in warnings if "independent" in each] == [
        "spec.policies[0]: it does not respond to the pods of task a, which are independent of each other"
    ]


def test_cost_of_a_large_array_does_not_grow_with_its_indexes() -> None:
    began = time.perf_counter()
    given = array_job("0-999999999", cancelled=",".join(str(index) for index in range(0, 10_000, 2)))
    assert "sum up to 1000000000 pods" in jobs.validate_create(given, QUEUES, JobOptions(max_pods=10**8)).message
    assert time.perf_counter() - began < 1
