"""Jobs after Jobs: what an entry waits for, what the status keeps of deleted Jobs, and which cycles are seen."""

import pytest

from pyroclast.api.enums import JobPhase, PodGroupPhase
from pyroclast.api.records import AfterJob, AfterStatus
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.job import after
from pyroclast.lifecycle.job.decide import decide

from .builders import facts, job, queue, task

BUILD = {"job": "build"}


def waiter(*entries, **more):
    return job(after=list(entries or (BUILD,)), **more)


def seen(name="build", phase="", uid="b1", **more):
    return AfterJob(name=name, uid=uid, phase=phase, **more)


def met(owner, *present, departed=None):
    return after.noted(owner, [tuple(present)] * len(owner.spec.after), departed or {})


CASES = [
    ("Succeeded", {"": None, "Running": None, "Completed": True, "Failed": False, "Terminated": False}, False),
    ("Failed", {"": None, "Running": None, "Completed": False, "Failed": True, "Terminated": True}, False),
    ("Ended", {"": None, "Running": None, "Completed": True, "Failed": True, "Terminated": True}, True),
    ("Started", {"": None, "Running": True, "Completed": True, "Failed": True, "Terminated": True}, None),
]


@pytest.mark.parametrize(("condition", "outcomes", "when_gone"), CASES)
def test_each_condition_is_met_open_or_never_met_by_the_phase_of_the_earlier_job(condition, outcomes, when_gone):
    owner = waiter({**BUILD, "condition": condition})
    for phase, outcome in outcomes.items():
        (state,) = met(owner, seen(phase=phase))
        assert state.met is (outcome is True)
        assert bool(after.never(owner, (state,))) is (outcome is False)
    deleted = met(job(after=[{**BUILD, "condition": condition}], status={"after": [{"jobs": [{"name": "build", "uid": "b1"}]}]}))
    assert deleted[0].met is (when_gone is True)
    assert deleted[0].jobs[0].gone


def test_the_last_phase_of_a_deleted_job_counts_and_that_of_its_deletion_before_the_noted_one():
    noted = {"after": [{"jobs": [{"name": "build", "uid": "b1", "phase": "Running"}]}]}
    owner = waiter(status=noted)
    assert met(owner)[0] == AfterStatus(jobs=(seen(phase="Running", gone=True),))
    assert met(owner, departed={"b1": "Completed"})[0].met
    assert not met(owner, seen(uid="b2"))[0].jobs[0].gone  # another Job of the name takes its place


def test_what_is_met_stays_met_and_what_is_unknown_stays_as_noted():
    owner = waiter(status={"after": [{"met": True, "jobs": [{"name": "build", "uid": "b1", "phase": "Completed"}]}]})
    assert met(owner, seen(uid="b2", phase="Failed"))[0].met
    assert not after.is_waiting(owner)
    open_ = waiter(status={"after": [{"jobs": [{"name": "build", "uid": "b1", "phase": "Running"}]}]})
    assert after.noted(open_, [None], {}) == open_.status.after


def test_a_selector_waits_for_a_first_job_and_then_for_all():
    owner = waiter({"selector": {"matchLabels": {"stage": "fit"}}})
    assert "there is none yet" in after.waits(owner, met(owner))
    some = met(owner, seen("a", "Completed", "a"), seen("b", "Running", "b"))
    assert not some[0].met
    assert "job b, which is Running" in after.waits(owner, some)
    assert met(owner, seen("a", "Completed", "a"), seen("b", "Completed", "b"))[0].met


def test_a_status_keeps_a_bounded_number_of_jobs_and_those_that_prevent_the_start_first():
    owner = waiter({"selector": {}})
    many = [seen(f"j{index:04}", "Completed", str(index)) for index in range(2000)]
    state = met(owner, *many, seen("zz", "Failed", "z"))[0]
    assert len(state.jobs) == after.MOST_NOTED
    assert state.jobs[0].name == "zz"


def test_a_cycle_is_seen_from_each_of_its_jobs_and_a_long_chain_is_none():
    def named(name, earlier, uid):
        return job(after=[{"job": earlier}], metadata={"name": name, "uid": uid})

    jobs = {name: named(name, earlier, name) for name, earlier in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"))}

    def earlier_of(owner):
        return [jobs[each.job] for each in owner.spec.after if each.job in jobs]

    assert after.cycle_of(jobs["a"], earlier_of) == ["a", "b", "c", "a"]
    assert after.cycle_of(jobs["d"], earlier_of) == []
    jobs |= {f"l{at}": named(f"l{at}", f"l{at + 1}", f"l{at}") for at in range(5000)}
    assert after.cycle_of(jobs["l0"], earlier_of) == []


def decided(owner, *earlier, group_phase=None, **more):
    return decide(facts(owner, group_phase=group_phase, earlier=(tuple(earlier),), queue=queue(), **more))


def test_a_waiting_job_makes_nothing_and_says_what_it_waits_for():
    decision = decided(waiter(phase=JobPhase.NEW), seen(phase="Running"))
    assert decision.effects == ()
    assert decision.status.state.phase is JobPhase.PENDING
    assert decision.status.state.message == ("waits: WaitsForJob: it starts after job build, which is Running, has succeeded")
    assert decision.status.waiting.code == "WaitsForJob"


def test_a_job_starts_only_after_its_status_says_that_it_may():
    owner = waiter()
    first = decided(owner, seen(phase="Completed"))
    assert first.effects == ()
    assert first.status.after[0].met
    assert first.recheck_at == facts(owner).now
    released = job(after=[BUILD], status={"after": [{"met": True}]})
    assert decided(released).effects  # also when the earlier Job is gone


def test_a_job_that_can_never_start_fails_with_the_reason_or_waits_by_its_policy():
    failed = decided(waiter(), seen(phase="Failed"))
    assert (failed.status.state.phase, failed.status.state.reason) == (JobPhase.FAILED, "DependencyNeverSatisfied")
    assert failed.status.state.message == "job build is Failed, and this Job runs only after it has succeeded"
    waits = decided(waiter(afterPolicy="Wait"), seen(phase="Failed"))
    assert waits.status.state.phase is JobPhase.PENDING
    assert waits.status.waiting.never


def test_jobs_that_wait_for_each_other_fail_or_say_so():
    failed = decided(waiter(), seen(), cycle=("j", "build", "j"))
    assert failed.status.state.message == "the jobs j → build → j wait for each other"
    assert "never: the jobs" in decided(waiter(afterPolicy="Wait"), seen(), cycle=("j", "build", "j")).status.state.message


def array(**more):
    """A Job whose array waits for the same indexes of the array of Job `prepare`."""
    spec = {"array": {"indexes": "0-9", "maxParallel": 4}}
    return job(task(replicas=10, minAvailable=1, **spec), after=[{"job": "prepare", "index": "same"}], **more)


def test_the_reached_indexes_of_an_earlier_array_are_told_by_the_condition():
    earlier = job(status={"arrays": {"a": {"completed": "0-5", "failed": "2", "cancelled": "4", "running": "6-7"}}})
    wants = {"Succeeded": "0-1,3,5", "Failed": "2", "Ended": "0-5", "Started": "0-7"}
    for condition, want in wants.items():
        entry = job(after=[{"job": "j", "index": "same", "condition": condition}]).spec.after[0]
        assert after.state_of(earlier, entry).indexes == want


def test_an_index_of_an_array_starts_when_the_same_index_of_the_other_has_completed():
    held = decided(array(), seen("prepare", "Running"))
    assert held.effects == ()
    assert "WaitsForJob" in held.status.state.message
    noted = {"after": [{"jobs": [{"name": "prepare", "uid": "b1", "phase": "Running", "indexes": "2,5"}]}]}
    owner = members.named(array(phase=JobPhase.RUNNING, status=noted))
    decision = decided(owner, seen("prepare", "Running", indexes="2,5"), group_phase=PodGroupPhase.RUNNING)
    assert [slot.index for effect in decision.effects for slot in getattr(effect, "slots", ())] == [2, 5]


def test_an_array_runs_what_it_can_before_it_fails_for_what_can_never_run():
    noted = {"after": [{"jobs": [{"name": "prepare", "uid": "b1", "phase": "Failed", "indexes": "0-1"}]}]}
    owner = members.named(array(phase=JobPhase.RUNNING, status=noted))
    last = seen("prepare", "Failed", indexes="0-1")
    assert decided(owner, last, group_phase=PodGroupPhase.RUNNING).effects
    done = members.named(
        array(phase=JobPhase.RUNNING, status={**noted, "arrays": {"a": {"completed": "0-1"}}, "observedGeneration": 1})
    )
    state = decided(done, last, group_phase=PodGroupPhase.RUNNING).status.state
    assert (state.phase, state.reason) == (JobPhase.FAILED, "DependencyNeverSatisfied")
    open_ = {"after": [{"jobs": [{"name": "prepare", "uid": "b1", "phase": "Running", "indexes": "0-1"}]}]}
    waits = members.named(array(phase=JobPhase.RUNNING, status={**open_, "arrays": {"a": {"completed": "0-1"}}}))
    message = decided(waits, seen("prepare", "Running", indexes="0-1"), group_phase=PodGroupPhase.RUNNING).status.state.message
    assert "waits: WaitsForJob: it starts after job prepare, which is Running, has succeeded" in message


def test_a_waiting_job_that_is_restarted_still_makes_nothing():
    assert decided(waiter(phase=JobPhase.RESTARTING, status={"version": 1, "retryCount": 1})).effects == ()
