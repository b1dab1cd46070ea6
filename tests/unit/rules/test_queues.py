"""What is refused of queues, and their defaults."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast.rules import queues
from pyroclast.rules.lookups import QueueView
from pyroclast.rules.queues import QueueLimits
from pyroclast.rules.verdicts import applied
from tests.bench.admission_server import FixedQueues

HIERARCHY, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
LIMITS = QueueLimits()
NONE = FixedQueues()


def queue(name: str = "q", annotations: dict[str, str] | None = None, state: str = "", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec, "status": {"state": state}}


def guarantee(**amounts: str) -> dict[str, Any]:
    return {"resource": amounts}


FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "a negative capability": (
        queue(capability={"cpu": "-1"}),
        'requestBody.spec.capability.cpu: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "half a pod": (
        queue(deserved={"pods": "1500m"}),
        'requestBody.spec.deserved.pods: Invalid value: "1500m": must be an integer',
    ),
    "half of an extended resource": (
        queue(capability={"nvidia.com/gpu": "500m"}),
        'requestBody.spec.capability.nvidia.com/gpu: Invalid value: "500m": must be an integer',
    ),
    "a guarantee without deserved": (
        queue(guarantee=guarantee(cpu="1")),
        'requestBody.spec.deserved.cpu: Invalid value: "<nil>": deserved[cpu] must be >= guarantee[cpu]=1',
    ),
    "deserved below the guarantee": (
        queue(guarantee=guarantee(cpu="2"), deserved={"cpu": "1"}),
        'requestBody.spec.deserved.cpu: Invalid value: "1": deserved[cpu]=1 must be >= guarantee[cpu]=2',
    ),
    "deserved above the capability": (
        queue(deserved={"cpu": "2"}, capability={"cpu": "1"}),
        'requestBody.spec.deserved.cpu: Invalid value: "2": deserved[cpu]=2 must be <= capability[cpu]=1',
    ),
    "a state that is none to start with": (
        queue(state="Odd"),
        'requestBody.spec.state: Invalid value: "Odd": queue state must be in [Open Closed]',
    ),
    "a negative guarantee": (
        queue(guarantee=guarantee(cpu="-2")),
        (
            '[requestBody.spec.guarantee.resource.cpu: Invalid value: "-2": must be greater than or equal to 0, '
            'requestBody.spec.deserved.cpu: Invalid value: "<nil>": deserved[cpu] must be >= guarantee[cpu]=-2]'
        ),
    ),
    "more steps than weights": (
        queue(annotations={HIERARCHY: "root/a", WEIGHTS: "1"}),
        f'requestBody.metadata.annotations: Invalid value: "root/a": {HIERARCHY} must have the same length with {WEIGHTS}',
    ),
    "a weight that is no number": (
        queue(annotations={HIERARCHY: "root/a", WEIGHTS: "1/x"}),
        (
            'requestBody.metadata.annotations: Invalid value: "1/x": x in the 1/x is invalid number: '
            'strconv.ParseFloat: parsing "x": invalid syntax'
        ),
    ),
    "a weight that is too large": (
        queue(annotations={HIERARCHY: "root", WEIGHTS: "1e999"}),
        (
            'requestBody.metadata.annotations: Invalid value: "1e999": 1e999 in the 1e999 is invalid number: '
            'strconv.ParseFloat: parsing "1e999": value out of range'
        ),
    ),
    "a path without weights": (
        queue(annotations={HIERARCHY: "root"}),
        (
            'requestBody.metadata.annotations: Invalid value: "":  in the  is invalid number: '
            'strconv.ParseFloat: parsing "": invalid syntax'
        ),
    ),
    "a weight of 0": (
        queue(annotations={HIERARCHY: "root/a", WEIGHTS: "1/0"}),
        'requestBody.metadata.annotations: Invalid value: "1/0": 0 in the 1/0 must be larger than 0',
    ),
    "a path above another queue": (
        queue(annotations={HIERARCHY: "root/sci", WEIGHTS: "1/1"}),
        (
            'requestBody.metadata.annotations: Invalid value: "root/sci": '
            "root/sci is not allowed to be in the sub path of root/sci/dev of queue other"
        ),
    ),
}
PATHS = FixedQueues(QueueView("other", hierarchy="root/sci/dev"))


@pytest.mark.parametrize(("given", "message"), FIELDS.values(), ids=FIELDS.keys())
def test_queue_with_an_invalid_field_is_refused_with_its_path(given: dict[str, Any], message: str) -> None:
    verdict = queues.validate_create(given, PATHS, LIMITS)
    assert verdict.message == message
    assert verdict.causes
    assert not any(cause.path.startswith("requestBody") for cause in verdict.causes)


@pytest.mark.parametrize(
    ("path", "weights"),
    [("root/sci/dev", "1/2/3"), ("root/scid", "1/0x1p-2"), ("root/sci/dev/x", "1/inf/.5/1e3"), ("root/q", "+1/2.")],
)
def test_valid_hierarchy_paths_and_weights_are_allowed(path: str, weights: str) -> None:
    assert queues.validate_create(queue(annotations={HIERARCHY: path, WEIGHTS: weights}), PATHS, LIMITS).allowed


TREE = FixedQueues(
    QueueView("q1", "root", "Open"),
    QueueView("q2", "q1", "Open"),
    QueueView("busy", "root", "Open", allocated_pods=3),
    QueueView("round-1", "round-2", "Open"),
    QueueView("round-2", "round-1", "Open"),
)
PARENTS: dict[str, tuple[dict[str, Any], int, str]] = {
    "itself": (queue(parent="q"), 5, "queue q cannot use itself as parent"),
    "deep enough": (queue(parent="q2"), 3, ""),
    "too deep": (queue(parent="q2"), 2, "queue q exceeds the maximum allowed depth of 2"),
    "a circle": (queue(parent="round-1"), 5, "queue q exceeds the maximum allowed depth of 5"),
    "not there": (
        queue(parent="nobody"),
        5,
        'failed to get parent queue nobody of queue q: queue.scheduling.volcano.sh "nobody" not found',
    ),
    "in use": (queue(parent="busy"), 5, "queue busy cannot be the parent queue of queue q because it has allocated Pods: 3"),
    "the root": (queue(parent="root"), 5, ""),
}


@pytest.mark.parametrize(("given", "depth", "message"), PARENTS.values(), ids=PARENTS.keys())
def test_queue_parent_must_exist_have_no_pods_and_stay_within_the_maximum_depth(
    given: dict[str, Any], depth: int, message: str
) -> None:
    assert queues.validate_create(given, TREE, QueueLimits(max_depth=depth)).message == message


def limits(name: str, parent: str = "root", **lists: dict[str, str]) -> QueueView:
    return QueueView(name, parent, "Open", **lists)


HIERARCHIES: dict[str, tuple[dict[str, Any], list[QueueView], str]] = {
    "a capability above the parent's": (
        queue("child-capability-exceeds-parent", parent="p", capability={"cpu": "20"}),
        [limits("p", capability={"cpu": "10"})],
        "queue child-capability-exceeds-parent capability[cpu]=20 exceeds its ancestor's capability=10",
    ),
    "a capability above the grandparent's": (
        queue(parent="p", capability={"memory": "41Gi"}),
        [limits("g", capability={"memory": "40Gi"}), limits("p", "g")],
        "queue q capability[memory]=41Gi exceeds its ancestor's capability=40Gi",
    ),
    "a capability of something else": (
        queue(parent="p", capability={"nvidia.com/gpu": "3"}),
        [limits("p", capability={"nvidia.com/gpu": "2"})],
        "queue q capability[nvidia.com/gpu]=3000.00 exceeds its ancestor's capability=2000.00",
    ),
    "guarantees above the parent's": (
        queue(
            parent="parent-queue-resource-test",
            guarantee=guarantee(cpu="5", memory="10Gi"),
            deserved={"cpu": "5", "memory": "10Gi"},
        ),
        [
            limits(
                "parent-queue-resource-test",
                guarantee={"cpu": "8", "memory": "16Gi"},
                deserved={"cpu": "10", "memory": "20Gi"},
            ),
            limits(
                "sibling",
                "parent-queue-resource-test",
                guarantee={"cpu": "4", "memory": "8Gi"},
                deserved={"cpu": "4", "memory": "8Gi"},
            ),
        ],
        (
            "parent queue parent-queue-resource-test validation failed: sum of children's guarantee "
            "(cpu 9000.00, memory 19327352832.00) exceeds parent's guarantee limit (cpu 8000.00, memory 17179869184.00)"
        ),
    ),
    "deserved above the parent's": (
        queue(parent="p", deserved={"cpu": "2"}),
        [limits("p", deserved={"cpu": "1"})],
        (
            "parent queue p validation failed: sum of children's deserved (cpu 2000.00, memory 0.00) exceeds parent's deserved "
            "limit (cpu 1000.00, memory 0.00)"
        ),
    ),
    "a resource that the parent does not name": (
        queue(parent="p", deserved={"nvidia.com/gpu": "1"}),
        [limits("p", deserved={"cpu": "1"})],
        (
            "parent queue p validation failed: sum of children's deserved (cpu 0.00, memory 0.00, nvidia.com/gpu 1000.00) "
            "exceeds parent's deserved limit (cpu 1000.00, memory 0.00)"
        ),
    ),
    "nothing of a resource that the parent does not name": (
        queue(parent="p", deserved={"nvidia.com/gpu": "0"}),
        [limits("p", deserved={"cpu": "1"})],
        "",
    ),
    "children of the root are not summed": (queue(deserved={"cpu": "2"}), [limits("root", "", deserved={"cpu": "1"})], ""),
    "a capability below a child's": (
        queue("parent-queue-to-update", capability={"cpu": "10"}),
        [limits("child", "parent-queue-to-update", capability={"cpu": "12"})],
        "queue parent-queue-to-update capability[cpu]=10 is smaller than its descendants' max capability=12",
    ),
    "a capability below a grandchild's": (
        queue(capability={"cpu": "1500m"}),
        [limits("child", "q"), limits("grandchild", "child", capability={"cpu": "2"})],
        "queue q capability[cpu]=1500m is smaller than its descendants' max capability=2",
    ),
    "a guarantee below the children's": (
        queue(guarantee=guarantee(cpu="1"), deserved={"cpu": "9"}),
        [
            limits("a", "q", guarantee={"cpu": "1"}, deserved={"cpu": "1"}),
            limits("b", "q", guarantee={"cpu": "1"}, deserved={"cpu": "1"}),
        ],
        (
            "queue q validation failed: sum of children's guarantee (cpu 2000.00, memory 0.00) exceeds parent's guarantee limit "
            "(cpu 1000.00, memory 0.00)"
        ),
    ),
    "sums up to the child with which they are too much, that one first": (
        queue(guarantee=guarantee(cpu="1"), deserved={"cpu": "1"}),
        [
            limits("a", "q", guarantee={"cpu": "1"}, deserved={"cpu": "2"}),
            limits("b", "q", guarantee={"cpu": "1"}, deserved={"cpu": "2"}),
            limits("c", "q", guarantee={"cpu": "1"}, deserved={"cpu": "2"}),
        ],
        (
            "queue q validation failed: sum of children's deserved (cpu 2000.00, memory 0.00) exceeds parent's deserved limit "
            "(cpu 1000.00, memory 0.00); "
            "queue q validation failed: sum of children's guarantee (cpu 2000.00, memory 0.00) exceeds parent's guarantee limit "
            "(cpu 1000.00, memory 0.00)"
        ),
    ),
}


@pytest.mark.parametrize(("given", "others", "message"), HIERARCHIES.values(), ids=HIERARCHIES.keys())
def test_queue_resources_that_do_not_fit_ancestors_or_descendants_are_refused(
    given: dict[str, Any], others: list[QueueView], message: str
) -> None:
    assert queues.validate_create(given, FixedQueues(*others), LIMITS).message == message


def test_queue_update_is_validated_only_for_changed_fields() -> None:
    others = FixedQueues(limits("p", deserved={"cpu": "1"}))
    broken = queue(parent="p", deserved={"cpu": "2"})
    assert queues.validate_update({**broken, "spec": {**broken["spec"], "weight": 5}}, broken, others, LIMITS).allowed
    assert not queues.validate_update(broken, queue(parent="p"), others, LIMITS).allowed
    assert queues.validate_update(queue(deserved={"cpu": "1000m"}), queue(deserved={"cpu": 1}), others, LIMITS).allowed
    assert queues.validate_update(queue(state="Closing", weight=2), queue(state="Closing"), others, LIMITS).allowed
    assert not queues.validate_update(queue(parent="nobody"), queue(), others, LIMITS).allowed


def test_resources_of_the_root_queue_cannot_be_changed_while_it_is_protected() -> None:
    message = "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
    grown = queue("root", capability={"cpu": "1"})
    assert queues.validate_update(grown, queue("root"), NONE, LIMITS).message == message
    assert queues.validate_update(grown, queue("root"), NONE, QueueLimits(protect_root=False)).allowed
    assert queues.validate_update(queue("root", weight=2), queue("root"), NONE, LIMITS).allowed
    wrong = 'requestBody.spec.capability.cpu: Invalid value: "-1": must be greater than or equal to 0'
    assert queues.validate_update(queue("root", capability={"cpu": "-1"}), queue("root"), NONE, LIMITS).message == wrong


def test_deletion_is_refused_for_system_missing_and_parent_queues_and_optionally_for_busy_queues() -> None:
    strict = QueueLimits(keep_allocated=True)
    assert queues.validate_delete("default", TREE, LIMITS).message == "`default` queue can not be deleted"
    assert queues.validate_delete("root", TREE, LIMITS).message == "`root` queue can not be deleted"
    assert queues.validate_delete("nobody", TREE, LIMITS).message == 'queue.scheduling.volcano.sh "nobody" not found'
    assert queues.validate_delete("busy", TREE, LIMITS).allowed
    assert queues.validate_delete("busy", TREE, strict).message == "queue busy cannot be deleted because it has allocated Pods: 3"
    assert queues.validate_delete("q1", TREE, LIMITS).message == "queue q1 can not be deleted because it has 1 child queues: q2"
    assert queues.validate_delete("q2", TREE, LIMITS).allowed


DEFAULTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an empty spec": ({"spec": {}}, {"spec": {"reclaimable": True, "weight": 1}}),
    "no spec": ({}, {"spec": {"reclaimable": True, "weight": 1}}),
    "weight 0": ({"spec": {"weight": 0, "reclaimable": False}}, {"spec": {"weight": 1, "reclaimable": False}}),
    "half a weight": ({"spec": {"weight": 1.5, "reclaimable": False}}, {"spec": {"weight": 1.5, "reclaimable": False}}),
    "a path": (
        {"metadata": {"annotations": {HIERARCHY: "a/b/c", WEIGHTS: "2/3/4"}}, "spec": {"weight": 2, "reclaimable": True}},
        {"metadata": {"annotations": {HIERARCHY: "root/a/b/c", WEIGHTS: "1/2/3/4"}}, "spec": {"weight": 2, "reclaimable": True}},
    ),
    "a path that only looks rooted": (
        {"metadata": {"annotations": {HIERARCHY: "rootless/a", WEIGHTS: "2/3"}}, "spec": {"weight": 2, "reclaimable": True}},
        {
            "metadata": {"annotations": {HIERARCHY: "root/rootless/a", WEIGHTS: "1/2/3"}},
            "spec": {"weight": 2, "reclaimable": True},
        },
    ),
}


@pytest.mark.parametrize(("before", "after"), DEFAULTS.values(), ids=DEFAULTS.keys())
def test_queue_gets_default_weight_reclaimable_and_rooted_hierarchy(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert applied(before, queues.default(before)) == after
    assert queues.default(after) == []


@pytest.mark.parametrize(
    ("given", "others", "want"),
    [
        (queue(parent="default"), (QueueView("default"),), "jobs that name it or name no queue are refused; they have to name q"),
        (queue(parent="team"), (QueueView("team"),), "queue team has queues below it from now on, so jobs that name it are"),
        (queue(parent="team"), (QueueView("team"), QueueView("other", "team")), ""),
        (queue(parent="root"), (), ""),
        (queue(), (), ""),
    ],
)
def test_first_child_of_a_queue_causes_a_warning_about_jobs_of_the_parent(
    given: dict[str, Any], others: tuple[QueueView, ...], want: str
) -> None:
    found = FixedQueues(*others)
    created = queues.validate_create(given, found, QueueLimits())
    moved = queues.validate_update(given, {**given, "spec": {**given["spec"], "parent": ""}}, found, QueueLimits())
    kept = queues.validate_update(given, given, found, QueueLimits())
    for verdict in (created, moved) if want else ():
        assert verdict.allowed, verdict.message
        assert want in verdict.warnings[0]
    assert bool(created.warnings) is bool(want)
    assert kept.warnings == ()
