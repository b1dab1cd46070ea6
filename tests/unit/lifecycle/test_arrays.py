"""What is decided about arrays, independent pods and budgets of failed pods."""

import json
import random

import pytest

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, PodPhase
from pyroclast.api.records import Array, ArrayStatus
from pyroclast.lifecycle.effects import CreatePods, DeletePods
from pyroclast.lifecycle.gang import arrays, members, podgroups
from pyroclast.lifecycle.job import job_events, status
from pyroclast.lifecycle.job.arrays import allowed
from pyroclast.lifecycle.job.decide import decide

from .builders import NOW, facts, job, pod, pods_of, task

RUNNING, SUCCEEDED, FAILED = PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED


def array_job(indexes="0-9", *, state=None, phase=JobPhase.RUNNING, spec=None, **array):
    of_task = task("a", 0, minAvailable=1, array={"indexes": indexes, **array})
    return members.named(job(of_task, phase=phase, status={"arrays": {"a": state}} if state else None, **(spec or {})))


def failed(owner, name, tries, **more):
    made = pod(owner, name, FAILED, **more)
    made.metadata.annotations[keys.FAILURES_BEFORE] = str(tries)
    return made


def made(decision):
    return [slot.index for effect in decision.effects if isinstance(effect, CreatePods) for slot in effect.slots]


def deleted(decision):
    return {victim.name for effect in decision.effects if isinstance(effect, DeletePods) for victim in effect.victims}


def test_indexes_start_in_order_and_only_as_many_as_may_exist_at_once():
    owner = array_job("0-4,10-30:10", maxParallel=4, state={"completed": "0-1", "failed": "3"})
    assert made(decide(facts(owner, pod(owner, "a-4")))) == [2, 10, 20]


def test_pod_is_deleted_only_after_the_status_names_its_end():
    owner = array_job(maxParallel=1, state={"completed": "0"})
    ended = (pod(owner, "a-0", SUCCEEDED), pod(owner, "a-1", SUCCEEDED), pod(owner, "a-2"))
    assert deleted(decide(facts(owner, *ended))) == {"j-a-0"}
    written = decide(facts(owner, *ended[1:])).status
    assert written.arrays["a"] == ArrayStatus(completed="0-1", running="2")
    assert (written.succeeded, written.running) == (2, 1)


def test_failed_pod_is_replaced_after_its_failure_is_written_and_its_pause_is_over():
    owner = array_job("0-1", retriesPerIndex=9, maxParallel=1)
    again = facts(owner, failed(owner, "a-0", 4, finished_at=NOW - 0.5), pod(owner, "a-1"))
    first = decide(again)
    assert deleted(first) == set()
    assert (first.status.arrays["a"].failures, first.status.failed_pods) == ({"0": 5}, 5)
    known = array_job("0-1", retriesPerIndex=9, maxParallel=1, state={"running": "1", "failures": {"0": 5}})
    pause = 2.0  # the second replacement after the three that are made at once
    early = facts(known, failed(known, "a-0", 4, finished_at=NOW - 1), pod(known, "a-1"))
    assert deleted(decide(early)) == set()
    assert decide(early).recheck_at == NOW - 1 + pause
    assert deleted(decide(facts(known, failed(known, "a-0", 4, finished_at=NOW - 3), pod(known, "a-1")))) == {"j-a-0"}


def test_job_fails_with_the_numbers_when_more_indexes_failed_than_may():
    owner = array_job("0-199", maxFailures="1%", state={"failed": "3-4"})
    end = decide(facts(owner, failed(owner, "a-9", 0))).status
    assert (end.state.phase, end.state.reason) == (JobPhase.FAILED, "MaxFailuresExceeded")
    assert end.state.message.endswith("task a: 3 of 200 indexes failed (3-4,9), at most 2 may, which is 1%")


@pytest.mark.parametrize(
    ("state", "limit", "phase", "said"),
    [
        ({"completed": "0-9"}, None, JobPhase.COMPLETED, "10 pods succeeded, 0 failed"),
        ({"completed": "0-9", "failed": "7"}, None, JobPhase.FAILED, "task a: 1 of 10 indexes failed (7)"),
        ({"completed": "0-9", "failed": "7"}, 2, JobPhase.COMPLETED, "9 pods succeeded, 1 failed"),
        ({"completed": "0-5", "cancelled": "6-9"}, None, JobPhase.COMPLETED, "6 pods succeeded, 0 failed"),
        ({"cancelled": "0-9"}, None, JobPhase.FAILED, "all indexes were cancelled"),
    ],
)
def test_array_ends_when_all_its_indexes_have_ended(state, limit, phase, said):
    end = decide(facts(array_job(state=state, **({"maxFailures": limit} if limit else {})))).status.state
    assert (end.phase, end.message) == (phase, said)


def test_cancelled_index_loses_its_pod_and_gives_its_place_to_the_next():
    owner = array_job(maxParallel=2, cancelled="0-3")
    first = decide(facts(owner, pod(owner, "a-0"), pod(owner, "a-4")))
    assert deleted(first) == {"j-a-0"}
    assert made(first) == []
    assert made(decide(facts(owner, pod(owner, "a-4")))) == [5]
    assert decide(facts(owner, pod(owner, "a-4"), pod(owner, "a-5"))).status.arrays["a"].cancelled == "0-3"


def test_only_the_first_failed_pods_stay_for_inspection():
    owner = array_job("0-39", state={"failed": "0-29"})
    decision = decide(facts(owner, *(failed(owner, f"a-{index}", 0) for index in range(30))))
    assert deleted(decision) == {f"j-a-{index}" for index in range(16, 30)}


def test_policies_for_single_pods_do_not_respond_to_independent_pods_and_task_completed_does():
    policies = [{"event": "*", "action": "RestartJob"}]
    owner = array_job(state={"completed": "0-8"}, spec={"policies": policies})
    assert not list(job_events.observed(owner, pods_of(owner, failed(owner, "a-9", 0))))
    ended = list(job_events.observed(owner, pods_of(owner, pod(owner, "a-9", SUCCEEDED))))
    assert [each.event for each in ended] == ["TaskCompleted"]
    gone = job_events.deleted(owner, pod(owner, "a-3"), NOW)
    assert job_events.respond(owner, gone) is None


def test_podgroup_of_an_array_needs_no_more_pods_than_are_left():
    owner = members.named(job(task("a", 0, minAvailable=8, array={"indexes": "0-99", "maxParallel": 16}), phase=JobPhase.RUNNING))
    for completed, least in (("0-89", 8), ("0-96", 3)):
        now = array_job("0-99", state={"completed": completed}).status
        left = podgroups.remaining(owner, pods_of(type(owner)(metadata=owner.metadata, spec=owner.spec, status=now)))
        assert podgroups.manifest(left, {})["spec"]["minTaskMember"] == {"a": least}


def test_independent_pod_is_replaced_at_its_index_while_the_others_go_on():
    owner = job(
        task("a", 3, independentPods=True), phase=JobPhase.RUNNING, policies=[{"event": "PodFailed", "action": "RestartJob"}]
    )
    others = pod(owner, "a-0"), pod(owner, "a-2", SUCCEEDED)
    first = decide(facts(owner, pod(owner, "a-1", FAILED), *others)).status
    assert (first.state.phase, first.version, first.retry_count) == (JobPhase.RUNNING, 0, 0)
    assert (first.failed_pods, first.arrays["a"].failures) == (1, {"1": 1})
    known = job(task("a", 3, independentPods=True), phase=JobPhase.RUNNING, status=status.written(first))
    assert deleted(decide(facts(known, pod(owner, "a-1", FAILED), *others))) == {"j-a-1"}
    assert made(decide(facts(known, *others))) == [1]


def test_failed_pods_count_over_restarts_and_end_the_job_above_their_limit():
    given = {"maxRetry": 9, "maxFailedPods": 2, "policies": [{"event": "PodFailed", "action": "RestartJob"}]}
    owner = job(task("a", 2), phase=JobPhase.RUNNING, **given)
    restart = decide(facts(owner, pod(owner, "a-0", FAILED), pod(owner, "a-1", FAILED))).status
    assert (restart.state.phase, restart.failed_pods) == (JobPhase.RESTARTING, 2)
    later = job(task("a", 2), phase=JobPhase.RUNNING, status={"failedPods": 2, "version": 1, "retryCount": 1}, **given)
    last = decide(facts(later, pod(later, "a-0", FAILED), pod(later, "a-1"))).status
    assert (last.state.phase, last.failed_pods) == (JobPhase.RESTARTING, 3)
    over = job(task("a", 2), phase=JobPhase.RESTARTING, status=status.written(last), **given)
    end = decide(facts(over)).status
    assert (end.state.phase, end.state.reason) == (JobPhase.FAILED, "MaxFailedPodsExceeded")
    assert "3 pods failed, at most 2 may" in end.state.message


@pytest.mark.parametrize(
    ("limit", "total", "most"), [(None, 10, None), (3, 10, 3), ("1%", 199, 1), ("100%", 7, 7), ("x", 9, None)]
)
def test_limit_of_failures_is_a_number_or_a_part_of_all_indexes(limit, total, most):
    assert allowed(limit, total) == most


@pytest.mark.parametrize(("step", "share"), [(1, 0.0), (1, 0.01), (7, 0.1), (1, 0.5)])
def test_status_of_100_000_indexes_stays_below_300_kilobytes(step, share):
    seeded = random.Random(1)
    array = Array(indexes=f"0-{100_000 * step - 1}:{step}", max_parallel=64)
    everything = [index * step for index in range(100_000)]
    bad = [index for index in everything[:-64] if seeded.random() < share]
    good = sorted(set(everything[:-64]) - set(bad))
    progress = arrays.Progress(
        array,
        arrays.read(array, ArrayStatus()).ranges,
        completed=arrays.indexes.spans_of(good),
        failed=arrays.indexes.spans_of(bad),
        running=arrays.indexes.spans_of(everything[-64:]),
    )
    written = progress.written()
    size = len(json.dumps([written.completed, written.failed, written.running]))
    assert size < 300_000
    read = arrays.read(array, written)
    assert read.count(read.completed) == len(good)
    assert read.count(read.failed) == len(bad)
    assert read.left == 64
