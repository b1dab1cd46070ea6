"""What may be changed in a Job."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from pyroclast.rules import jobs
from tests.unit.rules.builders import job, task, template

FIXED = "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and `PriorityClassName`"
OLD = job(
    task(replicas=5, minAvailable=5, maxRetry=3),
    minAvailable=5,
    policies=[{"event": "PodFailed", "action": "AbortJob", "timeout": "1m"}],
)


def changed(**spec: Any) -> dict[str, Any]:
    return {**OLD, "spec": {**deepcopy(OLD["spec"]), **spec}}


def of_task(**fields: Any) -> list[dict[str, Any]]:
    return [{**OLD["spec"]["tasks"][0], **fields}]


ALLOWED = {
    "nothing": changed(),
    "more replicas": changed(tasks=of_task(replicas=6)),
    "fewer replicas and a smaller minimum": changed(tasks=of_task(replicas=4, minAvailable=3), minAvailable=3),
    "a default left out again": changed(tasks=of_task(maxRetry=None)),
    "another priority": changed(priorityClassName="high"),
    "a suspension": changed(suspend=True),
    "a resumption": changed(suspend=False) | {"old": changed(suspend=True)},
    "nothing left to run": changed(tasks=of_task(replicas=0, minAvailable=0), minAvailable=0),
    "the same quantity in other words": changed(
        tasks=of_task(template=template(resources={"requests": {"cpu": "1000m"}})),
    )
    | {"old": changed(tasks=of_task(template=template(resources={"requests": {"cpu": 1}})))},
    "the same duration in other words": changed(policies=[{"event": "PodFailed", "action": "AbortJob", "timeout": "60s"}]),
    "an empty list where none was": changed(volumes=[], plugins={}),
    "empty values that a client leaves out": changed(tasks=of_task(template=template(livenessProbe={"exec": {"command": ["x"]}})))
    | {
        "old": changed(
            tasks=of_task(
                template=template(
                    stdin=False,
                    workingDir="",
                    livenessProbe={"exec": {"command": ["x"]}, "initialDelaySeconds": 0},
                )
            ),
            schedulerName="volcano",
        )
    },
    "the claim name that was made": changed(volumes=[{"mountPath": "/d", "volumeClaim": {}, "volumeClaimName": "x"}])
    | {"old": changed(volumes=[{"mountPath": "/d", "volumeClaim": {}}])},
    "a job that was taken without a minimum": changed(tasks=of_task(minAvailable=0), minAvailable=0, priorityClassName="x")
    | {"old": changed(tasks=of_task(minAvailable=0), minAvailable=0)},
}


@pytest.mark.parametrize("given", ALLOWED.values(), ids=ALLOWED.keys())
def test_job_update_of_scale_priority_or_equivalent_values_is_allowed(given: dict[str, Any]) -> None:
    given = dict(given)
    assert jobs.validate_update(given, given.pop("old", OLD)).message == ""


REFUSED: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "another controller": (changed(managedBy="a.b/c"), f"{FIXED}; changed: spec.managedBy", ()),
    "another job to wait for": (changed(after=[{"job": "a"}]), f"{FIXED}; changed: spec.after", ()),
    "negative replicas": (
        changed(tasks=of_task(replicas=-1, minAvailable=None), minAvailable=-1),
        "'replicas' must be >= 0 in task: task-1",
        ("spec.tasks[0].replicas", "spec.minAvailable"),
    ),
    "a negative minimum of a task": (
        changed(tasks=of_task(minAvailable=-1)),
        "'minAvailable' must be >= 0 in task: task-1",
        ("spec.tasks[0].minAvailable",),
    ),
    "fewer replicas than the minimum": (
        changed(tasks=of_task(replicas=4)),
        "'minAvailable' must be <= 'replicas' in task: task-1",
        ("spec.tasks[0].minAvailable", "spec.minAvailable"),
    ),
    "partitions that no longer fit": (
        changed(tasks=of_task(replicas=6, partitionPolicy={"totalPartitions": 5, "partitionSize": 1})),
        "'Replicas' are not equal to TotalPartitions*PartitionSize in task: task-1, job: job-1",
        ("spec.tasks[0].partitionPolicy.totalPartitions",),
    ),
    "partitions that no longer fit, with both tiers": (
        changed(
            tasks=of_task(
                replicas=6,
                partitionPolicy={
                    "totalPartitions": 5,
                    "partitionSize": 1,
                    "networkTopology": {"highestTierAllowed": 0, "highestTierName": "x"},
                },
            )
        ),
        (
            "'Replicas' are not equal to TotalPartitions*PartitionSize in task: task-1, job: job-1"
            "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
        ),
        (
            "spec.tasks[0].partitionPolicy.totalPartitions",
            "spec.tasks[0].partitionPolicy.networkTopology.highestTierName",
        ),
    ),
    "minimum above all replicas": (
        changed(minAvailable=6),
        "job 'minAvailable' must not be greater than total replicas",
        ("spec.minAvailable",),
    ),
    "a negative minimum": (changed(minAvailable=-1), "job 'minAvailable' must be >= 0", ("spec.minAvailable",)),
    "no minimum": (changed(minAvailable=0), "job 'minAvailable' must be > 0 unless all replicas are 0", ("spec.minAvailable",)),
    "both tiers": (
        changed(networkTopology={"highestTierAllowed": 0, "highestTierName": "x"}),
        "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
        ("spec.networkTopology.highestTierName",),
    ),
    "one task more": (changed(tasks=[*of_task(), task("b")]), "job updates may not add or remove tasks", ()),
    "another name of a task": (changed(tasks=of_task(name="b")), f"{FIXED}; changed: spec.tasks[0].name", ()),
    "another queue": (changed(queue="other"), f"{FIXED}; changed: spec.queue", ()),
    "another claim": (
        changed(volumes=[{"mountPath": "/d", "volumeClaimName": "x"}]),
        f"{FIXED}; changed: spec.volumes",
        (),
    ),
    "0 where nothing was, and that is another thing": (
        changed(ttlSecondsAfterFinished=0),
        f"{FIXED}; changed: spec.ttlSecondsAfterFinished",
        (),
    ),
    "a label without value": (
        changed(tasks=of_task(template={**template(), "metadata": {"labels": {"a": ""}}})),
        f"{FIXED}; changed: spec.tasks[0].template",
        (),
    ),
    "true for 1": (changed(ttlSecondsAfterFinished=True), f"{FIXED}; changed: spec.ttlSecondsAfterFinished", ()),
}


@pytest.mark.parametrize(("given", "message", "fields"), REFUSED.values(), ids=REFUSED.keys())
def test_job_update_of_fixed_fields_or_to_an_invalid_scale_is_refused(
    given: dict[str, Any], message: str, fields: tuple[str, ...]
) -> None:
    verdict = jobs.validate_update(given, OLD)
    assert verdict.message.startswith(message)
    assert {cause.path for cause in verdict.causes} == set(fields)
