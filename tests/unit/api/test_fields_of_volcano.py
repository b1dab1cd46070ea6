"""Volcano can live with what we write: each field that we add is pruned by its definitions, and missed by nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyroclast.api.crds import custom_resource_definitions
from tests.volcano.definitions import added, definitions, fields, schema_of

ADDED = {path: (schema, required) for path, schema, required in added()}


def test_crds_contain_all_fields_of_the_crds_of_volcano() -> None:
    ours = {each["spec"]["names"]["kind"]: schema_of(each) for each in custom_resource_definitions()}
    missing = [path for kind, known in fields().items() for path in _missing(kind, ours[kind], known)]
    assert missing == []


def test_no_field_added_to_the_crds_of_volcano_is_required() -> None:
    """An object that Volcano has written, or pruned, must be valid."""
    assert [path for path, (_, required) in ADDED.items() if required] == []


def test_no_field_added_to_the_crds_of_volcano_has_a_default() -> None:
    """A default would change what users of Volcano get back."""
    assert [path for path, (schema, _) in ADDED.items() if "default" in schema] == []


def test_fields_added_to_the_crds_of_volcano_equal_the_approved_list() -> None:
    """A new field belongs into this list, and into the page on moving, when it is meant to be more than Volcano has."""
    assert sorted(ADDED) == [
        "CronJob.spec.jobTemplate.spec.after",
        "CronJob.spec.jobTemplate.spec.afterPolicy",
        "CronJob.spec.jobTemplate.spec.deadline",
        "CronJob.spec.jobTemplate.spec.managedBy",
        "CronJob.spec.jobTemplate.spec.maxFailedPods",
        "CronJob.spec.jobTemplate.spec.maxRunTime",
        "CronJob.spec.jobTemplate.spec.onTimeout",
        "CronJob.spec.jobTemplate.spec.retry",
        "CronJob.spec.jobTemplate.spec.signalBefore",
        "CronJob.spec.jobTemplate.spec.suspend",
        "CronJob.spec.jobTemplate.spec.tasks.array",
        "CronJob.spec.jobTemplate.spec.tasks.independentPods",
        "Job.spec.after",
        "Job.spec.afterPolicy",
        "Job.spec.deadline",
        "Job.spec.managedBy",
        "Job.spec.maxFailedPods",
        "Job.spec.maxRunTime",
        "Job.spec.onTimeout",
        "Job.spec.retry",
        "Job.spec.signalBefore",
        "Job.spec.suspend",
        "Job.spec.tasks.array",
        "Job.spec.tasks.independentPods",
        "Job.status.after",
        "Job.status.arrays",
        "Job.status.delayedActions",
        "Job.status.failedPods",
        "Job.status.lastCommand",
        "Job.status.observedGeneration",
        "Job.status.outputs",
        "Job.status.outputsOmitted",
        "Job.status.restartTime",
        "Job.status.startTime",
        "Job.status.trackedPods",
        "Job.status.unknownPodGroup",
        "Job.status.waiting",
        "JobFlow.spec.failurePolicy",
        "JobFlow.spec.flows.dependsOn.strategy",
        "JobFlow.spec.flows.else",
        "JobFlow.spec.flows.for",
        "JobFlow.spec.flows.if",
        "JobFlow.spec.flows.patch.spec",
        "JobFlow.spec.flows.retry",
        "JobFlow.spec.flows.switch",
        "JobFlow.spec.parameters",
        "JobFlow.spec.suspend",
        "JobFlow.status.completionTime",
        "JobFlow.status.conditions.*.completionTime",
        "JobFlow.status.conditions.*.message",
        "JobFlow.status.conditions.*.reason",
        "JobFlow.status.jobStatusList.exitCode",
        "JobFlow.status.jobStatusList.outputs",
        "JobFlow.status.jobStatusList.outputsOmitted",
        "JobFlow.status.jobStatusList.podFailureRatio",
        "JobFlow.status.jobStatusList.pods",
        "JobFlow.status.jobStatusList.retries",
        "JobFlow.status.nextJobs",
        "JobFlow.status.resumed",
        "JobFlow.status.startTime",
        "JobTemplate.spec.after",
        "JobTemplate.spec.afterPolicy",
        "JobTemplate.spec.deadline",
        "JobTemplate.spec.managedBy",
        "JobTemplate.spec.maxFailedPods",
        "JobTemplate.spec.maxRunTime",
        "JobTemplate.spec.onTimeout",
        "JobTemplate.spec.retry",
        "JobTemplate.spec.signalBefore",
        "JobTemplate.spec.suspend",
        "JobTemplate.spec.tasks.array",
        "JobTemplate.spec.tasks.independentPods",
        "Queue.status.lastCommand",
    ]


def test_crds_of_volcano_lack_the_added_fields() -> None:
    theirs = {each["spec"]["names"]["kind"]: schema_of(each) for each in definitions()}
    assert "retry" not in theirs["Job"]["properties"]["spec"]["properties"]
    assert "lastCommand" not in theirs["Queue"]["properties"]["status"]["properties"]
    assert set(theirs) == set(fields())
    (flow,) = [theirs["JobFlow"]["properties"]["spec"]["properties"]["flows"]["items"]["properties"]]
    assert set(flow) == {"name", "dependsOn", "patch"}


def _missing(path: str, schema: Mapping[str, Any], known: Mapping[str, Any] | None) -> Iterator[str]:
    while schema.get("type") == "array":
        schema = schema["items"]
    if known is None or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, below in known.items():
        field = schema.get("additionalProperties") if name == "*" else schema.get("properties", {}).get(name)
        if field is None:
            yield f"{path}.{name}"
        else:
            yield from _missing(f"{path}.{name}", field, below)
