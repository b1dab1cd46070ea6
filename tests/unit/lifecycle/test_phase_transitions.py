"""The table of phase transitions, and the phase that follows from the pods."""

from __future__ import annotations

import pytest

from pyroclast.api.enums import Action, JobPhase, JobReason
from pyroclast.lifecycle.gang.plan import Keep
from pyroclast.lifecycle.job.phase_transitions import MOVES, PROGRESS, Move, PhaseWork, following_phase, move
from pyroclast.lifecycle.job.status import Counts
from tests.unit.lifecycle.builders import job, task

P, A, R = JobPhase, Action, JobReason
TWO = job(task(replicas=2)).spec
MIXED = job(task("ok", 1), task("ko", 1, minAvailable=0), minAvailable=1).spec
FIVE = job(task(replicas=5, minAvailable=3)).spec

PROGRESS_CASES = {
    "new-becomes-pending": (P.NEW, TWO, Counts(), 0, P.PENDING, None),
    "pending-waits": (P.PENDING, TWO, Counts(pending=1, running=1), 0, None, None),
    "pending-runs": (P.PENDING, TWO, Counts(running=2), 0, P.RUNNING, R.MIN_AVAILABLE_REACHED),
    "pending-counts-what-has-ended": (P.PENDING, TWO, Counts(succeeded=1, failed=1), 0, P.RUNNING, R.MIN_AVAILABLE_REACHED),
    "pending-that-needs-nobody": (P.PENDING, job(minAvailable=0).spec, Counts(), 0, P.RUNNING, R.MIN_AVAILABLE_REACHED),
    "running-all-succeeded": (P.RUNNING, TWO, Counts(succeeded=2), 0, P.COMPLETED, R.ALL_TASKS_FINISHED),
    "running-one-of-two": (P.RUNNING, TWO, Counts(running=1, succeeded=1), 0, None, None),
    "running-all-failed": (P.RUNNING, TWO, Counts(failed=2), 0, P.FAILED, R.ALL_TASKS_FINISHED),
    "running-five-pending": (P.RUNNING, FIVE, Counts(pending=5), 0, P.PENDING, R.NOT_ENOUGH_PODS),
    "running-three-pending": (P.RUNNING, FIVE, Counts(pending=3, running=2), 0, P.PENDING, R.NOT_ENOUGH_PODS),
    "running-two-pending": (P.RUNNING, FIVE, Counts(pending=2, running=1, succeeded=1, failed=1), 0, None, None),
    "running-scaled-to-zero": (P.RUNNING, job(task(replicas=0)).spec, Counts(), 0, None, None),
    "running-mixed": (
        P.RUNNING,
        MIXED,
        Counts(succeeded=1, failed=1, by_task={"ok": {"Succeeded": 1}, "ko": {"Failed": 1}}),
        0,
        P.COMPLETED,
        R.ALL_TASKS_FINISHED,
    ),
    "running-a-task-fell-short": (
        P.RUNNING,
        job(task("a", 2, minAvailable=1), task("b", 1)).spec,
        Counts(succeeded=2, failed=1, by_task={"a": {"Succeeded": 2}, "b": {"Failed": 1}}),
        0,
        P.FAILED,
        R.TASK_MIN_AVAILABLE_NOT_REACHED,
    ),
    "running-a-task-without-pods-is-passed-over": (
        P.RUNNING,
        job(task("a", 2), task("b", 0, minAvailable=0)).spec,
        Counts(succeeded=2, by_task={"a": {"Succeeded": 2}}),
        0,
        P.COMPLETED,
        R.ALL_TASKS_FINISHED,
    ),
    "running-min-success-reached": (
        P.RUNNING,
        job(task(replicas=3), minSuccess=1).spec,
        Counts(running=2, succeeded=1),
        0,
        P.COMPLETED,
        R.MIN_SUCCESS_REACHED,
    ),
    "running-min-success-missed": (
        P.RUNNING,
        job(task(replicas=3, minAvailable=1), minAvailable=1, minSuccess=2).spec,
        Counts(succeeded=1, failed=2, by_task={"a": {"Succeeded": 1, "Failed": 2}}),
        0,
        P.FAILED,
        R.MIN_SUCCESS_NOT_REACHED,
    ),
    "restarting-too-often": (P.RESTARTING, TWO, Counts(), 3, P.FAILED, R.MAX_RETRY_REACHED),
    "restarting-released": (
        P.RESTARTING,
        job(task(replicas=2), minAvailable=1).spec,
        Counts(terminating=1),
        1,
        P.PENDING,
        R.PODS_RELEASED,
    ),
    "restarting-not-yet": (P.RESTARTING, TWO, Counts(terminating=1), 1, None, None),
    "aborting-waits": (P.ABORTING, TWO, Counts(pending=1), 0, None, None),
    "aborting-waits-for-those-going": (P.ABORTING, TWO, Counts(terminating=1), 0, None, None),
    "aborting-keeps-the-finished": (P.ABORTING, TWO, Counts(succeeded=1, failed=1), 0, P.ABORTED, R.PODS_RELEASED),
    "completing": (P.COMPLETING, TWO, Counts(succeeded=1), 0, P.COMPLETED, R.PODS_RELEASED),
    "completing-waits": (P.COMPLETING, TWO, Counts(running=1), 0, None, None),
    "terminating": (P.TERMINATING, TWO, Counts(), 0, P.TERMINATED, R.PODS_RELEASED),
    "terminating-waits": (P.TERMINATING, TWO, Counts(running=1), 0, None, None),
    "aborted": (P.ABORTED, TWO, Counts(), 0, None, None),
    "completed": (P.COMPLETED, TWO, Counts(failed=2), 0, None, None),
    "failed": (P.FAILED, TWO, Counts(succeeded=2), 0, None, None),
    "terminated": (P.TERMINATED, TWO, Counts(running=2), 0, None, None),
}


@pytest.mark.parametrize(
    ("phase", "spec", "counts", "retries", "want_phase", "want_reason"), PROGRESS_CASES.values(), ids=PROGRESS_CASES.keys()
)
def test_next_job_phase_and_reason_follow_from_pod_counts_and_retries(phase, spec, counts, retries, want_phase, want_reason):
    change = following_phase(phase, spec, counts, retries)
    assert (change.to if change else None) is want_phase
    assert (change.reason if change else None) is want_reason


TARGETED = (A.RESTART_TASK, A.RESTART_POD, A.RESTART_PARTITION)
INTERNAL = (A.SYNC_JOB, A.ENQUEUE_JOB, A.SYNC_QUEUE, A.OPEN_QUEUE, A.CLOSE_QUEUE)
WHOLE = (A.RESTART_JOB, A.ABORT_JOB, A.TERMINATE_JOB, A.COMPLETE_JOB)


def test_every_phase_defines_a_move_for_every_action_and_a_progress_rule():
    assert set(MOVES) == set(JobPhase) == set(PROGRESS)
    assert all(set(row) == set(Action) for row in MOVES.values())


@pytest.mark.parametrize("phase", [P.NEW, P.PENDING, P.RUNNING])
def test_new_pending_or_running_job_enters_the_phase_of_the_action(phase):
    assert move(phase, A.RESTART_JOB) == Move(PhaseWork.RELEASE, Keep.NONE, P.RESTARTING, counts_as_retry=True)
    for action in TARGETED:
        assert move(phase, action) == Move(PhaseWork.RELEASE_PART, Keep.OTHERS, P.RESTARTING, counts_as_retry=True)
    assert move(phase, A.ABORT_JOB) == Move(PhaseWork.RELEASE, Keep.FINISHED, P.ABORTING)
    assert move(phase, A.COMPLETE_JOB) == Move(PhaseWork.RELEASE, Keep.FINISHED, P.COMPLETING)
    assert move(phase, A.TERMINATE_JOB) == Move(PhaseWork.RELEASE, Keep.FINISHED, P.TERMINATING)
    for action in (*INTERNAL, A.RESUME_JOB, "Unheard", ""):
        assert move(phase, action).work is PhaseWork.SYNC


ENDS = {A.ABORT_JOB: P.ABORTING, A.COMPLETE_JOB: P.COMPLETING, A.TERMINATE_JOB: P.TERMINATING}


def test_a_restarting_job_can_be_ended():
    assert move(P.RESTARTING, A.SYNC_JOB).work is PhaseWork.SYNC
    for action in TARGETED:
        assert move(P.RESTARTING, action) == Move(PhaseWork.RELEASE_PART)
    for action, phase in ENDS.items():
        assert move(P.RESTARTING, action) == Move(PhaseWork.RELEASE, Keep.FINISHED, phase)
    for action in (A.RESTART_JOB, A.RESUME_JOB, A.ENQUEUE_JOB, "Unheard"):
        assert move(P.RESTARTING, action) == Move(PhaseWork.RELEASE, Keep.NONE)


@pytest.mark.parametrize("phase", [P.ABORTING, P.COMPLETING])
def test_aborting_or_completing_job_can_switch_to_another_ending_phase(phase):
    for action, end in ENDS.items():
        assert move(phase, action) == Move(PhaseWork.RELEASE, Keep.FINISHED, None if end is phase else end)


def test_an_aborted_job_can_be_resumed_and_nothing_else():
    for phase in (P.ABORTING, P.ABORTED):
        assert move(phase, A.RESUME_JOB) == Move(PhaseWork.RELEASE, Keep.FINISHED, P.RESTARTING, counts_as_retry=True)
        for action in (*INTERNAL, A.RESTART_JOB, A.ABORT_JOB, *TARGETED, "Unheard"):
            assert move(phase, action) == Move(PhaseWork.RELEASE, Keep.FINISHED)
    assert {move(P.ABORTED, action).to for action in WHOLE} == {None}


@pytest.mark.parametrize("phase", [P.COMPLETED, P.TERMINATING, P.TERMINATED, P.FAILED])
def test_terminating_or_ended_job_only_releases_its_pods_on_any_action(phase):
    for action in (*Action, "Unheard"):
        assert move(phase, action) == Move(PhaseWork.RELEASE, Keep.FINISHED)
