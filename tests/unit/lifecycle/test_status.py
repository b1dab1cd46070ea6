from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api.enums import JobPhase
from pyroclast.api.records import JobStatus
from pyroclast.lifecycle import times
from pyroclast.lifecycle.job import status
from pyroclast.lifecycle.merging import merge_patch
from pyroclast.lifecycle.times import format_time, parse_time
from pyroclast_job_controller.job.expiry import expires_at

from .builders import CREATED, NOW, decode, job

CASES = {
    "as the API server writes it": ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
    "with a fraction": ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05Z"),
    "in another zone": ("2026-01-02T05:04:05+02:00", "2026-01-02T03:04:05Z"),
    "in small letters": ("2026-01-02t03:04:05z", "2026-01-02T03:04:05Z"),
    "in a leap second": ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
    "in a leap second, elsewhere": ("2016-12-31T18:59:60.5-05:00", "2017-01-01T00:00:00Z"),
    "in a zone that no country has": ("2026-01-06T06:19:05+99:15", "2026-01-02T03:04:05Z"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_rfc3339_time_is_parsed_and_formatted_in_utc_seconds(case: tuple[str, str]) -> None:
    text, want = case
    assert format_time(parse_time(text)) == want


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-02-30t00:00:00z",
        "2026-01-02T25:00:00Z",
        "2026-01-02T03:60:00Z",
        "2026-01-02T03:04:61Z",
    ],
)
def test_parsing_an_invalid_time_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid isoformat string|must be in|out of range"):
        parse_time(text)


AT = times.format_time(NOW)


def conditions(*phases):
    return decode({"conditions": [{"status": phase, "lastTransitionTime": CREATED} for phase in phases]}, JobStatus)


def touched(before, phase):
    after = status.synchronised(status.entering(before, phase, "", ""), NOW)
    return [(condition.status, condition.last_transition_time) for condition in after.conditions]


def test_conditions_are_appended_one_per_phase_in_order_of_last_touch():
    assert touched(JobStatus(), JobPhase.PENDING) == [("Pending", AT)]
    assert touched(conditions("Pending", "Running"), JobPhase.PENDING) == [("Running", CREATED), ("Pending", AT)]
    assert touched(conditions("Pending"), JobPhase.RUNNING) == [("Pending", CREATED), ("Running", AT)]


def test_ending_write_sets_running_duration_and_moves_the_transition_time_only_with_the_phase():
    owner = job(phase=JobPhase.RUNNING)
    entered = status.killed(owner, status.entering(owner.status, JobPhase.ABORTING, "r", "m"), NOW)
    assert (entered.state.last_transition_time, entered.running_duration) == (AT, "1m0s")
    stays = status.killed(owner, owner.status, NOW)
    assert (stays.state.last_transition_time, stays.running_duration) == (CREATED, "0s")
    assert status.synchronised(entered, NOW).running_duration is None


def test_resume_after_an_abort_is_recognised_from_the_order_of_the_conditions():
    assert status.was_resumed(conditions("Running", "Aborting", "Aborted", "Restarting"))
    assert not status.was_resumed(conditions("Aborted", "Pending", "Running", "Restarting"))
    assert not status.was_resumed(JobStatus())


def test_zero_and_empty_status_fields_are_not_written():
    assert status.written(JobStatus()) == {"state": {"lastTransitionTime": None}}
    body = status.written(job(phase=JobPhase.RUNNING, status={"running": 2, "version": 1}).status)
    assert body == {
        "state": {"phase": "Running", "lastTransitionTime": CREATED},
        "running": 2,
        "version": 1,
        "observedGeneration": 1,
    }


FULL = {
    "state": {"phase": "Running", "reason": "r", "message": "m", "lastTransitionTime": CREATED},
    **{name: at for at, name in enumerate(("pending", "running", "succeeded", "failed", "terminating", "unknown"), 1)},
    "minAvailable": 7,
    "version": 8,
    "retryCount": 9,
    "observedGeneration": 10,
    "trackedPods": {"at": CREATED, "indexes": {"a": "0-1"}},
    "restartTime": CREATED,
    "runningDuration": "1m0s",
    "lastCommand": "c",
    "unknownPodGroup": "g",
    "taskStatusCount": {"a": {"phase": {"Running": 2}}},
    "controlledResources": {"plugin-svc": "svc"},
    "conditions": [{"status": "Pending", "lastTransitionTime": CREATED}],
    "delayedActions": [{"action": "AbortJob", "event": "PodFailed", "at": CREATED, "pod": "j-a-0"}],
    "waiting": {"code": "QueueFull", "since": CREATED, "start": ["x", "y", "z"]},
    "outputs": [{"task": "a", "index": 1, "message": "0.9"}],
    "outputsOmitted": "too long",
    "startTime": CREATED,
    "after": [{"met": True, "jobs": [{"name": "build", "uid": "u", "phase": "Completed", "gone": True}]}],
    "arrays": {"a": {"completed": "0-6", "failed": "3", "running": "7", "failures": {"7": 1}}},
    "failedPods": 5,
}


def test_every_job_status_field_is_preserved_by_writing_and_decoding():
    full = decode(FULL, JobStatus)
    assert all(getattr(full, name) != getattr(JobStatus(), name) for name in JobStatus.__struct_fields__)
    assert decode(status.written(full), JobStatus) == full


VALUES = st.recursive(
    st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def apply(patch, target):
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply(value, result.get(name))
    return result


@given(OBJECTS, OBJECTS)
def test_merge_patch_turns_the_old_object_into_the_new_object(old, new):
    patch = merge_patch(old, new)
    assert apply(patch, old) == new
    assert bool(patch) == (old != new)


@pytest.mark.parametrize(
    ("text", "seconds"), [("15s", 15), ("1h30m", 5400), ("250ms", 0.25), ("0", 0), ("-1m", -60), ("1.5s", 1.5), ("1m0.5s", 60.5)]
)
def test_duration_is_parsed_and_formatted_without_changing_its_seconds(text, seconds):
    assert times.duration_seconds(text) == pytest.approx(seconds)
    assert times.duration_seconds(times.format_duration(seconds)) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "5", "1d", "m5", "-"])
def test_invalid_duration_raises_value_error(text):
    with pytest.raises(ValueError, match="duration"):
        times.duration_seconds(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (72.345678, "1m12.345678s"), (3600, "1h0m0s"), (0.002, "2ms"), (2e-6, "2µs")]
)
def test_duration_is_formatted_as_in_go(seconds, text):
    assert times.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("phase", "spec", "want"),
    [
        (JobPhase.COMPLETED, {"ttlSecondsAfterFinished": 0}, NOW - 60),
        (JobPhase.FAILED, {"ttlSecondsAfterFinished": 90}, NOW + 30),
        (JobPhase.TERMINATED, {"ttlSecondsAfterFinished": 60}, NOW),
        (JobPhase.ABORTED, {"ttlSecondsAfterFinished": 0}, None),
        (JobPhase.RUNNING, {"ttlSecondsAfterFinished": 0}, None),
        (JobPhase.COMPLETED, {}, None),
        (JobPhase.COMPLETED, {"ttlSecondsAfterFinished": 0, "metadata": {"deletionTimestamp": AT}}, None),
    ],
)
def test_finished_job_expires_after_its_ttl_unless_it_is_being_deleted(phase, spec, want):
    assert expires_at(job(phase=phase, **spec)) == want
