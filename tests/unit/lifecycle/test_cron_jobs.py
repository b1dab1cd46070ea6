"""What becomes of the Jobs of a CronJob, and whether it makes one now."""

import msgspec
import pytest

from pyroclast.api.enums import JobPhase
from pyroclast.api.records import CronJob, Job, ObjectReference
from pyroclast.lifecycle.cron import jobs as cron_jobs
from pyroclast.lifecycle.cron.clock import Clock
from pyroclast.lifecycle.cron.jobs import CronState
from pyroclast.lifecycle.cron.review import plan, review
from pyroclast.lifecycle.times import format_time
from pyroclast.resources.cron import parse
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


def test_job_manifest_copies_the_template_and_adds_scheduled_time_and_owner():
    body = cron_jobs.manifest(cron_job(), T, None)
    assert body["metadata"] == {
        "name": f"c-{int(T) // 60}",
        "namespace": "n",
        "labels": {"l": "m"},
        "annotations": {"a": "b", "volcano.sh/cronjob-scheduled-timestamp": "2025-03-11T10:00:00Z"},
        "ownerReferences": [{**OWNER, "blockOwnerDeletion": True}],
    }
    assert body["spec"] == {"tasks": []}


def test_scheduled_timestamp_is_written_in_the_time_zone_of_the_cronjob():
    from zoneinfo import ZoneInfo

    annotations = cron_jobs.manifest(cron_job(), T, ZoneInfo("Europe/Berlin"))["metadata"]["annotations"]
    assert annotations["volcano.sh/cronjob-scheduled-timestamp"] == "2025-03-11T11:00:00+01:00"


def test_completed_job_leaves_the_active_list_and_sets_last_successful_time():
    job = made(T, JobPhase.COMPLETED)
    active, reasons, found = reviewed(cron_job((job.metadata.name, job.metadata.uid)), job)
    assert (active, reasons) == ([], ["SawCompletedJob"])
    assert found.state.last_successful == format_time(T + 10)
    assert found.state.patch(cron_job())["status"]["lastSuccessfulTime"] == format_time(T + 10)


def test_owned_job_that_the_status_does_not_list_is_added_to_the_active_list():
    active, reasons, found = reviewed(cron_job(), made(T + 60))
    assert (active, reasons, found.state.last_schedule) == ([f"c-{int(T) // 60 + 1}"], [], T + 60)


def test_owned_job_with_an_unexpected_name_is_only_reported_as_orphaned():
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
def test_active_references_to_missing_or_replaced_jobs_are_dropped_with_a_notice(there, want):
    active, reasons, found = reviewed(cron_job(("j", "u")), *there)
    assert (active, reasons) == ([], ["StaleReference"])
    assert found.notices[0].message == want


def test_active_job_without_an_owner_reference_stays_active_while_its_uid_matches():
    assert reviewed(cron_job(("j", "u")), made(T, name="j", uid="u", ownerReferences=[]))[0] == ["j"]


def test_history_limits_prune_only_the_oldest_completed_and_failed_jobs():
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
def test_terminated_job_counts_as_failed_only_if_a_policy_or_the_controller_ended_it(reason, goes):
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


def test_job_is_planned_only_when_a_run_time_is_due():
    each = cron_job()
    assert planned(each, T + 59).time is None
    assert planned(each, T + 59).again == pytest.approx(1.1)
    assert planned(each, T + 60).time == T + 60
    assert planned(cron_job(last=T + 60), T + 61).time is None


def test_run_time_whose_job_exists_is_not_planned_again():
    assert planned(cron_job(), T + 61, names=[f"c-{int(T) // 60 + 1}"]).time is None


def test_only_the_latest_of_many_missed_run_times_is_planned_within_the_deadline():
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
def test_concurrency_policy_decides_whether_a_job_starts_while_another_runs(policy, want):
    each = cron_job(("c-1", "u"), concurrencyPolicy=policy)
    found = planned(each, T + 60)
    assert (found.time, found.replace, [notice.reason for notice in found.notices]) == want
    assert found.again is not None


def test_schedule_that_never_fires_is_reported_as_invalid():
    found = planned(cron_job(schedule="0 0 31 2 *"), T + 60)
    assert (found.time, found.again, found.notices[0].reason) == (None, None, "InvalidSchedule")


def test_status_patch_is_empty_or_carries_the_resource_version():
    each = cron_job(("c-1", "u"), last=T)
    assert CronState.of(each).patch(each) == {}
    patch = CronState.of(each).without("u").acted_on(T + 60).patch(each)
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert patch["status"]["active"] is None
    assert patch["status"]["lastScheduleTime"] == format_time(T + 60)
    assert CronState.of(each).acted_on(T - 60) == CronState.of(each)
