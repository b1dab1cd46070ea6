"""The budget of a queue: what is refused of it, and who writes what was spent."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast.api.keys import QUEUE_BUDGET, QUEUE_BUDGET_SPENT, QUEUE_PAST_USAGE
from pyroclast.rules import queues
from pyroclast.rules.queues import QueueLimits
from tests.bench.admission_server import FixedQueues

GOOD = '{"period":"month","limits":{"nvidia.com/gpu":"5000h"}}'
BAD = '{"period":"month","limits":{"nvidia.com/gpu":"5000"},"atEnd":"kill"}'
RECORDER = "system:serviceaccount:ours:pyroclast-recorder"


def queue(**annotations: str) -> dict[str, Any]:
    names = {"budget": QUEUE_BUDGET, "spent": QUEUE_BUDGET_SPENT}
    return {"metadata": {"name": "q", "annotations": {names[name]: text for name, text in annotations.items()}}, "spec": {}}


def create(body: dict[str, Any]) -> str:
    return queues.validate_create(body, FixedQueues(), QueueLimits()).message


def update(body: dict[str, Any], old: dict[str, Any]) -> str:
    return queues.validate_update(body, old, FixedQueues(), QueueLimits()).message


def test_queue_with_a_valid_budget_is_allowed() -> None:
    assert create(queue(budget=GOOD)) == ""
    assert update(queue(budget=GOOD), queue()) == ""


@pytest.mark.parametrize("message", [create(queue(budget=BAD)), update(queue(budget=BAD), queue(budget=GOOD))])
def test_queue_with_an_invalid_budget_is_refused_with_its_field_paths(message: str) -> None:
    path = f"requestBody.metadata.annotations[{QUEUE_BUDGET}]"
    assert f'{path}.limits.nvidia.com/gpu: Invalid value: "5000": must be hours of the resource' in message
    assert f'{path}.atEnd: Invalid value: "kill": is unknown; it is one of warn, low, hold, safe' in message


def test_unchanged_invalid_budget_does_not_block_a_queue_update() -> None:
    assert update(queue(budget=BAD), queue(budget=BAD)) == ""


@pytest.mark.parametrize(
    ("new", "old", "is_allowed"),
    [
        (queue(), None, True),
        (queue(spent="{}"), None, False),
        (queue(spent="{}"), queue(spent="{}"), True),
        (queue(spent="{}"), queue(), False),
        (queue(), queue(spent="{}"), False),
        ({"metadata": {}}, queue(), True),
    ],
)
def test_only_the_recorder_may_change_the_spent_annotation_of_a_queue(
    new: dict[str, Any], old: dict[str, Any] | None, is_allowed: bool
) -> None:
    assert queues.validate_recorded(new, old, is_from_recorder=True).allowed
    verdict = queues.validate_recorded(new, old, is_from_recorder=False)
    assert verdict.allowed is is_allowed
    if not is_allowed:
        assert (
            verdict.message == f"metadata.annotations[{QUEUE_BUDGET_SPENT}]: Forbidden: the recorder writes it; leave it as it is"
        )


@pytest.mark.parametrize(("annotations", "before"), [({QUEUE_PAST_USAGE: "{}"}, {}), ({}, {QUEUE_PAST_USAGE: "{}"})])
def test_only_the_recorder_may_add_or_remove_the_past_usage_annotation_of_a_queue(
    annotations: dict[str, str], before: dict[str, str]
) -> None:
    new, old = {"metadata": {"annotations": annotations}}, {"metadata": {"annotations": before}}
    assert queues.validate_recorded(new, old, is_from_recorder=True).allowed
    verdict = queues.validate_recorded(new, old, is_from_recorder=False)
    assert verdict.message == f"metadata.annotations[{QUEUE_PAST_USAGE}]: Forbidden: the recorder writes it; leave it as it is"


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (RECORDER, True),
        ("system:serviceaccount:ours:blue-recorder", True),
        ("system:serviceaccount:theirs:pyroclast-recorder", False),
        ("system:serviceaccount:ours:pyroclast-controllers", False),
        ("my-recorder", False),
        ("", False),
    ],
)
def test_recorder_is_a_recorder_service_account_of_our_namespace(user: str, expected: bool) -> None:
    assert queues.is_recorder(user, "ours") is expected
    assert not queues.is_recorder(user, "")
