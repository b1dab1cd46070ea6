import msgspec
import pytest

from pyroclast.api import records
from pyroclast.api.enums import BusEvent, DisruptionReason, PodPhase
from pyroclast.api.records.meta import Condition
from pyroclast.lifecycle.job.job_events import Occurrence, deleted, observed, respond

from .builders import NOW, job, pod, pods_of, task

E = BusEvent
FAILED = Occurrence(E.POD_FAILED, NOW, 0, task="a", pod="j-a-0", uid="p", exit_code=3)
PENDING = Occurrence(E.POD_PENDING, NOW, 0, task="a", pod="j-a-0", uid="p")


def on(event, action, **more):
    return {"event": event, "action": action, **more}


CASES = {
    "nothing-matches": (job(), FAILED, None),
    "job-event": (job(policies=[on("PodFailed", "AbortJob")]), FAILED, ("AbortJob", 0)),
    "list-of-events": (job(policies=[{"events": ["PodEvicted", "PodFailed"], "action": "AbortJob"}]), FAILED, ("AbortJob", 0)),
    "star": (job(policies=[on("*", "TerminateJob")]), FAILED, ("TerminateJob", 0)),
    "job-exit-code": (job(policies=[{"exitCode": 3, "action": "AbortJob"}]), FAILED, ("AbortJob", 0)),
    "other-exit-code": (job(policies=[{"exitCode": 4, "action": "AbortJob"}]), FAILED, None),
    "task-exit-code-goes-before-the-job": (
        job(task(policies=[{"exitCode": 3, "action": "CompleteJob"}]), policies=[{"exitCode": 3, "action": "AbortJob"}]),
        FAILED,
        ("CompleteJob", 0),
    ),
    "the-job-answers-what-the-task-does-not": (
        job(task(policies=[on("PodEvicted", "RestartPod")]), policies=[on("PodFailed", "AbortJob")]),
        FAILED,
        ("AbortJob", 0),
    ),
    "first-hit-wins": (job(policies=[on("*", "RestartJob"), on("PodFailed", "AbortJob")]), FAILED, ("RestartJob", 0)),
    "timeout": (job(policies=[on("PodFailed", "RestartJob", timeout="5m")]), FAILED, ("RestartJob", 300)),
    "pending-with-timeout": (job(policies=[on("PodPending", "RestartJob", timeout="10s")]), PENDING, ("RestartJob", 10)),
    "pending-without-timeout": (job(policies=[on("PodPending", "RestartJob")]), PENDING, None),
    "pending-with-no-time-at-all": (job(policies=[on("PodPending", "RestartJob", timeout="0s")]), PENDING, ("RestartJob", 0)),
    "star-without-timeout-lets-pending-pass": (
        job(policies=[on("*", "RestartJob"), on("PodPending", "AbortJob", timeout="1s")]),
        PENDING,
        ("AbortJob", 1),
    ),
    "outdated": (
        job(status={"version": 1}, policies=[on("PodFailed", "AbortJob")]),
        FAILED,
        None,
    ),
    "internal-events-are-nobodys-business": (
        job(policies=[on("*", "AbortJob")]),
        Occurrence(E.OUT_OF_SYNC, NOW, 0),
        None,
    ),
    "running-neither": (job(policies=[on("*", "AbortJob")]), Occurrence(E.POD_RUNNING, NOW, 0), None),
    "a-timeout-nobody-can-read-is-none": (
        job(policies=[on("PodFailed", "AbortJob", timeout="soon")]),
        FAILED,
        ("AbortJob", 0),
    ),
    "a-gang-that-fell-apart": (job(policies=[on("Unknown", "RestartJob")]), Occurrence(E.UNKNOWN, NOW, 0), ("RestartJob", 0)),
}


@pytest.mark.parametrize(("owner", "occurrence", "want"), CASES.values(), ids=CASES.keys())
def test_event_gets_action_and_delay_of_the_first_matching_policy(owner, occurrence, want):
    response = respond(owner, occurrence)
    assert ((response.action, response.delay) if response else None) == want


def seen(owner, *pods):
    return [(occurrence.event, occurrence.pod) for occurrence in observed(owner, pods_of(owner, *pods))]


ANY = [{"event": "*", "action": "AbortJob"}]
TWO = job(task(replicas=2), policies=ANY)


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([pod(TWO, "a-0"), pod(TWO, "a-1")], [], id="all-runs"),
        pytest.param([pod(TWO, "a-0", PodPhase.FAILED)], [(E.POD_FAILED, "j-a-0")], id="failed"),
        pytest.param([pod(TWO, "a-0", PodPhase.FAILED, marked=True)], [], id="failed-and-marked"),
        pytest.param([pod(TWO, "a-0", PodPhase.FAILED, version=-1)], [], id="failed-and-outdated"),
        pytest.param([pod(TWO, "a-0", PodPhase.PENDING)], [(E.POD_PENDING, "j-a-0")], id="pending"),
        pytest.param([pod(TWO, "a-0", PodPhase.PENDING, going=True)], [], id="pending-and-going"),
        pytest.param([pod(TWO, "a-0", PodPhase.SUCCEEDED)], [], id="one-of-two-succeeded"),
        pytest.param(
            [pod(TWO, "a-0", PodPhase.SUCCEEDED, finished_at=NOW), pod(TWO, "a-1", PodPhase.SUCCEEDED, finished_at=NOW - 1)],
            [(E.TASK_COMPLETED, "j-a-0")],
            id="task-completed-by-the-last",
        ),
        pytest.param([pod(TWO, "a-0", restarts=3)], [(E.TASK_FAILED, "j-a-0")], id="restarted-as-often-as-allowed"),
        pytest.param([pod(TWO, "a-0", restarts=2), pod(TWO, "a-1", restarts=2)], [], id="each-pod-counts-for-itself"),
    ],
)
def test_pod_states_raise_policy_events_unless_the_pod_is_marked_outdated_or_terminating(pods, want):
    assert seen(TWO, *pods) == want


def test_task_failed_event_uses_max_retry_of_the_task_and_minus_one_disables_it():
    assert seen(job(task(maxRetry=1), policies=ANY), pod(TWO, "a-0", restarts=1)) == [(E.TASK_FAILED, "j-a-0")]
    assert seen(job(task(maxRetry=-1), policies=ANY), pod(TWO, "a-0", restarts=99)) == []


def test_deletion_of_a_pod_marked_by_the_controller_is_no_eviction():
    assert deleted(TWO, pod(TWO, "a-0", marked=True), NOW) is None
    assert deleted(TWO, pod(TWO, "a-0"), NOW).event is E.POD_EVICTED


def test_pod_deleted_by_a_gang_release_is_not_evicted_but_a_preempted_pod_is():
    def told(reason):
        condition = Condition(type="DisruptionTarget", status="True", reason=reason)
        plain = pod(TWO, "a-0")
        return msgspec.structs.replace(plain, status=msgspec.structs.replace(plain.status, conditions=(condition,)))

    assert deleted(TWO, told(DisruptionReason.GANG_RELEASED), NOW) is None
    assert deleted(TWO, told(DisruptionReason.PREEMPTION), NOW).event is E.POD_EVICTED


def test_pod_failed_event_contains_exit_code_and_finish_time_of_the_container():
    (occurrence,) = observed(TWO, pods_of(TWO, pod(TWO, "a-0", PodPhase.FAILED, exit_code=137, finished_at=NOW - 7)))
    assert (occurrence.exit_code, occurrence.at) == (137, NOW - 7)
    assert str(occurrence) == "pod j-a-0 of task a failed with exit code 137"


def ended(code, reason="Error", name="c", **more):
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason, **more}}}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({"containerStatuses": [ended(3)]}, "failed with exit code 3"),
        ({"containerStatuses": [ended(137, "OOMKilled")]}, "failed with exit code 137 (OOMKilled, container c)"),
        ({"containerStatuses": [ended(0, "Completed"), ended(2, name="side")]}, "failed with exit code 2 (container side)"),
        (
            {"initContainerStatuses": [ended(4, name="setup")], "containerStatuses": [{"name": "c"}]},
            "failed with exit code 4 (init container setup)",
        ),
        (
            {"initContainerStatuses": [ended(143, name="sidecar")], "containerStatuses": [ended(3)]},
            "failed with exit code 3",
        ),
        (
            {"reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu, requested: 2000, used: 0, capacity: 1"},
            "failed (OutOfcpu: Node didn't have enough resource: cpu, requested: 2000, used: 0, capacity: 1)",
        ),
        (
            {"reason": "DeadlineExceeded", "message": "Pod was active too long", "containerStatuses": [ended(137)]},
            "failed with exit code 137 (DeadlineExceeded: Pod was active too long, container c)",
        ),
        ({"reason": "Evicted", "message": "m" * 1000}, f"failed (Evicted: {'m' * 289}…"),
        (
            {"containerStatuses": [ended(128, "StartError", message="exec: no such file\n")]},
            "failed with exit code 128 (StartError, exec: no such file, container c)",
        ),
        ({}, "failed"),
    ],
)
def test_message_says_how_a_pod_failed(status, want):
    owner = job(task(), policies=[{"event": "PodFailed", "action": "AbortJob"}])
    failed = msgspec.structs.replace(pod(owner, "a-0"), status=msgspec.convert({"phase": "Failed", **status}, records.PodStatus))
    (occurrence,) = observed(owner, pods_of(owner, failed))
    assert str(occurrence) == f"pod j-a-0 of task a {want}"
