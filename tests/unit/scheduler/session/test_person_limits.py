"""Limits of each person in a queue: whom they keep waiting, what the person is told, and when the gang is tried again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyroclast.api.keys import QUEUE_PERSON_LIMITS, SERVICE_CLASS, SUBMITTED_BY
from pyroclast_scheduler.model.promises import is_held_up
from tests.scenarios import objects
from tests.unit.scheduler.session.test_budgets import GPU, World


class Shared(World):
    """The queues of `World`; gangs have submitters."""

    def limit(self, queue: str = "team", **limits: Any) -> None:
        """Set limits of each person in a queue."""
        before = self.queues[queue]
        options: dict[str, Any] = {"parent": before.spec.parent} if before.spec.parent else {}
        made = self.queues[queue] = objects.queue([queue, {**options, "annotations": {QUEUE_PERSON_LIMITS: json.dumps(limits)}}])
        self.cache.queue_changed(before, made)

    def of(self, person: str, name: str, *, service_class: str = "", **options: Any) -> None:
        """Let a gang of a person come; nobody is known to have submitted the gang of an empty person."""
        shown = {"annotations": {SUBMITTED_BY: person} if person else {}}
        shown["labels"] = {SERVICE_CLASS: service_class} if service_class else {}
        self.gang(name, shown=shown, **options)

    def states(self, *names: str) -> list[str]:
        """What a session decides about gangs, each sentence up to its first colon behind the verdict."""
        self.session()
        return [self.state(name) for name in names]


ONE_OF_ONE = "PersonLimit: not now: ann has 1 of 1 running Jobs in queue team: t/runs"
TOO_MANY = f"PersonLimit: not now: it asks for 2 {GPU}; of 3 {GPU} that a person may use in queue team, ann has 2: t/runs"


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        ({}, "Inqueue"),
        ({"runningJobs": 2}, "Inqueue"),
        ({"runningJobs": 1}, ONE_OF_ONE),
        ({"runningJobs": 0}, "PersonLimit: never: a person may have no running Jobs in queue team"),
        ({"runningJobs": 1, "persons": {"ann": {"runningJobs": 2}}}, "Inqueue"),
        ({"runningJobs": 2, "persons": {"ann": {"runningJobs": 1}}}, ONE_OF_ONE),
        ({"resources": {GPU: "4"}}, "Inqueue"),
        ({"resources": {GPU: "3"}}, TOO_MANY),
        ({"resources": {GPU: "1"}}, f"PersonLimit: never: it asks for 2 {GPU}; a person may use at most 1 {GPU} in queue team"),
        ({"resources": {"example.com/other": "0"}}, "Inqueue"),
        ({"classes": {"long": {"runningJobs": 1}}}, "Inqueue"),
        (
            {"classes": {"normal": {"runningJobs": 1}}},
            "PersonLimit: not now: ann has 1 of 1 running Jobs of class normal in queue team: t/runs",
        ),
    ],
)
def test_a_limit_of_each_person_keeps_further_gangs_of_this_person_waiting(limits: dict[str, Any], want: str) -> None:
    world = Shared()
    world.limit(**limits)
    world.of("ann", "runs", gpus=2, is_running=True)
    world.of("ann", "new", gpus=2)
    world.of("bob", "other", gpus=1)
    if limits.get("runningJobs") == 0:
        assert world.states("new") == [want]
    else:
        assert world.states("new", "other") == [want, "Inqueue"]
    group = world.cache.groups.current("t/new")
    assert group is not None
    assert is_held_up(group.status) is want.startswith("PersonLimit"), "the gang is promised nothing"


def test_gangs_that_are_let_in_together_count_at_once_and_by_class() -> None:
    world = Shared()
    world.limit(runningJobs=3, classes={"interactive": {"runningJobs": 1}})
    for number in range(3):
        world.of("ann", f"i{number}", service_class="interactive", created=number)
    for number in range(3):
        world.of("ann", f"n{number}", created=10 + number)
    states = world.states("i0", "i1", "i2", "n0", "n1", "n2")
    assert [each.partition(":")[0] for each in states] == [
        "Inqueue",
        "PersonLimit",
        "PersonLimit",
        "Inqueue",
        "Inqueue",
        "PersonLimit",
    ]
    assert states[1].endswith("1 of 1 running Jobs of class interactive in queue team: t/i0")
    assert states[5].endswith("3 of 3 running Jobs in queue team: t/i0, t/n0 and t/n1")


def test_a_limit_also_counts_the_queues_below_and_holds_nobody_beside() -> None:
    world = Shared()
    world.limit("above", runningJobs=1)
    world.of("ann", "runs", is_running=True)
    world.of("ann", "new")
    world.of("ann", "free", queue="others")
    assert world.states("new", "free") == [ONE_OF_ONE.replace("queue team", "queue above"), "Inqueue"]


def test_gangs_without_a_submitter_count_together_by_namespace() -> None:
    world = Shared()
    world.limit(runningJobs=1)
    world.of("", "runs", is_running=True)
    world.of("", "new")
    assert world.states("new") == ["PersonLimit: not now: namespace t has 1 of 1 running Jobs in queue team: t/runs"]


def test_a_held_gang_is_tried_again_when_a_gang_of_its_queue_ends_and_when_the_limit_is_raised() -> None:
    world = Shared()
    world.limit(runningJobs=1)
    world.of("ann", "runs", is_running=True)
    world.of("ann", "new")
    world.of("ann", "newer", created=1)
    world.session()
    world.session()
    assert not {"t/new", "t/newer"} & set(world.session().seen), "they cost nothing while nothing changes"
    world.cache.pod_changed(world.cache.tasks["t-runs-0"].pod, None)
    group = objects.pod_group(["runs", "team", 1, {"phase": "Running"}])
    world.cache.group_changed(group, None)
    first, second = world.states("new", "newer")
    assert first == "Inqueue"
    assert second.startswith("PersonLimit")
    world.limit(runningJobs=2)
    assert world.states("newer") == ["Inqueue"]


def test_pods_beyond_the_minimum_are_placed_only_up_to_the_limit() -> None:
    world = Shared()
    world.limit(resources={GPU: "3"})
    world.of("ann", "elastic", is_running=True)
    world.pods("elastic", 5)
    assert world.placed() == ["elastic", "elastic"]
    assert world.placed() == []


def test_a_gang_counts_without_the_action_enqueue_too() -> None:
    world = Shared(actions="allocate")
    world.limit(runningJobs=1)
    for name in ("a", "b"):
        world.of("ann", name, created=ord(name))
        world.pods(name, 1)
    assert world.placed() == ["a"]
    assert world.state("b").startswith("PersonLimit: not now: ann has 1 of 1 running Jobs")


def test_a_person_above_the_limit_evicts_nobody() -> None:
    world = Shared(actions="enqueue, allocate, preempt, reclaim")
    world.limit(resources={GPU: "8"})
    world.of("bob", "theirs", gpus=8, is_running=True)
    world.of("ann", "runs", gpus=8, is_running=True)
    world.of("ann", "new", gpus=1, **{"class": 9})
    assert world.states("new")[0].startswith("PersonLimit")
    assert world.evicted == []


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"runningJobs": -1}', '{"x": 1}', '{"resources": {"cpu": "x"}}', '{"runTime": "0s"}']
)
def test_an_invalid_annotation_is_passed_over_and_reported(text: str) -> None:
    world = Shared()
    queue = objects.queue(["team", {"annotations": {QUEUE_PERSON_LIMITS: text}}])
    world.cache.queue_changed(world.queues["team"], queue)
    (fault,) = world.cache.queues["team"].faults
    assert fault.startswith(f"annotation {QUEUE_PERSON_LIMITS}: ")
    world.of("ann", "new")
    assert world.states("new") == ["Inqueue"]
