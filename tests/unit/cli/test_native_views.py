"""PodGroups of Kubernetes itself in the lists of those that wait and run, and explained by their conditions."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from pyroclast.views.explanation import explanation_lines, stored_explanation
from pyroclast.views.groups import native_waiter, own_groups, unseen_waiter
from pyroclast.views.rows import running_group_rows, waiting_rows

BEGIN = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
NOW = (BEGIN + timedelta(minutes=10)).timestamp()
WHY = "not now: 2 of 3 have room"


def at(minutes):
    return (BEGIN + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind, status, reason, message="", minutes=2):
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at(minutes)}


WAITS = (
    condition("PodGroupInitiallyScheduled", "False", "Unschedulable", WHY),
    condition("pyroclast.dev/Queued", "True", "NodesFull", WHY),
)
RUNS = (condition("PodGroupInitiallyScheduled", "True", "Scheduled"), condition("pyroclast.dev/Queued", "False", "Admitted"))


def group(name, *conditions, minutes=0, owner=None, **meta):
    owners = [{**owner, "name": "j", "uid": "u", "controller": True}] if owner else []
    return {
        "metadata": {"name": name, "namespace": "t", "creationTimestamp": at(minutes), "ownerReferences": owners, **meta},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        "status": {"conditions": list(conditions)},
    }


def pod(name, of, *, phase="Running", node="n"):
    return {
        "metadata": {"name": name, "namespace": "t"},
        "spec": {"nodeName": node, "schedulingGroup": {"podGroupName": of}},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def waiting_native_rows(groups, now):
    return waiting_rows(filter(None, map(native_waiter, groups)), now)


def native_explanation(found, now):
    return stored_explanation(native_waiter(found) or unseen_waiter(found), now)


def test_waiting_native_podgroups_are_listed_by_age_with_code_and_sentence():
    labelled = {"labels": {"scheduling.volcano.sh/queue-name": "q"}}
    rows = waiting_native_rows([group("late", *WAITS, minutes=5), group("early", *WAITS, **labelled), group("runs", *RUNS)], NOW)
    assert [(row["name"], row["queue"], row["waitedSeconds"], row["pods"]) for row in rows] == [
        ("early", "q", 600, 3),
        ("late", None, 300, 3),
    ]
    assert {(row["object"], row["code"], row["sentence"]) for row in rows} == {("podgroups.scheduling.k8s.io", "NodesFull", WHY)}


def test_native_podgroup_of_another_scheduler_is_not_listed():
    theirs = group("theirs", condition("PodGroupInitiallyScheduled", "False", "Unschedulable", "x"))
    started = group("started", RUNS[0])
    assert waiting_native_rows([theirs, group("new")], NOW) == []
    assert running_group_rows([native_waiter(started)], [pod("p", "started")], NOW) == []


def test_running_native_podgroups_are_listed_only_while_they_have_active_pods():
    pods = [
        pod("a", "g"),
        pod("b", "g", phase="Pending", node="m"),
        pod("c", "g", phase="Succeeded"),
        pod("d", "over", phase="Failed"),
    ]
    (row,) = running_group_rows(map(native_waiter, [group("g", *RUNS), group("over", *RUNS), group("waits", *WAITS)]), pods, NOW)
    assert (row["name"], row["pods"], row["ready"], row["nodes"], row["elapsedSeconds"]) == ("g", 2, 1, 2, 480)


QUEUE = "scheduling.volcano.sh/queue-name"


@pytest.mark.parametrize(
    ("of_pod", "want"),
    [({"labels": {QUEUE: "asked"}}, "asked"), ({"labels": {QUEUE: "asked"}, "annotations": {QUEUE: "told"}}, "told"), ({}, None)],
)
def test_native_podgroup_without_a_queue_takes_the_queue_of_its_pods(of_pod, want):
    bound = pod("a", "g")
    bound["metadata"] |= of_pod
    (row,) = running_group_rows([native_waiter(group("g", *RUNS))], [bound], NOW)
    assert row["queue"] == want


@pytest.mark.parametrize(
    ("owner", "is_own"),
    [
        (None, True),
        ({"apiVersion": "batch/v1", "kind": "Job"}, True),
        ({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}, False),
    ],
    ids=["made by hand", "of a Job of Kubernetes", "shows a Job of ours"],
)
def test_native_podgroup_of_a_vcjob_has_no_separate_row(owner, is_own):
    assert bool(own_groups([group("g", *WAITS, owner=owner)])) is is_own


def test_native_podgroup_explanation_is_read_from_its_conditions():
    answer = native_explanation(group("g", *WAITS), NOW)
    assert (answer["kind"], answer["code"], answer["sentence"], answer["complete"]) == ("Explanation", "NodesFull", WHY, False)
    first, why, start, help_, as_of = explanation_lines(answer)
    assert first == "t/g waits for 10m: NodesFull, not now"
    assert f"{why.split(maxsplit=1)[1]}" == WHY.removeprefix("not now: ")
    assert start == "start    not known: no estimate is made"
    assert "docs/codes.md#nodesfull" in help_
    assert as_of.endswith("the last that the scheduler wrote: it gives no answer now")


def waits_by(**said):
    """Conditions of one that waits, of which the scheduler tells `said` besides."""
    return *WAITS, condition("pyroclast.dev/Waiting", "True", "NodesFull", json.dumps({"code": "NodesFull", **said}))


START = [at(60), at(70), at(90)]


def test_waiting_condition_gives_position_queue_requests_and_start_of_a_native_podgroup():
    asked = {"cpu": "6", "pods": "3"}
    told = group("g", *waits_by(ahead=2, queue="q", requests=asked, start=START, basis="1 declared run time"))
    (row,) = waiting_native_rows([told], NOW)
    assert (row["position"], row["queue"], row["asks"], row["start"]) == (3, "q", {"cpu": "6"}, START)
    answer = native_explanation(told, NOW)
    assert (answer["queue"], answer["start"]["likely"]) == ("q", START[1])
    (line,) = (line for line in explanation_lines(answer) if line.startswith("start "))
    assert line.endswith("by: 1 declared run time")


def test_native_podgroup_that_can_never_start_shows_start_never():
    never = group("g", *waits_by(never=True, start=START))
    (row,) = waiting_native_rows([never], NOW)
    assert (row["start"], row["never"]) == ("never", True)
    assert "start    never: waiting alone does not help" in explanation_lines(native_explanation(never, NOW))


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"requests": 3, "start": "soon"}'])
def test_invalid_waiting_condition_of_a_native_podgroup_is_ignored(text):
    (row,) = waiting_native_rows([group("g", *WAITS, condition("pyroclast.dev/Waiting", "True", "x", text))], NOW)
    assert (row["position"], row["queue"], row["asks"], row["start"], row["never"]) == (None, None, {}, None, False)


@pytest.mark.parametrize(
    ("said", "sentence"), [(RUNS, "its pods have their nodes"), ((), "no scheduler of ours has looked at it")]
)
def test_explanation_of_a_placed_or_unexamined_native_podgroup_says_so(said, sentence):
    (line,) = explanation_lines(native_explanation(group("g", *said), NOW))
    assert line.startswith(f"t/g: {sentence}")
