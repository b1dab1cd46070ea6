import pytest

from pyroclast.api.enums import JobPhase, JobReason
from pyroclast.lifecycle.job.phase_transitions import following_phase
from pyroclast.lifecycle.job.status import Counts

from .builders import job, task

P, R = JobPhase, JobReason
TWO = job(task(replicas=2)).spec
MIXED = job(task("ok", 1), task("ko", 1, minAvailable=0), minAvailable=1).spec
FIVE = job(task(replicas=5, minAvailable=3)).spec

CASES = {
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


@pytest.mark.parametrize(("phase", "spec", "counts", "retries", "want_phase", "want_reason"), CASES.values(), ids=CASES.keys())
def test_next_job_phase_and_reason_follow_from_pod_counts_and_retries(phase, spec, counts, retries, want_phase, want_reason):
    change = following_phase(phase, spec, counts, retries)
    assert (change.to if change else None) is want_phase
    assert (change.reason if change else None) is want_reason
