"""What is decided about a Job, case by case: the timelines of the specification, one step each."""

import dataclasses

import msgspec
import pytest

from pyroclast.api import records
from pyroclast.api.enums import BusEvent, JobPhase, JobReason, PodGroupPhase, PodPhase
from pyroclast.api.keys import DRIVER_ALIVE_UNTIL, QUEUE_PERSON_LIMITS, SERVICE_CLASS, SUBMITTED_BY
from pyroclast.lifecycle.effects import (
    CreateGroup,
    CreatePods,
    DeleteGroup,
    DeletePods,
    MarkPods,
    PatchGroup,
    PreparePlugins,
    RemovePlugins,
    Slot,
    Victim,
)
from pyroclast.lifecycle.gang import podgroups
from pyroclast.lifecycle.gang.plan import MOST_IN_ORDER
from pyroclast.lifecycle.job import policy_decisions, waits
from pyroclast.lifecycle.job.decide import decide
from pyroclast.lifecycle.job.facts import Remembered, RequestedAction
from pyroclast.lifecycle.job.job_events import Occurrence
from pyroclast.lifecycle.times import format_time, parse_time

from .builders import CREATED, NOW, decode, facts, job, pod, task

P, R, G = JobPhase, JobReason, PodGroupPhase
FAIL, DONE, WAIT = PodPhase.FAILED, PodPhase.SUCCEEDED, PodPhase.PENDING
RUNNING2 = {"running": 2, "minAvailable": 2, "taskStatusCount": {"a": {"phase": {"Running": 2}}}}
EVICTED = Occurrence(BusEvent.POD_EVICTED, NOW, 0, task="a", pod="j-a-0", uid="pod-a-0")


def two(phase=P.RUNNING, **spec):
    return job(task(replicas=2), phase=phase, status={**RUNNING2, **spec.pop("status", {})}, **spec)


def policy(event, action, **more):
    return [{"event": event, "action": action, **more}]


def kinds(decision):
    return [type(effect) for effect in decision.effects]


def test_a_new_job_gets_its_podgroup_and_then_its_first_status():
    owner = job(phase=P.NEW)
    decision = decide(facts(owner, group_phase=None))
    assert kinds(decision) == [CreateGroup]
    assert not decision.conclusive
    status = decide(facts(owner, group_phase=G.PENDING)).status
    assert (status.state.phase, status.min_available, status.observed_generation) == (P.PENDING, 1, 1)
    assert [condition.status for condition in status.conditions] == ["Pending"]


def test_plugin_objects_are_created_before_the_podgroup_and_recorded_in_controlled_resources():
    owner = job(phase=P.NEW, plugins={"svc": []})
    marks = {"plugin-svc": "svc"}
    assert kinds(decide(facts(owner, group_phase=None, marks=marks))) == [PreparePlugins, CreateGroup]
    status = decide(facts(owner, group_phase=G.PENDING, marks=marks, memory=Remembered(prepared=1))).status
    assert status.controlled_resources == marks


def test_pods_are_created_only_after_the_scheduler_admitted_the_gang():
    owner = job(task(replicas=2), status={"minAvailable": 2})
    assert decide(facts(owner, group_phase=G.PENDING)).effects == ()
    for phase in (G.INQUEUE, G.RUNNING, G.UNKNOWN, G.COMPLETED):
        assert decide(facts(owner, group_phase=phase)).effects == (CreatePods((Slot("a", 0), Slot("a", 1))),)


def test_only_the_missing_pods_are_created():
    owner = job(task(replicas=6))
    decision = decide(facts(owner, pod(owner, "a-1", WAIT), pod(owner, "a-4", WAIT)))
    assert [slot.index for slot in decision.effects[0].slots] == [0, 2, 3, 5]


def test_pod_is_not_replaced_while_it_is_terminating():
    owner = two()
    assert decide(facts(owner, pod(owner, "a-0"), pod(owner, "a-1", going=True))).effects == ()


def test_evicted_pod_is_recreated_without_any_policy():
    owner = two()
    decision = decide(facts(owner, pod(owner, "a-1"), memory=Remembered(occurrences=(EVICTED,))))
    assert decision.effects == (CreatePods((Slot("a", 0),)),)
    assert decision.forget == {EVICTED}


def test_pending_job_becomes_running_when_min_available_pods_run():
    owner = job(task(replicas=2))
    decision = decide(facts(owner, pod(owner, "a-0"), pod(owner, "a-1")))
    assert decision.status.state.phase is P.RUNNING
    assert (decision.status.running, decision.status.task_status_count["a"].phase) == (2, {"Running": 2})
    assert (decision.status.state.reason, decision.status.version) == (R.MIN_AVAILABLE_REACHED, 0)


def test_unchanged_job_gets_no_effects_and_no_status_write():
    owner = two(status={"trackedPods": {"at": CREATED, "indexes": {"a": "0-1"}}})
    decision = decide(facts(owner, pod(owner, "a-0"), pod(owner, "a-1")))
    assert (decision.effects, decision.status) == ((), None)


def test_completed_job_keeps_its_pod_counts_and_gets_a_new_version():
    owner = two()
    decision = decide(facts(owner, pod(owner, "a-0", DONE), pod(owner, "a-1", DONE)))
    assert (decision.status.state.phase, decision.status.succeeded, decision.status.version) == (P.COMPLETED, 2, 1)
    assert decision.status.running_duration == "1m0s"


def test_completed_job_deletes_its_running_pods_podgroup_and_plugin_objects():
    owner = two(P.COMPLETED, status={"version": 1, "running": 1, "succeeded": 1, "controlledResources": {"plugin-svc": "svc"}})
    lives, ended = pod(owner, "a-0", version=0), pod(owner, "a-1", DONE, version=0)
    decision = decide(facts(owner, lives, ended))
    assert decision.effects == (DeletePods((Victim("j-a-0", "pod-a-0"),)), DeleteGroup("j-u1", "g1"), RemovePlugins())
    after = decide(facts(owner, ended, group_phase=None, memory=Remembered(removed=True)))
    assert (after.effects, after.status.controlled_resources, after.status.succeeded) == ((), {}, 1)
    assert after.status.state.last_transition_time == owner.status.state.last_transition_time


@pytest.mark.parametrize(
    ("action", "phase"), [("AbortJob", P.ABORTING), ("TerminateJob", P.TERMINATING), ("CompleteJob", P.COMPLETING)]
)
def test_policy_that_ends_a_job_enters_its_phase_before_pods_are_deleted(action, phase):
    owner = two(policies=policy("PodFailed", action))
    decision = decide(facts(owner, pod(owner, "a-0", FAIL, exit_code=3), pod(owner, "a-1")))
    assert decision.effects == ()  # the phase is entered first; its work follows
    assert (decision.status.state.phase, decision.status.version, decision.status.retry_count) == (phase, 1, 0)
    assert decision.status.state.reason == R.POD_FAILED
    assert decision.status.state.message == f"pod j-a-0 of task a failed with exit code 3: {action} by policy"
    assert [notice.message for notice in decision.notices] == [f"Start to execute action {action} "]
    assert (decision.status.failed, decision.status.running, decision.status.terminating) == (1, 0, 1)


@pytest.mark.parametrize("phase", [P.PENDING, P.RESTARTING, P.ABORTING])
def test_job_waits_without_effects_while_its_podgroup_is_terminating(phase):
    owner = two(phase, status={"version": 1})
    group = facts(two()).group
    held = msgspec.structs.replace(group.metadata, deletion_timestamp="2026-01-01T00:00:00Z", finalizers=("a/b",))
    assert decide(facts(owner, group=msgspec.structs.replace(group, metadata=held))).effects == ()


def test_status_that_enters_a_phase_counts_pods_about_to_be_deleted_as_terminating():
    ended = pod(two(), "a-0", DONE)
    for event, action, counted in (
        ("PodFailed", "RestartJob", (0, 0, 2)),
        ("PodFailed", "RestartPod", (1, 0, 1)),
        ("PodFailed", "AbortJob", (1, 1, 0)),
    ):
        owner = two(policies=policy(event, action))
        failed = pod(owner, "a-1", FAIL)
        entered = decide(facts(owner, ended, failed)).status
        assert (entered.succeeded, entered.failed, entered.terminating) == counted, action


def test_message_of_a_failed_job_contains_its_last_pod_failure_and_exit_code():
    message = "pod j-a-0 of task a failed with exit code 3: RestartJob by policy"
    state = {"phase": "Restarting", "reason": "PodFailed", "message": message, "lastTransitionTime": "2024-01-01T00:00:00Z"}
    owner = two(P.RESTARTING, status={"version": 3, "retryCount": 3, "state": state})
    over = decide(facts(owner)).status
    assert (over.state.phase, over.state.message) == (P.FAILED, f"{message}; restarted 3 times, which is the limit")
    owner = two()
    over = decide(facts(owner, pod(owner, "a-0", DONE), pod(owner, "a-1", FAIL, exit_code=7))).status
    assert over.state.message.startswith("pod j-a-1 of task a failed with exit code 7; task a: 1 pods succeeded, 2 must")


def test_restart_job_deletes_pods_and_podgroup_before_it_creates_new_pods():
    owner = two(policies=policy("PodFailed", "RestartJob"))
    failed, runs = pod(owner, "a-0", FAIL), pod(owner, "a-1")
    struck = decide(facts(owner, failed, runs)).status
    assert (struck.state.phase, struck.version, struck.retry_count) == (P.RESTARTING, 1, 1)

    owner = two(P.RESTARTING, status={"version": 1, "retryCount": 1}, policies=policy("PodFailed", "RestartJob"))
    failed, runs = pod(owner, "a-0", FAIL, version=0), pod(owner, "a-1", version=0)
    stale = facts(owner, failed, runs, group=facts(two()).group)
    assert kinds(decide(stale)) == [DeletePods, DeleteGroup, CreateGroup]
    assert {victim.name for victim in decide(stale).effects[0].victims} == {"j-a-0", "j-a-1"}

    leaving = decide(facts(owner, pod(owner, "a-0", version=0, going=True), pod(owner, "a-1", going=True), group_phase=G.PENDING))
    assert (leaving.effects, leaving.status.state.phase, leaving.status.terminating) == ((), P.RESTARTING, 2)

    assert decide(facts(owner, group_phase=G.PENDING)).status.state.phase is P.PENDING
    assert decide(facts(owner, group_phase=G.INQUEUE)).effects == (CreatePods((Slot("a", 0), Slot("a", 1))),)


def test_the_last_retry_keeps_the_finished_pods():
    owner = two(P.RESTARTING, status={"version": 1, "retryCount": 3})
    decision = decide(facts(owner, pod(owner, "a-0", FAIL, version=0), pod(owner, "a-1", version=0)))
    assert (decision.effects, decision.status.state.phase, decision.status.state.reason) == ((), P.FAILED, R.MAX_RETRY_REACHED)
    owner = two(P.FAILED, status={"version": 2, "retryCount": 3})
    decision = decide(facts(owner, pod(owner, "a-0", FAIL, version=0), pod(owner, "a-1", version=0), group_phase=None))
    assert decision.effects == (DeletePods((Victim("j-a-1", "pod-a-1"),)),)


def test_restart_pod_marks_the_failed_pod_then_deletes_and_recreates_it():
    policies = policy("PodFailed", "RestartPod")
    owner = two(policies=policies)
    decision = decide(facts(owner, pod(owner, "a-0", FAIL), pod(owner, "a-1")))
    assert decision.effects == (MarkPods((Victim("j-a-0", "pod-a-0"),)),)
    assert decision.conclusive
    assert (decision.status.state.phase, decision.status.version, decision.status.retry_count) == (P.RESTARTING, 0, 1)

    owner = two(P.RESTARTING, status={"retryCount": 1}, policies=policies)
    decision = decide(facts(owner, pod(owner, "a-0", FAIL, marked=True), pod(owner, "a-1")))
    assert decision.effects == (DeletePods((Victim("j-a-0", "pod-a-0"),)),)
    decision = decide(facts(owner, pod(owner, "a-1")))
    assert decision.effects == (CreatePods((Slot("a", 0),)),)


def test_interrupted_pod_restart_is_resumed_and_counted_as_a_retry():
    owner = two(policies=policy("PodFailed", "RestartPod"))
    decision = decide(facts(owner, pod(owner, "a-0", FAIL, marked=True), pod(owner, "a-1")))
    assert (decision.effects, decision.status.state.phase, decision.status.retry_count) == ((), P.RESTARTING, 1)
    assert decision.status.state.reason == R.POD_FAILED


def test_restart_pod_after_an_eviction_restarts_the_job_without_marking_a_pod():
    owner = two(policies=policy("PodEvicted", "RestartPod"))
    decision = decide(facts(owner, pod(owner, "a-1"), memory=Remembered(occurrences=(EVICTED,))))
    assert (decision.effects, decision.status.state.phase, decision.forget) == ((), P.RESTARTING, {EVICTED})


def test_restart_task_leaves_other_tasks_alone():
    owner = job(task("a", 2, policies=policy("PodFailed", "RestartTask")), task("b", 1), phase=P.RUNNING)
    pods = [pod(owner, "a-0", FAIL), pod(owner, "a-1"), pod(owner, "b-0")]
    assert decide(facts(owner, *pods)).effects == (MarkPods((Victim("j-a-0", "pod-a-0"), Victim("j-a-1", "pod-a-1"))),)


def test_restart_partition_marks_only_pods_of_the_failed_partition_and_task():
    partitions = {"totalPartitions": 2, "partitionSize": 2}
    tasks = [task(name, 4, partitionPolicy=partitions) for name in ("a", "b")]
    owner = job(*tasks, phase=P.RUNNING, policies=policy("PodFailed", "RestartPartition"))
    pods = [pod(owner, f"{name}-{i}", FAIL if (name, i) == ("a", 3) else PodPhase.RUNNING) for name in "ab" for i in range(4)]
    (mark,) = decide(facts(owner, *pods)).effects
    assert {victim.name for victim in mark.victims} == {"j-a-2", "j-a-3"}


def test_restart_partition_is_needless_when_all_pods_of_the_partition_were_evicted():
    parts = {"partitionPolicy": {"totalPartitions": 2, "partitionSize": 1}}
    owner = job(task("a", 2, **parts), phase=P.RUNNING, policies=policy("PodEvicted", "RestartPartition"))
    gone = Occurrence(BusEvent.POD_EVICTED, NOW, 0, task="a", pod="j-a-1", uid="pod-a-1", partition="1")
    decision = decide(facts(owner, pod(owner, "a-0"), memory=Remembered(occurrences=(gone,))))
    assert (decision.effects, decision.needless) == ((CreatePods((Slot("a", 1),)),), {gone})


def test_restart_command_that_names_no_pod_or_partition_deletes_no_pod():
    owner = two()
    pods = [pod(owner, "a-0"), pod(owner, "a-1")]
    order = RequestedAction("RestartPod", R.COMMAND_ISSUED, "")
    decision = decide(facts(owner, *pods, orders=(order,)))
    assert (decision.effects, decision.status.state.phase, decision.order) == ((), P.RESTARTING, order)
    order = RequestedAction("RestartPartition", R.COMMAND_ISSUED, "")
    decision = decide(facts(owner, *pods, orders=(order,)))
    assert (decision.effects, decision.status, decision.order) == ((), None, order)
    assert [notice.message for notice in decision.notices] == ["Start to execute action RestartPartition "]


def test_failed_pod_of_an_older_version_triggers_no_policy():
    owner = two(status={"version": 2}, policies=policy("*", "TerminateJob"))
    pods = [pod(owner, "a-0", FAIL, version=1), pod(owner, "a-1")]
    assert decide(facts(owner, *pods)).status.state.phase is P.RUNNING


def test_running_pod_of_an_older_version_is_deleted():
    owner = two(status={"version": 2})
    decision = decide(facts(owner, pod(owner, "a-0", version=1), pod(owner, "a-1")))
    assert decision.effects == (DeletePods((Victim("j-a-0", "pod-a-0"),)),)


def test_abort_deletes_pods_and_podgroup_and_resume_recreates_all_but_finished_pods():
    order = RequestedAction("ResumeJob", R.COMMAND_ISSUED, "resumed")
    owner = two(P.ABORTING, status={"version": 1})
    assert kinds(decide(facts(owner, pod(owner, "a-0", FAIL, version=0), pod(owner, "a-1", version=0)))) == [
        DeletePods,
        DeleteGroup,
    ]
    ended = decide(facts(owner, pod(owner, "a-0", FAIL, version=0), group_phase=None)).status
    assert (ended.state.phase, ended.failed) == (P.ABORTED, 1)

    aborted = [{"status": status, "lastTransitionTime": None} for status in ("Running", "Aborting", "Aborted")]
    owner = two(P.ABORTED, status={"version": 1, "conditions": aborted})
    resumed = decide(facts(owner, orders=(order,), group_phase=None))
    assert (resumed.status.state.phase, resumed.status.retry_count, resumed.status.version) == (P.RESTARTING, 1, 2)
    assert resumed.order == order

    conditions = [*aborted, {"status": "Restarting"}]
    owner = two(P.RESTARTING, status={"version": 2, "retryCount": 1, "conditions": conditions})
    decision = decide(facts(owner, pod(owner, "a-0", FAIL, version=0)))
    assert decision.effects == (CreatePods((Slot("a", 1),)),)  # the finished pod is kept


@pytest.mark.parametrize("phase", [P.RESTARTING, P.ABORTING, P.COMPLETING])
@pytest.mark.parametrize("action", ["AbortJob", "CompleteJob", "TerminateJob"])
def test_command_to_end_a_job_takes_effect_while_its_pods_are_still_terminating(phase, action):
    owner = two(phase, status={"version": 1, "retryCount": 1})
    order = RequestedAction(action, R.COMMAND_ISSUED, "", "c1")
    stuck = [pod(owner, f"a-{index}", version=0, going=True) for index in (0, 1)]
    decision = decide(facts(owner, *stuck, group_phase=None, orders=(order,)))
    end = {"AbortJob": P.ABORTING, "CompleteJob": P.COMPLETING, "TerminateJob": P.TERMINATING}[action]
    after = decision.status.state.phase if decision.status else phase
    assert (after, decision.order) == (end, order)
    if end is not phase:
        assert decision.status.last_command == "c1"
        assert decision.notices[-1].type == "Normal"


@pytest.mark.parametrize("phase", [P.ABORTING, P.COMPLETING])
def test_requeue_limit_terminates_a_restarting_job_but_not_an_aborting_or_completing_job(phase):
    order = RequestedAction("TerminateJob", R.REQUEUE_LIMIT_REACHED, "")
    assert decide(facts(two(phase), group_phase=None, orders=(order,))).status is None
    assert decide(facts(two(P.RESTARTING), group_phase=None, orders=(order,))).status.state.phase is P.TERMINATING


def test_resume_command_is_consumed_without_effect_by_a_terminated_job():
    owner = two(P.TERMINATED, status={"version": 1})
    order = RequestedAction("ResumeJob", R.COMMAND_ISSUED, "")
    decision = decide(facts(owner, orders=(order,), group_phase=None))
    assert (decision.effects, decision.status, decision.conclusive, decision.order) == ((), None, False, order)


def test_pod_pending_timeout_counts_from_pod_creation_and_fires_only_while_the_pod_is_pending():
    owner = two(P.PENDING, policies=policy("PodPending", "TerminateJob", timeout="40s"))
    waits = pod(owner, "a-0", WAIT, created=NOW - 30)
    before = decide(facts(owner, waits, pod(owner, "a-1")))
    assert before.recheck_at == NOW + 10
    assert [response.action for response in before.armed] == ["TerminateJob"]
    after = decide(facts(owner, waits, pod(owner, "a-1"), now=NOW + 10))
    assert (after.status.state.phase, after.status.state.reason, after.notices) == (P.TERMINATING, R.POD_PENDING, ())
    assert decide(facts(owner, pod(owner, "a-0"), pod(owner, "a-1"), now=NOW + 10)).status.state.phase is P.RUNNING


def test_policy_action_without_effect_in_the_phase_does_not_block_another_policy():
    owner = two(policies=[*policy("PodFailed", "ResumeJob"), *policy("PodEvicted", "AbortJob")])
    failed = pod(owner, "a-0", FAIL, finished_at=NOW - 20)
    gone = Occurrence(BusEvent.POD_EVICTED, NOW, 0, task="a", pod="j-a-1", uid="pod-a-1")
    decision = decide(facts(owner, failed, memory=Remembered(occurrences=(gone,))))
    assert (decision.status.state.phase, decision.forget) == (P.ABORTING, {gone})


def test_policy_action_without_effect_in_the_phase_does_not_cancel_a_delayed_action():
    owner = two(policies=[*policy("PodFailed", "ResumeJob"), *policy("PodEvicted", "AbortJob", timeout="30s")])
    decision = decide(facts(owner, pod(owner, "a-0", FAIL), memory=Remembered(occurrences=(EVICTED,))))
    assert (decision.forget, decision.recheck_at) == (frozenset(), NOW + 30)


@pytest.mark.parametrize(
    ("phase", "action", "words"),
    [
        (P.RUNNING, "ResumeJob", "that means nothing to a Job that is Running"),
        (P.COMPLETED, "AbortJob", "that means nothing to a Job that is Completed"),
        (P.RESTARTING, "ResumeJob", "the Job restarts already"),
        (P.ABORTING, "AbortJob", "that means nothing to a Job that is Aborting"),
        (P.RUNNING, "Explode", "that is no action of a Job, which are AbortJob, RestartJob, "),
        (P.RUNNING, "OpenQueue", "that is no action of a Job, which are AbortJob, RestartJob, "),
    ],
)
def test_command_without_effect_gets_a_warning_event_with_the_reason(phase, action, words):
    order = RequestedAction(action, R.COMMAND_ISSUED, "")
    decision = decide(facts(two(phase), orders=(order,)))
    (notice,) = decision.notices
    assert (notice.type, notice.reason, decision.order) == ("Warning", "CommandIssued", order)
    assert notice.message.startswith(f"{action} had no effect: {words}")


def test_pod_failed_timeout_counts_from_the_observation_of_the_failure():
    owner = two(policies=policy("PodFailed", "RestartJob", timeout="3s"))
    failed = pod(owner, "a-0", FAIL, finished_at=NOW - 400)  # the node's clock is minutes behind
    decision = decide(facts(owner, failed, pod(owner, "a-1")))
    assert decision.recheck_at == NOW + 3
    later = facts(owner, failed, pod(owner, "a-1"), now=NOW + 3, memory=Remembered(armed=decision.armed))
    assert decide(later).status.state.phase is P.RESTARTING
    restarted = msgspec.structs.replace(owner, status=decision.status)
    assert decide(facts(restarted, failed, pod(owner, "a-1"), now=NOW + 2)).recheck_at == NOW + 3
    after = decide(facts(restarted, failed, pod(owner, "a-1"), now=NOW + 3)).status
    assert (after.state.phase, after.delayed_actions) == (P.RESTARTING, ())


@pytest.mark.parametrize("happened", [EVICTED, Occurrence(BusEvent.UNKNOWN, NOW, 0)], ids=["evicted", "unknown"])
def test_delayed_action_for_an_event_that_no_object_shows_is_kept_in_the_status_until_due(happened):
    owner = two(policies=policy(happened.event, "AbortJob", timeout="30s"))
    armed = decide(
        facts(owner, pod(owner, "a-0", WAIT, uid="new"), pod(owner, "a-1"), memory=Remembered(occurrences=(happened,)))
    )
    assert [(kept.event, kept.action) for kept in armed.status.delayed_actions] == [(happened.event, "AbortJob")]
    restarted = msgspec.structs.replace(owner, status=armed.status)
    pods = pod(owner, "a-0", WAIT, uid="new"), pod(owner, "a-1")
    assert decide(facts(restarted, *pods, now=NOW + 29)).recheck_at == NOW + 30
    after = decide(facts(restarted, *pods, now=NOW + 30)).status
    assert (after.state.phase, after.delayed_actions) == (P.ABORTING, ())


def after(name, *targets, replicas=1, **more):
    return task(name, replicas, dependsOn={"name": list(targets), **more.pop("depends", {})}, **more)


CUT_OFF = {
    "the task that it waits for failed": (
        [task("a"), after("b", "a")],
        {"a-0": FAIL},
        (P.FAILED, "task b can never start: of task a"),
    ),
    "a chain": ([task("a"), after("b", "a"), after("c", "b")], {"a-0": FAIL}, (P.FAILED, "task b can never start")),
    "too few can still be up": (
        [task("a", 3, minAvailable=2), after("b", "a")],
        {"a-0": FAIL, "a-1": FAIL, "a-2": DONE},
        (P.FAILED, "of task a, 2 must be up, and 1 of 3 still can be"),
    ),
    "enough can still be up": ([task("a", 3, minAvailable=1), after("b", "a")], {"a-0": FAIL, "a-1": FAIL, "a-2": WAIT}, None),
    "any of two, both failed": (
        [task("a"), task("c"), after("b", "a", "c", depends={"iteration": "any"})],
        {"a-0": FAIL, "c-0": FAIL},
        (P.FAILED, "task b can never start"),
    ),
    "any of two, one can still be up": (
        [task("a"), task("c"), after("b", "a", "c", depends={"iteration": "any"})],
        {"a-0": FAIL, "c-0": WAIT},
        None,
    ),
    "a pod that lives ends first": ([task("a"), task("c"), after("b", "a")], {"a-0": FAIL, "c-0": PodPhase.RUNNING}, None),
    "pods that the gang does not need": (
        [task("a"), task("c", 2), after("b", "a", minAvailable=0)],
        {"a-0": FAIL, "c-0": DONE, "c-1": DONE},
        (P.COMPLETED, "2 pods succeeded, 1 failed"),
        2,
    ),
    "the minimum is out of reach": ([task("a", 2), after("b", "a")], {"a-0": FAIL, "a-1": DONE}, (P.FAILED, "task b"), 3),
}


@pytest.mark.parametrize(("rows", "pods", "want", "gang"), [(*each, 1)[:4] for each in CUT_OFF.values()], ids=CUT_OFF.keys())
@pytest.mark.parametrize("phase", [P.RUNNING, P.PENDING])
def test_job_whose_dependencies_can_never_be_met_ends_with_the_reason(rows, pods, want, gang, phase):
    owner = job(*rows, phase=phase, minAvailable=gang)
    members = [pod(owner, name, each) for name, each in pods.items()]
    for _ in range(2):  # a pending Job whose minimum has started runs first
        status = decide(facts(owner, *members)).status
        owner = msgspec.structs.replace(owner, status=status or owner.status)
    state = owner.status.state
    if want is None:
        assert state.phase in (P.RUNNING, P.PENDING)
    else:
        assert state.phase is want[0]
        assert want[1] in state.message


def test_running_job_says_that_a_task_can_never_start_and_its_delayed_actions_come_first():
    owner = job(task("a"), task("c"), after("b", "a"), phase=P.RUNNING, minAvailable=1)
    status = decide(facts(owner, pod(owner, "a-0", FAIL), pod(owner, "c-0"))).status
    assert status.state.message.endswith("of task a, 1 must be up, and 0 of 1 still can be")
    assert (status.waiting.code, status.waiting.never) == ("WaitsForTask", True)
    owner = job(
        task("a"), after("b", "a"), phase=P.RUNNING, minAvailable=1, policies=policy("PodFailed", "AbortJob", timeout="9s")
    )
    assert decide(facts(owner, pod(owner, "a-0", FAIL))).status.state.phase is P.RUNNING


def succeeded(**indexes):
    return {"trackedPods": {"at": CREATED, "succeeded": indexes}}


def test_pod_that_was_deleted_after_its_success_counts_and_is_not_created_again():
    owner = job(task("a", 2), after("b", "a"), phase=P.RUNNING, minAvailable=1, status=succeeded(a="0-1"))
    decision = decide(facts(owner, group=podgroups_for(owner)))
    assert decision.effects == (CreatePods((Slot("b", 0),), elastic=1),)
    status = decide(facts(owner, pod(owner, "b-0", DONE), group=podgroups_for(owner))).status
    assert (status.state.phase, status.succeeded) == (P.COMPLETED, 3)
    assert status.task_status_count["a"].phase == {"Succeeded": 2}


def podgroups_for(owner):
    found = facts(owner)
    return msgspec.structs.replace(
        found.group, spec=msgspec.structs.replace(found.group.spec, **members_left(podgroups.remaining(owner, found.pods)))
    )


def members_left(owner):
    return {
        "min_member": owner.spec.min_available,
        "min_task_member": {each.name: each.min_available for each in owner.spec.tasks},
        "min_resources": podgroups.min_resources(owner, {}),
    }


def test_gang_does_not_wait_for_pods_that_were_deleted_after_their_success():
    owner = job(task("a", 2), task("b"), phase=P.RUNNING, status=succeeded(a="1"))
    patch = decide(facts(owner, pod(owner, "a-0"), pod(owner, "b-0"))).effects[0].patch["spec"]
    assert (patch["minMember"], patch["minTaskMember"]) == (2, {"a": 1})
    assert patch["minResources"]["cpu"] == "200m"


@pytest.mark.parametrize(
    ("action", "left"),
    [("RestartTask", {"b": "0"}), ("RestartPod", {"a": "1", "b": "0"}), ("RestartJob", {}), ("AbortJob", None)],
)
def test_restart_runs_the_succeeded_pods_that_it_concerns_again_also_if_they_are_gone(action, left):
    owner = job(
        task("a", 3, policies=policy("PodFailed", action)), task("b"), phase=P.RUNNING, status=succeeded(a="1", b="0"), maxRetry=9
    )
    status = decide(facts(owner, pod(owner, "a-0", FAIL), pod(owner, "a-2"), group=podgroups_for(owner))).status
    assert dict(status.tracked_pods.succeeded) == ({"a": "1", "b": "0"} if left is None else left)


@pytest.mark.parametrize("timeout", [None, "9s"])
def test_task_is_completed_also_when_the_last_pod_was_deleted_before_the_controller_looked(timeout):
    policies = policy("TaskCompleted", "CompleteJob", **({"timeout": timeout} if timeout else {}))
    owner = job(task("a", 2), task("b"), phase=P.RUNNING, status=succeeded(a="0"), policies=policies)
    last = Occurrence(BusEvent.TASK_COMPLETED, NOW, 0, task="a", pod="j-a-1", uid="x")
    found = facts(owner, pod(owner, "b-0"), memory=Remembered(successes=(last,)))
    gone = {"a": frozenset({0, 1})}
    found = dataclasses.replace(found, pods=dataclasses.replace(found.pods, gone=gone), group=podgroups_for(owner))
    pending = policy_decisions.pending_actions(found)
    assert (pending.answer or pending.later[0]).action == "CompleteJob"


@pytest.mark.parametrize("action", ["RestartJob", "RestartTask", "RestartPod"])
@pytest.mark.parametrize(
    ("restarts", "retry", "want"),
    [(0, {}, 10), (1, {}, 20), (2, {}, 0), (1, {"backoff": "3s"}, 6), (1, {"backoff": "3s", "maxBackoff": "4s"}, 4)],
)
def test_restart_after_a_rejected_pod_waits_also_the_first_time_whatever_its_target(action, restarts, retry, want):
    owner = two(policies=policy("PodFailed", action), retry=retry, status={"retryCount": restarts})
    rejected = msgspec.structs.replace(
        pod(owner, "a-0", FAIL), status=msgspec.convert({"phase": "Failed", "reason": "OutOfcpu"}, records.PodStatus)
    )
    status = decide(facts(owner, rejected, pod(owner, "a-1"))).status
    assert parse_time(status.restart_time) == NOW + want
    told = msgspec.structs.replace(owner, status=status)
    decision = decide(facts(told, pod(owner, "a-1"), now=NOW + want - 1))
    assert not any(isinstance(effect, CreatePods) for effect in decision.effects)


ON_FAILURE, ON_COMPLETION = {"event": "PodFailed", "timeout": "4s"}, {"event": "TaskCompleted", "timeout": "4s"}


@pytest.mark.parametrize(
    ("rows", "ended", "want"),
    [
        pytest.param({"job": {**ON_FAILURE, "action": "RestartJob"}}, [FAIL, FAIL], P.RESTARTING, id="all-failed"),
        pytest.param({"job": {**ON_FAILURE, "action": "AbortJob"}}, [FAIL, DONE], P.ABORTING, id="the-rest-succeeded"),
        pytest.param({"task": {**ON_FAILURE, "action": "RestartTask"}}, [FAIL, FAIL], P.RESTARTING, id="policy-of-the-task"),
        pytest.param({"task": {**ON_FAILURE, "action": "RestartPod"}}, [FAIL, DONE], P.RESTARTING, id="one-pod"),
        pytest.param({"job": {"exitCode": 1, "timeout": "4s", "action": "TerminateJob"}}, [FAIL, FAIL], P.TERMINATING, id="code"),
        pytest.param({"job": {**ON_COMPLETION, "action": "AbortJob"}}, [DONE, DONE], P.ABORTING, id="completed-task"),
        pytest.param({"job": {**ON_COMPLETION, "action": "CompleteJob"}}, [DONE, DONE], P.COMPLETING, id="completes-later"),
    ],
)
def test_job_ends_only_after_its_delayed_actions(rows, ended, want):
    of_task = [rows["task"]] if "task" in rows else []
    owner = job(
        task(replicas=2, policies=of_task), phase=P.RUNNING, policies=[rows["job"]] if "job" in rows else [], minAvailable=1
    )
    pods = [pod(owner, f"a-{index}", phase) for index, phase in enumerate(ended)]
    armed = decide(facts(owner, *pods))
    assert (armed.status.state.phase, armed.recheck_at) == (P.RUNNING, NOW + 4)
    assert armed.status.state.message.endswith(f"is due at {format_time(NOW + 4)}")
    told = msgspec.structs.replace(owner, status=armed.status)
    assert decide(facts(told, *pods, now=NOW + 3)).status is None
    assert decide(facts(told, *pods, now=NOW + 4)).status.state.phase is want


def test_job_whose_successes_suffice_does_not_wait_for_a_pending_pod_to_time_out():
    owner = two(policies=policy("PodPending", "RestartJob", timeout="60s"), minSuccess=1)
    assert decide(facts(owner, pod(owner, "a-0", DONE), pod(owner, "a-1", WAIT))).status.state.phase is P.COMPLETED


def test_delayed_action_for_an_eviction_is_dropped_once_the_replacement_pod_runs():
    owner = two(policies=policy("PodEvicted", "AbortJob", timeout="30s"))
    memory = Remembered(occurrences=(EVICTED,))
    waiting = decide(facts(owner, pod(owner, "a-0", WAIT, uid="new"), pod(owner, "a-1"), memory=memory))
    assert (waiting.recheck_at, waiting.forget) == (NOW + 30, frozenset())
    assert decide(facts(owner, pod(owner, "a-0", uid="new"), pod(owner, "a-1"), memory=memory)).forget == {EVICTED}


def with_timer(count: int = 1, action: str = "RestartJob"):
    """A Job of which pods failed, with the status that keeps the time of the answer; and the decision that began it."""
    owner = job(task(replicas=count + 1), phase=P.RUNNING, policies=policy("PodFailed", action, timeout="600s"))
    failed = [pod(owner, f"a-{index}", FAIL) for index in range(count)]
    decision = decide(facts(owner, *failed, pod(owner, f"a-{count}")))
    return msgspec.structs.replace(owner, status=decision.status), decision


@pytest.mark.parametrize("is_restarted", [True, False], ids=["restarted", "at work"])
def test_delayed_action_for_a_failure_stays_due_when_the_failed_pod_is_deleted(is_restarted):
    owner, decision = with_timer()
    memory = Remembered() if is_restarted else Remembered(armed=decision.armed)
    for others in ([], [pod(owner, "a-0", WAIT, uid="new")]):
        left = [*others, pod(owner, "a-1")]
        assert decide(facts(owner, *left, now=NOW + 10, memory=memory)).recheck_at == NOW + 600
        after = decide(facts(owner, *left, now=NOW + 600, memory=memory))
        assert (after.status.state.phase, after.status.delayed_actions) == (P.RESTARTING, ())


def test_delayed_action_for_a_failure_is_dropped_when_a_replacement_pod_runs():
    owner, decision = with_timer()
    pods = pod(owner, "a-0", uid="new"), pod(owner, "a-1")
    after = decide(facts(owner, *pods, now=NOW + 600, memory=Remembered(armed=decision.armed)))
    assert after.recheck_at is None
    assert (after.status.state.phase, after.status.delayed_actions) == (P.RUNNING, ())


def test_delayed_action_for_a_failure_is_dropped_when_the_pod_is_scaled_away():
    owner, _ = with_timer()
    policies = policy("PodFailed", "RestartJob", timeout="600s")
    smaller = msgspec.structs.replace(job(task(replicas=0), phase=P.RUNNING, policies=policies), status=owner.status)
    assert decide(facts(smaller, now=NOW + 10)).recheck_at is None


@pytest.mark.parametrize(("action", "kept"), [("RestartJob", 1), ("RestartTask", 1), ("RestartPod", 1000)])
def test_status_keeps_one_delayed_action_per_restart_target_up_to_1000(action, kept):
    owner, decision = with_timer(1500, action)
    assert len(owner.status.delayed_actions) == kept
    assert len(decision.armed) == 1500
    assert decision.recheck_at == NOW + 600


def test_scaling_down_deletes_pods_from_the_highest_index_without_marking_them():
    owner = job(task(replicas=1), phase=P.RUNNING, policies=policy("PodEvicted", "RestartJob"))
    decision = decide(facts(owner, *(pod(owner, f"a-{i}") for i in range(4))))
    assert decision.effects == (DeletePods(tuple(Victim(f"j-a-{i}", f"pod-a-{i}") for i in (3, 2, 1)), in_order=True),)


def test_large_scale_down_deletes_pods_in_batches_from_the_highest_index():
    owner = job(task(replicas=0), phase=P.RUNNING)
    pods = [pod(owner, f"a-{i}") for i in range(MOST_IN_ORDER + 10)]
    (effect,) = decide(facts(owner, *pods)).effects
    assert len(effect.victims) == MOST_IN_ORDER
    assert effect.victims[0].name == f"j-a-{MOST_IN_ORDER + 9}"


def test_scaling_up_brings_the_podgroup_and_the_plugin_objects_up_to_date_before_the_pods():
    owner = job(
        task(replicas=3), phase=P.RUNNING, metadata={"generation": 2}, status={"controlledResources": {"plugin-svc": "svc"}}
    )
    small = facts(job(task(replicas=2))).group
    decision = decide(facts(owner, pod(owner, "a-0"), pod(owner, "a-1"), group=small, marks={"plugin-svc": "svc"}))
    assert kinds(decision) == [PreparePlugins, PatchGroup]
    patch = decision.effects[1].patch["spec"]
    assert (patch["minMember"], patch["minTaskMember"], patch["minResources"]["pods"]) == (3, {"a": 3}, "3")


def test_pods_of_tasks_that_the_spec_does_not_name_are_left_alone():
    owner = two(status={"trackedPods": {"at": CREATED, "indexes": {"a": "0-1"}}})
    stranger = pod(owner, "gone-0")
    decision = decide(facts(owner, pod(owner, "a-0"), pod(owner, "a-1"), stranger))
    assert (decision.effects, decision.status) == ((), None)


def test_dependencies_hold_back_a_task():
    owner = job(task("a", 2), task("b", 1, dependsOn={"name": ["a"]}))
    assert decide(facts(owner)).effects == (CreatePods((Slot("a", 0), Slot("a", 1))),)
    half = [pod(owner, "a-0"), pod(owner, "a-1", ready=False)]
    assert decide(facts(owner, *half)).effects == ()
    assert decide(facts(owner, pod(owner, "a-0"), pod(owner, "a-1", DONE))).effects == (CreatePods((Slot("b", 0),)),)


def test_job_with_a_missing_queue_creates_no_pods_but_updates_its_pod_counts():
    owner = job(task(replicas=2))
    decision = decide(facts(owner, pod(owner, "a-0", WAIT), queue=None))
    assert (decision.effects, decision.obstacle, decision.status.pending) == ((), 'queue "default" not found', 1)


def test_job_creates_no_pods_and_reports_pvc_error_while_a_named_claim_is_missing():
    owner = job(volumes=[{"mountPath": "/d", "volumeClaimName": "theirs"}])
    decision = decide(facts(owner))
    assert (decision.effects, decision.obstacle) == ((), "")
    assert decision.status.state.reason == R.VOLUME_CLAIM_NOT_FOUND
    assert decision.status.state.message == (
        "pvc theirs is not found, the job will be in the Pending state until the PVC is created"
    )
    (told,) = waits.waiting_notices(facts(owner))
    assert (told.reason, told.message) == ("PVCError", f"Failed to create PVC, err: {decision.status.state.message}")
    assert kinds(decide(facts(owner, claims=frozenset({"theirs"})))) == [CreatePods]


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector():
    owner = two(metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"})
    decision = decide(facts(owner, pod(owner, "a-0", FAIL)))
    assert (decision.effects, decision.status) == ((), None)


def test_decision_after_a_failed_effect_contains_only_a_status():
    owner = two(P.RESTARTING, status={"version": 1, "retryCount": 1})
    decision = decide(facts(owner, pod(owner, "a-0", version=0)), idle=True)
    assert (decision.effects, decision.status.state.phase) == ((), P.RESTARTING)
    assert decide(facts(job(phase=P.NEW), group_phase=None), idle=True).status.state.phase is P.PENDING


@pytest.mark.parametrize("action", ["RestartPod", "RestartTask"])
@pytest.mark.parametrize("marked", [False, True])
def test_job_whose_pod_restart_could_not_be_written_stays_running(action, marked):
    owner = job(policies=policy("PodFailed", action), phase=P.RUNNING, status={"running": 1, "minAvailable": 1})
    failed = facts(owner, pod(owner, "a-0", FAIL, marked=marked))
    decision = decide(failed, idle=True)
    assert (decision.effects, decision.status.state.phase) == ((), P.RUNNING)
    assert decide(failed).status.state.phase is P.RESTARTING


@pytest.mark.parametrize(("idle", "given"), [(True, {}), (False, {"queue": None})])
def test_generation_is_not_observed_after_a_failed_effect_or_without_the_queue(idle, given):
    owner = job(task(replicas=3), phase=P.RUNNING, metadata={"generation": 2})
    small = facts(job(task(replicas=2))).group
    decision = decide(facts(owner, pod(owner, "a-0"), pod(owner, "a-1"), group=small, **given), idle=idle)
    assert (decision.status.running, decision.status.observed_generation) == (2, 1)


def test_delayed_action_with_an_unknown_event_is_dropped_from_the_status():
    owner = two(policies=policy("*", "AbortJob", timeout="30s"))
    later = records.DelayedAction(action="AbortJob", event="Later", at="2016-12-31T23:59:60Z")
    evicted = records.DelayedAction(action="AbortJob", event="PodEvicted", at="2016-12-31T23:59:60Z", task="a", pod="j-a-9")
    pods = pod(owner, "a-0"), pod(owner, "a-1")
    told = msgspec.structs.replace(owner, status=msgspec.structs.replace(owner.status, delayed_actions=(later,)))
    after = decide(facts(told, *pods)).status
    assert (after.state.phase, after.delayed_actions) == (P.RUNNING, ())
    due = msgspec.structs.replace(owner, status=msgspec.structs.replace(owner.status, delayed_actions=(later, evicted)))
    assert decide(facts(due, *pods)).status.state.phase is P.ABORTING


def restarts(retry=None, last=None, count=0, limit=100):
    """The status after one more restart by policy at NOW, `last` seconds after the one before."""
    status = {"retryCount": count, **({"restartTime": format_time(NOW - last)} if last is not None else {})}
    owner = two(policies=policy("PodFailed", "RestartJob"), maxRetry=limit, status=status, **({"retry": retry} if retry else {}))
    return decide(facts(owner, pod(owner, "a-0", FAIL), pod(owner, "a-1"))).status


@pytest.mark.parametrize(
    ("retry", "count", "last", "want"),
    [
        pytest.param(None, 0, None, 0, id="first"),
        pytest.param(None, 2, 0, 0, id="third-at-once"),
        pytest.param(None, 3, 0, 1, id="fourth"),
        pytest.param(None, 6, 0, 8, id="seventh"),
        pytest.param(None, 6, 3, 5, id="time-since-counts"),
        pytest.param(None, 90, 0, 300, id="longest"),
        pytest.param(None, 90, 400, 0, id="long-ago"),
        pytest.param({"backoff": "10s"}, 0, None, 0, id="first-with-backoff"),
        pytest.param({"backoff": "10s"}, 1, 0, 10, id="second-with-backoff"),
        pytest.param({"backoff": "10s", "maxBackoff": "30s"}, 5, 0, 30, id="longest-of-the-job"),
        pytest.param({"backoff": "1h"}, 1, 0, 3600, id="backoff-above-the-usual-longest"),
        pytest.param({"backoff": "0s"}, 50, 0, 0, id="no-pauses"),
    ],
)
def test_restart_backoff_grows_with_the_retry_count_up_to_a_maximum(retry, count, last, want):
    status = restarts(retry, last, count)
    assert (status.retry_count, parse_time(status.restart_time) - NOW) == (count + 1, want)
    assert status.state.message.endswith(f"; the restart begins at {status.restart_time}") is (want > 0)


def test_last_allowed_restart_has_no_backoff():
    assert parse_time(restarts(count=9, last=0, limit=10).restart_time) == NOW


def test_retry_count_is_reset_only_after_the_reset_after_window():
    assert restarts({"resetAfter": "1h"}, last=3599, count=2).retry_count == 3
    assert restarts({"resetAfter": "1h"}, last=3600, count=2).retry_count == 1
    assert restarts(None, last=10**7, count=2).retry_count == 3  # off unless asked for


def test_restarting_job_creates_nothing_before_its_backoff_ends():
    times = {"retryCount": 5, "version": 1, "restartTime": format_time(NOW + 4)}
    owner = two(P.RESTARTING, maxRetry=10, status={**times, "running": 0})
    early = decide(facts(owner, group_phase=None))
    assert (early.effects, early.recheck_at) == ((), NOW + 4)
    assert early.status is None or early.status.state.phase is P.RESTARTING
    assert kinds(decide(facts(owner, group_phase=None, now=NOW + 4))) == [CreateGroup]


def test_old_pod_is_deleted_during_the_restart_backoff():
    owner = two(P.RESTARTING, maxRetry=10, status={"retryCount": 5, "version": 1, "restartTime": format_time(NOW + 4)})
    decision = decide(facts(owner, pod(owner, "a-0", version=0), group_phase=None))
    assert kinds(decision) == [DeletePods]


def test_restart_command_has_no_backoff():
    owner = two(maxRetry=100, status={"retryCount": 20, "restartTime": format_time(NOW)})
    order = RequestedAction("RestartJob", R.COMMAND_ISSUED, "", "c1")
    status = decide(facts(owner, pod(owner, "a-0"), pod(owner, "a-1"), orders=(order,))).status
    assert (status.retry_count, parse_time(status.restart_time)) == (21, NOW)


RUN_TIMES = '{"runTime": "1h", "persons": {"ann": {"runTime": "2h"}}, "classes": {"interactive": {"runTime": "10m"}}}'


@pytest.mark.parametrize(
    ("meta", "seconds"),
    [({}, 3600), ({"annotations": {SUBMITTED_BY: "ann"}}, 7200), ({"labels": {SERVICE_CLASS: "interactive"}}, 600)],
)
def test_a_job_is_ended_when_its_run_time_in_the_queue_is_over(meta, seconds):
    limits = {"metadata": {"name": "default", "annotations": {QUEUE_PERSON_LIMITS: RUN_TIMES}}}
    began = {"conditions": [{"status": "Running", "lastTransitionTime": format_time(NOW - 100)}]}
    owner = two(metadata=meta, status=began)
    members = [pod(owner, f"a-{index}") for index in range(2)]

    def at(moment, queue=limits):
        return decide(facts(owner, *members, now=moment, queue=decode(queue, records.Queue)))

    assert at(NOW).recheck_at == NOW - 100 + seconds
    assert at(NOW - 101 + seconds).order is None
    state = at(NOW - 100 + seconds).status.state
    assert (state.phase, state.reason) == (P.TERMINATING, "RunTimeLimit")
    assert state.message.endswith("which is the longest run time of a Job of this person in queue default")
    for unlimited in ("{}", "{"):
        other = {"metadata": {"name": "default", "annotations": {QUEUE_PERSON_LIMITS: unlimited}}}
        assert at(NOW + 1e6, other).order is None


def test_a_job_ends_when_its_program_no_longer_renews_it():
    due = format_time(NOW + 100)

    def at(moment, phase=P.RUNNING, until=due):
        owner = two(phase, metadata={"annotations": {DRIVER_ALIVE_UNTIL: until}})
        return decide(facts(owner, pod(owner, "a-0"), pod(owner, "a-1"), now=moment))

    assert (at(NOW).recheck_at, at(NOW).order) == (NOW + 100, None)
    for phase in (P.PENDING, P.RUNNING):
        state = at(NOW + 100, phase).status.state
        assert (state.phase, state.reason) == (P.TERMINATING, "DriverGone")
    assert at(NOW + 100, P.COMPLETED).order is None
    assert at(NOW + 1e6, until="soon").order is None


@pytest.mark.parametrize(
    ("bound", "looked", "now", "want"),
    [
        pytest.param(NOW, NOW - 5, NOW + 29, False, id="a-container-needs-a-moment-to-start"),
        pytest.param(NOW, NOW - 5, NOW + 31, True, id="stuck"),
        pytest.param(NOW, 0.0, NOW + 31, True, id="after-a-restart-of-the-controller"),
        pytest.param(NOW, NOW + 31, NOW + 80, False, id="looked-a-while-ago"),
        pytest.param(NOW, NOW + 31, NOW + 93, True, id="the-pauses-double"),
    ],
)
def test_plugin_objects_are_looked_for_while_a_pod_waits_on_its_node(bound, looked, now, want):
    marks = {"plugin-ssh": "ssh"}
    owner = job(phase=P.PENDING, plugins={"ssh": []}, status={"controlledResources": marks})
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": format_time(bound)}
    member = pod(owner, "a-0", WAIT)
    status = decode({"phase": "Pending", "conditions": [condition]}, records.pods.PodStatus)
    stuck = msgspec.structs.replace(member, spec=msgspec.structs.replace(member.spec, node_name="node"), status=status)
    memory = Remembered(prepared=1, prepared_at=looked)
    decision = decide(facts(owner, stuck, marks=marks, memory=memory, now=now))
    assert (PreparePlugins in kinds(decision)) is want
    if not want:
        assert decision.recheck_at is not None
        again = decide(facts(owner, stuck, marks=marks, memory=memory, now=decision.recheck_at))
        assert PreparePlugins in kinds(again)
