"""Suspension and times of a Job: what is made, what is kept, what does not count, and what a pod knows of its end."""

import pytest

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, PodGroupPhase, PodPhase
from pyroclast.lifecycle.effects import CreateGroup, DeleteGroup, DeletePods
from pyroclast.lifecycle.gang import ends, podgroups, pods
from pyroclast.lifecycle.job.decide import decide
from pyroclast.lifecycle.times import format_time

from .builders import CREATED, NOW, facts, job, pod, task

P = JobPhase
RUNS = {"running": 1, "minAvailable": 1, "taskStatusCount": {"a": {"phase": {"Running": 1}}}}


def running(since=10.0, **spec):
    return job(phase=P.RUNNING, status={**RUNS, "startTime": format_time(NOW - since)}, **spec)


def test_a_job_that_is_suspended_before_its_start_makes_nothing_and_says_so():
    for phase in (P.NEW, P.PENDING):
        decision = decide(facts(job(phase=phase, suspend=True), group_phase=None))
        assert decision.effects == ()
        state = decision.status.state
        assert state.phase is P.PENDING
        assert decision.status.waiting.code == "Suspended"
    assert (state.reason, state.message) == ("Suspended", "waits: Suspended: spec.suspend is true")


def test_a_waiting_job_gives_up_its_podgroup_when_it_is_suspended():
    decision = decide(facts(job(suspend=True), group_phase=PodGroupPhase.INQUEUE))
    assert (decision.status.state.phase, decision.status.state.reason) == (P.ABORTING, "Suspended")
    assert [notice.reason for notice in decision.notices] == ["Suspended"]
    owner = job(phase=P.ABORTING, suspend=True, status={"state": {"phase": "Aborting", "reason": "Suspended"}, "version": 1})
    assert decide(facts(owner, group_phase=PodGroupPhase.INQUEUE)).effects == (
        DeleteGroup(podgroups.manifest(owner, {})["metadata"]["name"], "g1"),
    )


def test_pods_of_a_suspended_job_end_and_finished_pods_stay_without_a_retry():
    owner = running(suspend=True)
    stop = decide(facts(owner, pod(owner, "a-0"))).status
    assert (stop.state.phase, stop.version, stop.retry_count, stop.start_time) == (P.ABORTING, 1, 0, None)
    going = job(
        task(replicas=2),
        phase=P.ABORTING,
        suspend=True,
        status={"version": 1, "state": {"phase": "Aborting", "reason": "Suspended"}},
    )
    members = pod(going, "a-0", version=0), pod(going, "a-1", PodPhase.SUCCEEDED, version=0)
    (delete, *_) = decide(facts(going, *members)).effects
    assert isinstance(delete, DeletePods)
    assert [victim.name for victim in delete.victims] == ["j-a-0"]


@pytest.mark.parametrize("suspended", [True, False])
def test_a_stopped_job_is_pending_again_and_goes_on_when_it_is_resumed(suspended):
    status = {"version": 1, "state": {"phase": "Aborting", "reason": "Suspended"}}
    owner = job(phase=P.ABORTING, suspend=suspended, status=status)
    state = decide(facts(owner, group_phase=None)).status.state
    assert state.phase is P.PENDING
    assert ("Suspended: " in state.message) is suspended
    resumed = job(suspend=suspended, status={"version": 1})
    assert any(isinstance(each, CreateGroup) for each in decide(facts(resumed, group_phase=None)).effects) is not suspended


def test_a_suspension_that_a_flow_or_kueue_causes_is_told():
    owners = [{"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "name": "f", "uid": "f", "controller": True}]
    by_flow = job(suspend=True, metadata={"ownerReferences": owners, "annotations": {keys.FLOW_SUSPENDED: "true"}})
    assert "its JobFlow f is suspended" in decide(facts(by_flow, group_phase=None)).status.state.message
    by_kueue = job(suspend=True, metadata={"labels": {keys.KUEUE_QUEUE: "lq"}})
    assert "the LocalQueue lq admits it" in decide(facts(by_kueue, group_phase=None)).status.state.message


def test_policies_do_not_answer_what_a_suspension_deletes():
    owner = running(suspend=True, policies=[{"event": "*", "action": "RestartJob"}])
    assert decide(facts(owner, pod(owner, "a-0"))).status.retry_count == 0


def test_the_start_of_the_run_is_noted_once_and_forgotten_by_a_restart():
    owner = job()
    started = decide(facts(owner, pod(owner, "a-0"))).status
    assert (started.state.phase, started.start_time) == (P.RUNNING, format_time(NOW))
    owner = running(since=30, policies=[{"event": "PodFailed", "action": "RestartJob"}])
    again = decide(facts(owner, pod(owner, "a-0", PodPhase.FAILED))).status
    assert (again.state.phase, again.start_time) == (P.RESTARTING, None)


def test_a_job_that_ran_too_long_fails_or_begins_anew():
    owner = running(since=40, maxRunTime="45s")
    assert decide(facts(owner, pod(owner, "a-0"))).recheck_at == NOW + 5
    late = facts(owner, pod(owner, "a-0"), now=NOW + 5)
    failed = decide(late).status
    assert (failed.state.phase, failed.state.reason) == (P.FAILED, "RunTimeLimit")
    assert failed.state.message == "it has run for 45s, which is its maxRunTime"
    owner = running(since=45, maxRunTime="45s", onTimeout="Requeue")
    again = decide(facts(owner, pod(owner, "a-0"))).status
    assert (again.state.phase, again.retry_count) == (P.RESTARTING, 1)


def test_a_run_that_has_ended_at_the_same_moment_counts_as_it_ended():
    owner = running(since=45, maxRunTime="45s")
    assert decide(facts(owner, pod(owner, "a-0", PodPhase.SUCCEEDED))).status.state.phase is P.COMPLETED


@pytest.mark.parametrize("more", [{}, {"suspend": True}, {"after": [{"job": "build"}]}])
@pytest.mark.parametrize("deadline", ["60s", format_time(NOW)])
def test_a_job_that_did_not_start_before_its_deadline_fails(deadline, more):
    owner = job(deadline=deadline, **more)
    assert decide(facts(owner, group_phase=None, now=NOW - 10)).recheck_at == NOW
    state = decide(facts(owner, group_phase=None)).status.state
    assert (state.phase, state.reason) == (P.FAILED, "DeadlineExceeded")
    assert deadline in state.message


def test_the_estimate_of_a_job_is_at_most_its_longest_run_time():
    for given, longest, want in (("2h", "1h", "1h"), ("30m", "1h", "30m"), (None, "1h", "1h"), ("2h", None, "2h")):
        spec = {"runningEstimate": given, "maxRunTime": longest}
        owner = job(**{name: value for name, value in spec.items() if value})
        assert podgroups.manifest(owner, {})["metadata"]["annotations"][keys.RUNNING_ESTIMATE] == want


def test_a_pod_knows_when_it_gets_the_signal_before_its_end():
    asks = {"maxRunTime": "1h", "signalBefore": {"seconds": 60, "signal": "SIGUSR1"}}
    early = pods.build(owner := job(**asks), owner.spec.tasks[0], 0)
    notes = early["metadata"]["annotations"]
    assert ends.signal_of(notes, NOW) == (NOW + 3540, "USR1")
    env = {each["name"]: each["value"] for each in early["spec"]["containers"][0]["env"]}
    assert env == {"VC_SIGNAL": "USR1", "VC_SIGNAL_SECONDS": "60", "VC_MAX_RUN_SECONDS": "3600"}
    late = pods.build(owner := running(since=600, **asks), owner.spec.tasks[0], 0)["metadata"]["annotations"]
    assert ends.signal_of(late, NOW) == (NOW + 3000 - 60, "USR1")
    by_deadline = pods.build(owner := job(deadline="10m", **asks), owner.spec.tasks[0], 0)["metadata"]["annotations"]
    assert ends.signal_of(by_deadline, NOW) == (NOW - 60 + 600 - 60, "USR1")
    assert ends.signal_of({}, NOW) is None
    unasked = job(maxRunTime="1h")
    assert "env" not in pods.build(unasked, unasked.spec.tasks[0], 0)["spec"]["containers"][0]
    assert format_time(NOW - 60) == CREATED
