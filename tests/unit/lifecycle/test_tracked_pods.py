"""Which pods the status of a Job names, so that a controller that starts misses no deletion and takes none of its own for one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyroclast.api.enums import JobPhase, PodPhase
from pyroclast.api.records import Job
from pyroclast.lifecycle.effects import DeletePods, MarkPods, WriteStatus
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.members import ObservedPods
from pyroclast.lifecycle.job import tracked_pods
from pyroclast.lifecycle.job.decide import decide
from pyroclast.lifecycle.job.facts import Remembered
from pyroclast.lifecycle.job.job_events import missed
from pyroclast.lifecycle.times import format_time

from .builders import CREATED, NOW, facts, job, pod, pods_of, task

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


P = JobPhase
RUN, WAIT, DONE, FAIL = PodPhase.RUNNING, PodPhase.PENDING, PodPhase.SUCCEEDED, PodPhase.FAILED
NAMES = ("a-0", "a-1", "a-2", "b-0", "b-1")


def named(at: str = CREATED, **indexes: str) -> dict[str, Any]:
    return {"trackedPods": {"at": at, "indexes": indexes}}


def done(at: str = CREATED, **succeeded: str) -> dict[str, Any]:
    return {"trackedPods": {"at": at, "succeeded": succeeded}}


def owner(phase: JobPhase = P.RUNNING, a: int = 3, **status: Any) -> Job:
    return job(task("a", a), task("b", 2), phase=phase, status=status)


@pytest.mark.parametrize("phase", [P.PENDING, P.RUNNING, P.RESTARTING])
@pytest.mark.parametrize(
    ("there", "status", "want"),
    [
        pytest.param(NAMES, named(a="0-2", b="0-1"), [], id="all-there"),
        pytest.param(("a-0", "a-2", "b-0"), named(a="0-2", b="0-1"), ["a-1", "b-1"], id="one-of-each"),
        pytest.param(("a-0",), named(a="0,2"), ["a-2"], id="one-was-never-made"),
        pytest.param((), named(a="1-2"), ["a-1", "a-2"], id="all-gone"),
        pytest.param((), named(a="0-7"), ["a-0", "a-1", "a-2"], id="scaled-down-since"),
        pytest.param((), named(c="0-7"), [], id="a-task-that-is-no-more"),
        pytest.param((), {}, [], id="of-a-release-that-named-none"),
        pytest.param((), named(format_time(NOW), a="0-2"), [], id="another-release-has-written-since"),
        pytest.param((), named(a="all of them"), [], id="of-a-release-to-come"),
    ],
)
def test_tracked_pods_that_no_longer_exist_are_found_as_missed_evictions(phase, there, status, want):
    it = owner(phase, **status)
    found = list(missed(it, pods_of(it, *(pod(it, name) for name in there)), NOW))
    assert [occurrence.pod for occurrence in found] == [f"j-{name}" for name in want]
    assert {occurrence.version for occurrence in found} <= {it.status.version}


@pytest.mark.parametrize(
    ("phase", "pods", "status", "want"),
    [
        pytest.param(P.RUNNING, {name: {} for name in NAMES}, {}, {"a": "0-2", "b": "0-1"}, id="all-run"),
        pytest.param(P.RUNNING, {"a-0": {}, "a-2": {}}, {}, {"a": "0,2"}, id="one-is-missing"),
        pytest.param(P.PENDING, {"a-0": {"phase": WAIT}, "b-0": {}}, {}, {"b": "0"}, id="one-waits"),
        pytest.param(P.RUNNING, {"a-0": {"phase": DONE}, "a-1": {"phase": FAIL}}, {}, {}, id="ended"),
        pytest.param(P.RUNNING, {"a-0": {"phase": FAIL, "going": True}}, named(a="0"), {"a": "0"}, id="ends-as-it-is-deleted"),
        pytest.param(P.RUNNING, {"a-0": {"marked": True}, "a-1": {}}, {}, {"a": "1"}, id="marked"),
        pytest.param(P.RUNNING, {"a-0": {"version": 0}, "a-1": {}}, {"version": 1}, {"a": "1"}, id="of-an-older-version"),
        pytest.param(P.RUNNING, {"a-3": {}, "a-1": {}}, {}, {"a": "1"}, id="one-too-many"),
        pytest.param(P.RUNNING, {"a-0": {"going": True}}, {}, {}, id="going-and-not-known"),
        pytest.param(P.RUNNING, {"a-0": {"going": True}}, named(a="0"), {"a": "0"}, id="deleted-by-somebody-else"),
        pytest.param(P.ABORTING, {"a-0": {"version": 0}, "a-1": {"phase": DONE}}, {"version": 1}, {"a": "0"}, id="ending"),
        pytest.param(P.ABORTING, {"a-0": {"going": True}, "a-1": {"phase": WAIT}}, {}, {"a": "1"}, id="ending-and-going"),
        pytest.param(P.COMPLETED, {"a-0": {"phase": DONE}}, {}, {}, id="over"),
    ],
)
def test_tracked_pods_are_started_pods_of_a_live_job_and_undeleted_pods_of_an_ending_job(phase, pods, status, want):
    it = owner(phase, **status)
    there = pods_of(
        it, *(pod(it, name, more.pop("phase", RUN), **more) for name, more in ((n, dict(m)) for n, m in pods.items()))
    )
    found = tracked_pods.tracked(it, there, it.status, ())
    assert dict(found.indexes) == want
    assert found.at == (CREATED if want or found.succeeded else None)
    status = msgspec.structs.replace(it.status, tracked_pods=found)
    assert not list(missed(msgspec.structs.replace(it, status=status), there, NOW))


@pytest.mark.parametrize(
    ("phase", "pods", "status", "want"),
    [
        pytest.param(P.RUNNING, {"a-0": {}, "a-2": {}}, {}, "0,2", id="there"),
        pytest.param(P.RUNNING, {"a-2": {}}, done(a="0-1"), "0-2", id="two-are-gone"),
        pytest.param(P.RUNNING, {"a-0": {"version": 0}}, {"version": 2}, "0", id="kept-by-a-resume"),
        pytest.param(P.RUNNING, {"a-0": {"marked": True}}, done(a="0"), None, id="marked"),
        pytest.param(P.RUNNING, {"a-0": {"going": True}}, {}, None, id="ended-as-it-was-deleted"),
        pytest.param(P.RUNNING, {"a-0": {"going": True}}, done(a="0"), "0", id="held-by-a-finalizer"),
        pytest.param(P.RUNNING, {}, done(a="1-9"), "1-2", id="scaled-down"),
        pytest.param(P.RUNNING, {}, done(format_time(NOW), a="0"), None, id="another-release-has-written-since"),
        pytest.param(P.RESTARTING, {"a-0": {"version": 0}}, {"version": 1}, None, id="a-restart-of-all"),
        pytest.param(P.RESTARTING, {"a-0": {"version": 0}}, {"version": 2, **done(a="0")}, "0", id="a-restart-of-others"),
        pytest.param(P.COMPLETED, {"a-1": {"version": 0}}, {"version": 1, **done(a="0")}, "0-1", id="over"),
    ],
)
def test_tracked_pods_name_the_pods_that_have_succeeded_also_when_they_are_gone(phase, pods, status, want):
    it = owner(phase, **status)
    there = pods_of(it, *(pod(it, name, DONE, **more) for name, more in pods.items()))
    assert tracked_pods.tracked(it, there, it.status, ()).succeeded.get("a") == want


def test_tracked_pods_are_stored_as_index_ranges():
    it = owner(a=10_000)
    pods = pods_of(it, *(pod(it, f"a-{index}") for index in range(10_000) if index != 77))
    assert dict(tracked_pods.tracked(it, pods, it.status, ()).indexes) == {"a": "0-76,78-9999"}


def test_restart_task_removes_its_pods_from_tracked_pods_in_the_write_that_begins_it():
    policies = [{"event": "PodFailed", "action": "RestartTask"}]
    it = job(task("a", 2, policies=policies), task("b", 2), phase=P.RUNNING, status=named(a="0-1", b="0-1"))
    decision = decide(facts(it, pod(it, "a-0", FAIL), *(pod(it, name) for name in ("a-1", "b-0", "b-1"))))
    assert [type(effect) for effect in decision.effects] == [MarkPods]
    assert (decision.status.state.phase, dict(decision.status.tracked_pods.indexes)) == (P.RESTARTING, {"b": "0-1"})
    assert decision.status.tracked_pods.at == decision.status.state.last_transition_time == format_time(NOW)


def test_restart_job_empties_tracked_pods():
    it = job(task("a", 2), phase=P.RUNNING, status=named(a="0-1"), policies=[{"event": "PodFailed", "action": "RestartJob"}])
    decision = decide(facts(it, pod(it, "a-0", FAIL), pod(it, "a-1")))
    assert (decision.status.state.phase, dict(decision.status.tracked_pods.indexes)) == (P.RESTARTING, {})


def test_scaled_down_pods_are_removed_from_tracked_pods_before_they_are_deleted():
    it = job(task("a", 1), phase=P.RUNNING, status=named(a="0-2"), metadata={"generation": 2})
    pods = [pod(it, f"a-{index}") for index in range(3)]
    first, then = decide(facts(it, *pods)).effects
    assert isinstance(first, WriteStatus)
    assert isinstance(then, DeletePods)
    assert dict(first.status.tracked_pods.indexes) == {"a": "0"}
    bigger = job(task("a", 3), phase=P.RUNNING, status=named(a="0"))
    going = [pod(bigger, f"a-{index}", going=index > 0) for index in range(3)]
    assert dict(tracked_pods.tracked(bigger, pods_of(bigger, *going), bigger.status, ()).indexes) == {"a": "0"}


def test_marked_pod_of_a_restarting_job_is_removed_from_tracked_pods_before_it_is_deleted():
    it = owner(P.RESTARTING, **named(a="0-2"))
    pods = [pod(it, "a-0", marked=True), *(pod(it, name) for name in NAMES[1:])]
    first, then = decide(facts(it, *pods)).effects
    assert isinstance(first, WriteStatus)
    assert isinstance(then, DeletePods)
    assert dict(first.status.tracked_pods.indexes) == {"a": "1-2", "b": "0-1"}
    after = msgspec.structs.replace(it, status=first.status)
    assert [type(effect) for effect in decide(facts(after, *pods)).effects] == [DeletePods]


def test_running_job_without_tracked_pods_gets_one_status_write_that_adds_them():
    it = owner(
        P.RUNNING, minAvailable=5, running=5, taskStatusCount={"a": {"phase": {"Running": 3}}, "b": {"phase": {"Running": 2}}}
    )
    pods = [pod(it, name) for name in NAMES]
    status = decide(facts(it, *pods)).status
    assert dict(status.tracked_pods.indexes) == {"a": "0-2", "b": "0-1"}
    assert decide(facts(msgspec.structs.replace(it, status=status), *pods)).status is None


@pytest.mark.parametrize("names", [named(a="0-1"), {}], ids=["as its phase was entered", "none"])
def test_aborting_job_needs_no_status_write_for_terminating_pods(names):
    it = job(task("a", 2), phase=P.ABORTING, status={"version": 1, "terminating": 2, "runningDuration": "1m0s", **names})
    going = [pod(it, f"a-{index}", version=0, going=True) for index in range(2)]
    assert decide(facts(it, *going, group_phase=None, memory=Remembered(removed=True))).status is None


def test_completed_job_without_tracked_pods_needs_no_status_write():
    it = owner(P.COMPLETED, succeeded=1, taskStatusCount={"a": {"phase": {"Succeeded": 1}}}, version=1)
    ended = pod(it, "a-0", DONE, version=0)
    assert decide(facts(it, ended, group_phase=None, memory=Remembered(removed=True))).status is None
