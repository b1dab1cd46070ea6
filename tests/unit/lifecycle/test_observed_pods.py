"""The pods of a Job, sorted once for all that ask for some of them."""

import pytest

from pyroclast.api.enums import PodPhase
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.members import ObservedPods

from .builders import job, pod, pods_of, task

OWNER = job(task("a", 12), task("b", 2), status={"version": 1})


def names(*pods):
    return [each.metadata.name for each in pods]


def test_pods_that_are_alike_share_a_state():
    seen = pods_of(OWNER, pod(OWNER, "a-0"), pod(OWNER, "a-1"), pod(OWNER, "a-2", version=0), pod(OWNER, "b-0"))
    assert seen.states["j-a-0"] is seen.states["j-a-1"]
    assert sorted((state.task, state.version, number) for state, number in seen.numbers.items()) == [
        ("a", 0, 1),
        ("a", 1, 2),
        ("b", 1, 1),
    ]


def test_observed_pods_are_sorted_by_task_and_index_with_surplus_pods_last():
    seen = pods_of(OWNER, *(pod(OWNER, name) for name in ("a-12", "b-1", "a-10", "a-2", "b-0")))
    assert names(*seen.where(lambda _: True)) == ["j-a-2", "j-a-10", "j-b-0", "j-b-1", "j-a-12"]
    assert names(*seen.where(lambda state: not state.place)) == ["j-a-12"]


def test_indexes_list_the_matching_pods_within_the_replicas_of_the_task():
    pods = [pod(OWNER, "a-11"), pod(OWNER, "a-3", PodPhase.PENDING), pod(OWNER, "a-1"), pod(OWNER, "a-12"), pod(OWNER, "b-0")]
    assert pods_of(OWNER, *pods).indexes("a", lambda state: state.phase is PodPhase.RUNNING) == [1, 11]


def test_pod_is_current_unless_it_is_marked_or_of_an_older_version():
    seen = pods_of(
        OWNER, pod(OWNER, "a-0", version=0), pod(OWNER, "a-1", marked=True), pod(OWNER, "a-2"), pod(OWNER, "a-3", version=2)
    )
    assert names(*seen.where(lambda state: state.is_current(1))) == ["j-a-2", "j-a-3"]


def test_observed_pods_are_a_snapshot_without_pods_added_later():
    there = {"j-a-0": pod(OWNER, "a-0")}
    seen = ObservedPods.of(OWNER, there)
    there |= {"j-a-1": pod(OWNER, "a-1")}
    assert list(seen.by_name) == list(seen.states) == ["j-a-0"]


@pytest.mark.parametrize(
    ("name", "want"),
    {
        "j-a-0": ("a", 0),
        "j-a-10": ("a", 10),
        "j-a-1-2": ("a-1", 2),
        "j-a-01": ("", -1),
        "j-a-²": ("", -1),
        "j-a--1": ("a-", 1),
        "k-a-1": ("", -1),
        "j-a": ("", -1),
        "j": ("", -1),
        "": ("", -1),
    }.items(),
)
def test_place_is_read_from_the_name_of_a_pod_as_pod_name_wrote_it(name, want):
    assert members.place_of("j", name) == want
    task, index = want
    assert index < 0 or members.pod_name("j", task, index) == name
