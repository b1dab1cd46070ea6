"""What a change would do: the same futures without and with it."""

from __future__ import annotations

import pytest

from pyroclast_scheduler.explaining.book import WaitingBook
from pyroclast_scheduler.explaining.estimates import Estimator, PassInput, begin
from pyroclast_scheduler.explaining.what_if import (
    HOPEFUL,
    WhatIf,
    changed_pass,
    changed_snapshot,
    effect_of,
    read_what_if,
)
from pyroclast_scheduler.model.dimensions import amounts_of
from tests.scenarios import objects
from tests.unit.scheduler.session.test_causes import CAPACITY, decide, pods

ESTIMATE = "scheduling.volcano.sh/running-estimate"
RUNS = {"phase": "Running", "annotations": {ESTIMATE: "1h"}}
PENDING = {"phase": "Pending", "annotations": {ESTIMATE: "30m"}}
CASE = {
    "nodes": [["n1", 16, "99Gi"], ["n2", 4, "99Gi"]],
    "queues": [["q", {"capability": {"cpu": 64}}], ["small", {"capability": {"cpu": 2}}]],
    "podgroups": [
        ["busy", "q", 1, {**RUNS, "minRes": {"cpu": 16}}],
        ["next", "q", 1, {**PENDING, "minRes": {"cpu": 8}, "class": 2}],
        ["over", "small", 1, {**PENDING, "minRes": {"cpu": 4}, "class": 1}],
    ],
    "pods": [*pods("busy", 1, 16, "n1"), *pods("next", 1, 8), *pods("over", 1, 4)],
}


def compared(asked=None, waits="", **change):
    outcome, cache = decide(CASE, CAPACITY)
    book = WaitingBook()
    book.ranked_by = outcome.ranked_by
    book.take(outcome.records, outcome.seen, objects.NOW, since={})
    snapshot, estimator = cache.view(), Estimator()
    what = read_what_if(change, snapshot)
    before = begin(estimator, PassInput(book, snapshot, {}, objects.NOW, hopeful=HOPEFUL))
    after = changed_pass(before, snapshot, what, asked(snapshot) if asked else {}, waits)
    for made in (before, after):
        while not made.is_done:
            made.step()
    return {key.partition("/")[2]: effect_of(before.found.get(key), after.found.get(key)) for key in before.world.keys}, snapshot


def test_more_room_lets_a_job_start_earlier_and_a_drained_node_later():
    assert compared(add={"cpu": "8"})[0] == {"next": "earlier", "over": "same"}
    assert compared(drain=["n1"])[0]["next"] == "later"
    assert compared(add={"memory": "1Gi"})[0] == {"next": "same", "over": "same"}


def test_higher_capability_lets_a_job_start_that_never_could():
    assert compared(queue="small", capability={"cpu": "8"})[0] == {"next": "same", "over": "earlier"}
    assert compared(queue="q", capability={"cpu": "4"})[0]["next"] == "later"


def test_fewer_pods_let_a_job_start_earlier():
    effects, _ = compared(lambda snapshot: {"t/next": snapshot.dimensions.asked(amounts_of({"cpu": "4"}))}, add={"cpu": "0"})
    assert effects["next"] == "earlier"


def test_a_job_that_a_trial_does_not_start_waits_for_the_next_end():
    assert compared(waits="t/next", add={"cpu": "8"})[0]["next"] == "same"


def test_the_changed_snapshot_leaves_the_present_one_alone():
    _, snapshot = compared(add={"cpu": "1"})
    changed = changed_snapshot(snapshot, WhatIf(queue="small", limit={"cpu": 9000}, drained=("n1",)))
    assert changed.queues["small"].capability == {"cpu": 9000}
    assert snapshot.queues["small"].capability == {"cpu": 2000}
    assert not changed.is_ready[snapshot.rows["n1"]]
    assert snapshot.is_ready[snapshot.rows["n1"]]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"bad": 1}, 'there is no "bad"'),
        ({"drain": ["gone"]}, 'there is no node "gone"'),
        ({"drain": "n1"}, "drain is a list"),
        ({"drain": [["n1"]]}, "there is no node"),
        ({"queue": "gone", "capability": {"cpu": "1"}}, 'there is no queue "gone"'),
        ({"queue": "q"}, "belong together"),
        ({"pods": 4}, "pods is a number"),
        ({"pods": -4, "job": {"name": "next"}}, "pods is a number"),
        ({"pods": "4", "job": {"name": "next"}}, "pods is a number"),
        ({"job": "next"}, "job has a namespace"),
        ({"add": {"cpu": "much"}}, "much"),
        ({"add": {"cpu": [1]}}, "add has quantities"),
        ({"add": ["cpu"]}, "add has quantities"),
    ],
)
def test_invalid_changes_are_refused_in_words(body, says):
    with pytest.raises(ValueError, match=says):
        compared(**body)
