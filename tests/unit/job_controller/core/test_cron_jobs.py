"""What becomes of the Jobs of a CronJob, and whether it makes one now."""

import msgspec
import pytest

from pyroclast.api.enums import JobPhase
from pyroclast.api.records import CronJob, Job, ObjectReference
from pyroclast.lifecycle.times import format_time
from pyroclast.resources.cron import parse
from pyroclast_job_controller.core.cron import jobs as cron_jobs
from pyroclast_job_controller.core.cron.clock import Clock
from pyroclast_job_controller.core.cron.plan import plan
from pyroclast_job_controller.core.cron.review import review
from pyroclast_job_controller.core.cron.state import CronState
from tests.unit.lifecycle.builders import decode

T = 1_741_687_200.0
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "name": "c", "uid": "cu", "controller": True}


def cron_job(*active, last=None, created=T, schedule="* * * * *", **spec):
    refs = [{"name": name, "uid": uid} for name, uid in active]
    status = {"active": refs, "lastScheduleTime": format_time(last) if last is not None else None}
    meta = {"name": "c", "namespace": "n", "uid": "cu", "resourceVersion": "7", "creationTimestamp": format_time(created)}
    template = {"metadata": {"labels": {"l": "m"}, "annotations": {"a": "b"}}, "spec": {"tasks": []}}
    return decode({"metadata": meta, "spec": {"schedule": schedule, "jobTemplate": template, **spec}, "status": status}, CronJob)


def made(time, phase=JobPhase.RUNNING, *, ended=None, **meta):
    """A Job that the controller made for `time`."""
    name = f"c-{int(time) // 60}"
    annotations = {"volcano.sh/cronjob-scheduled-timestamp": format_time(time)}
    body = {
        "metadata": {
            "name": name,
            "namespace": "n",
            "uid": f"u-{name}",
            "annotations": annotations,
            "ownerReferences": [OWNER],
            "creationTimestamp": format_time(time),
            **meta,
        },
        "status": {"state": {"phase": phase.value, "lastTransitionTime": ended or format_time(time + 10)}},
    }
    return decode(body, Job)


def reviewed(each, *jobs):
    found = review(each, {job.metadata.name: job for job in jobs})
    return [active.name for active in found.state.active], [notice.reason for notice in found.notices], found


def test_the_job_of_a_time():
    body = cron_jobs.manifest(cron_job(), T, None)
    assert body["metadata"] == {
        "name": f"c-{int(T) // 60}",
        "namespace": "n",
        "labels": {"l": "m"},
        "annotations": {"a": "b", "volcano.sh/cronjob-scheduled-timestamp": "2025-03-11T10:00:00Z"},
        "ownerReferences": [{**OWNER, "blockOwnerDeletion": True}],
    }
    assert body["spec"] == {"tasks": []}


def test_its_time_is_told_in_the_zone_of_the_cron_job():
    from zoneinfo import ZoneInfo

    annotations = cron_jobs.manifest(cron_job(), T, ZoneInfo("Europe/Berlin"))["metadata"]["annotations"]
    assert annotations["volcano.sh/cronjob-scheduled-timestamp"] == "2025-03-11T11:00:00+01:00"


def test_an_ended_job_leaves_the_status_and_its_success_is_noted():
    job = made(T, JobPhase.COMPLETED)
    active, reasons, found = reviewed(cron_job((job.metadata.name, job.metadata.uid)), job)
    assert (active, reasons) == ([], ["SawCompletedJob"])
    assert found.state.last_successful == format_time(T + 10)
    assert found.state.patch(cron_job())["status"]["lastSuccessfulTime"] == format_time(T + 10)


def test_a_job_whose_maker_was_killed_before_it_could_note_it_down_is_taken_over():
    active, reasons, found = reviewed(cron_job(), made(T + 60))
    assert (active, reasons, found.state.last_schedule) == ([f"c-{int(T) // 60 + 1}"], [], T + 60)


def test_a_job_of_ours_by_owner_but_not_by_name_is_only_told_of():
    stranger = made(T, name="other", uid="x")
    active, reasons, found = reviewed(cron_job(), stranger)
    assert (active, reasons) == ([], ["OrphanedJob"])
    assert found.notices[0].message == "Detected orphaned job forgotten or not managed by controller: other (UID: x)"


@pytest.mark.parametrize(
    ("there", "want"),
    [
        ((), 'Active job "j" no longer exists (UID: u)'),
        (
            (made(T, name="j", uid="v", ownerReferences=[]),),
            'Active job reference "j" points to a different UID (expected: u, actual: v)',
        ),
    ],
)
def test_stale_references_are_dropped(there, want):
    active, reasons, found = reviewed(cron_job(("j", "u")), *there)
    assert (active, reasons) == ([], ["StaleReference"])
    assert found.notices[0].message == want


def test_a_job_that_was_taken_away_stays_as_long_as_it_is_the_same():
    assert reviewed(cron_job(("j", "u")), made(T, name="j", uid="u", ownerReferences=[]))[0] == ["j"]


def test_the_oldest_beyond_the_limits_go_but_never_terminated_ones():
    done = [made(T + 60 * number, JobPhase.COMPLETED) for number in range(5)]
    failed = [made(T + 600 + 60 * number, JobPhase.FAILED) for number in range(3)]
    ended = [made(T + 6000 + 60 * number, JobPhase.TERMINATED) for number in range(9)]
    going = made(T - 60, JobPhase.COMPLETED, deletionTimestamp=format_time(T))
    prune = reviewed(cron_job(), *done, *failed, *ended, going)[2].prune
    assert list(prune) == [*done[:2], *failed[:2]]
    assert reviewed(cron_job(failedJobsHistoryLimit=0), *failed)[2].prune == tuple(failed)


@pytest.mark.parametrize(
    ("reason", "goes"), [("PodFailed", True), ("RequeueLimitReached", True), ("CommandIssued", False), ("", False)]
)
def test_a_job_that_a_policy_or_the_controller_terminated_counts_as_failed(reason, goes):
    ended = made(T, JobPhase.TERMINATED)
    state = msgspec.structs.replace(ended.status.state, reason=reason)
    ended = msgspec.structs.replace(ended, status=msgspec.structs.replace(ended.status, state=state))
    assert bool(reviewed(cron_job(failedJobsHistoryLimit=0), ended)[2].prune) is goes


def test_an_aborted_job_does_not_stop_its_cron_job():
    aborted = made(T, JobPhase.ABORTED)
    each = cron_job((aborted.metadata.name, aborted.metadata.uid), concurrencyPolicy="Forbid")
    active, reasons, found = reviewed(each, aborted)
    assert (active, reasons) == ([], [])
    assert planned(each, T + 60.2, (aborted.metadata.name,), found.state).time == T + 60
    running = msgspec.structs.replace(aborted, status=made(T).status)
    assert reviewed(cron_job(), running)[0] == [aborted.metadata.name]


def planned(each, now, names=(), state=None):
    return plan(each, state or CronState.of(each), Clock(parse(each.spec.schedule)), now=now, names=names)


def test_a_job_is_made_when_its_time_has_come_and_only_then():
    each = cron_job()
    assert planned(each, T + 59).time is None
    assert planned(each, T + 59).again == pytest.approx(1.1)
    assert planned(each, T + 60).time == T + 60
    assert planned(cron_job(last=T + 60), T + 61).time is None


def test_a_time_whose_job_is_there_is_done():
    assert planned(cron_job(), T + 61, names=[f"c-{int(T) // 60 + 1}"]).time is None


def test_only_one_of_many_missed_times_is_made_up_for():
    found = planned(cron_job(), T + 200 * 60 + 5)
    assert (found.time, [notice.reason for notice in found.notices]) == (T + 200 * 60, ["TooManyMissedTimes"])
    assert planned(cron_job(startingDeadlineSeconds=3), T + 200 * 60 + 5).time is None


RUNNING = (ObjectReference(name="c-1", uid="u"),)
POLICIES = {
    "Allow": (T + 60, (), []),
    "Forbid": (None, (), ["ForbidConcurrent"]),
    "Replace": (T + 60, RUNNING, ["ReplaceConcurrent"]),
}


@pytest.mark.parametrize(("policy", "want"), POLICIES.items(), ids=POLICIES.keys())
def test_a_job_that_still_runs(policy, want):
    each = cron_job(("c-1", "u"), concurrencyPolicy=policy)
    found = planned(each, T + 60)
    assert (found.time, found.replace, [notice.reason for notice in found.notices]) == want
    assert found.again is not None


def test_a_schedule_without_times_is_told_of():
    found = planned(cron_job(schedule="0 0 31 2 *"), T + 60)
    assert (found.time, found.again, found.notices[0].reason) == (None, None, "InvalidSchedule")


def test_the_status_is_written_only_when_it_changes_and_only_over_what_was_read():
    each = cron_job(("c-1", "u"), last=T)
    assert CronState.of(each).patch(each) == {}
    patch = CronState.of(each).without("u").acted_on(T + 60).patch(each)
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert patch["status"]["active"] is None
    assert patch["status"]["lastScheduleTime"] == format_time(T + 60)
    assert CronState.of(each).acted_on(T - 60) == CronState.of(each)
