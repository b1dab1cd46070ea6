"""What users of the original's programs read: durations, tables, pages, resource lists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pyroclast.views.readable import age, human_duration
from pyroclast_cli.compatible.job_view import event_lines, job_lines
from pyroclast_cli.compatible.jobs import job_table, parse_resources
from pyroclast_cli.compatible.pods import pod_cells
from pyroclast_cli.flags import Failure

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (62, "62s"),
        (180, "3m"),
        (190, "3m10s"),
        (121 * MINUTE + 56, "121m"),
        (5 * HOUR + 9, "5h"),
        (5 * HOUR + 7 * MINUTE + 9, "5h7m"),
        (12 * HOUR + 7 * MINUTE, "12h"),
        (5 * DAY, "5d"),
        (5 * DAY + 9 * HOUR, "5d9h"),
        (531 * DAY, "531d"),
        ((5 * 365 + 89) * DAY, "5y89d"),
        ((12 * 365 + 15) * DAY, "12y"),
        (-60, "<invalid>"),
        (-1, "0s"),
        (-0.001, "0s"),
    ],
)
def test_a_duration_is_written_in_at_most_two_units(seconds, text):
    assert human_duration(seconds) == text


@pytest.mark.parametrize(("keeps", "text"), [(True, "5y0d"), (False, "5y")])
def test_duration_of_whole_years_shows_zero_days_only_with_keeps_zero_days(keeps, text):
    assert human_duration(5 * 365 * DAY, keeps_zero_days=keeps) == text


def test_age_of_a_missing_time_is_unknown():
    assert age(None, NOW) == "<unknown>"


@pytest.mark.parametrize(
    ("text", "amounts"),
    [("", {}), ("cpu=1000m,memory=100Mi", {"cpu": "1", "memory": "100Mi"}), ("nvidia.com/gpu=2", {"nvidia.com/gpu": "2"})],
)
def test_a_list_of_resources_is_read(text, amounts):
    assert parse_resources(text) == amounts


@pytest.mark.parametrize("text", ["cpu", "cpu=1=2", "cpu=1,,memory=1Mi", "cpu=lots"])
def test_a_malformed_list_of_resources_is_refused(text):
    with pytest.raises(Failure):
        parse_resources(text)


def test_resource_without_a_value_is_named_in_the_error():
    with pytest.raises(Failure, match=r"^invalid argument syntax cpu, expected <resource>=<value>$"):
        parse_resources("cpu")


def job(name: str, **status) -> dict:
    return {
        "metadata": {"name": name, "namespace": "team", "creationTimestamp": "2026-11-24T12:00:00Z"},
        "spec": {"minAvailable": 2, "schedulerName": "volcano", "tasks": [{"name": "a", "replicas": 2}, {"replicas": 3}]},
        "status": {"state": {"phase": "Running"}, "minAvailable": 2, **status},
    }


def test_the_table_of_all_namespaces_begins_with_the_namespace():
    header, row = job_table([job("train")], with_namespace=True)
    assert header.startswith("Namespace   Name    Creation")
    assert row.startswith("team        train   ")


@pytest.mark.parametrize("with_conditions", [True, False])
def test_job_view_shows_conditions_only_when_requested(with_conditions):
    shown = job("train", running=2, conditions=[{"status": "Running", "lastTransitionTime": "2026-11-24T12:00:00Z"}])
    lines = job_lines(shown, with_conditions=with_conditions)
    assert lines[:4] == ["Name:       \ttrain", "Namespace:  \tteam", "Labels:     \t<none>", "Annotations:\t<none>"]
    assert ("  Conditions:" in lines) is with_conditions
    assert not [line for line in lines if line.startswith("  Failed:")], "a counter of 0 is left out"


def test_events_are_listed_with_their_ages():
    event = {
        "type": "Warning",
        "reason": "PodGroupPending",
        "message": "why",
        "source": {"component": "vc"},
        "firstTimestamp": (NOW - timedelta(minutes=5)).isoformat(),
        "lastTimestamp": (NOW - timedelta(seconds=30)).isoformat(),
        "count": 3,
    }
    assert event_lines([], NOW) == ["Events: \t<none>"]
    shown = event_lines([event], NOW)[-1]
    assert "30s (x3 over 5m)" in shown
    assert shown.rstrip().endswith("why")


RUNNING = {"state": {"running": {}}, "ready": True}
RESTARTED = {**RUNNING, "restartCount": 2, "lastState": {"terminated": {"finishedAt": "2026-11-24T11:55:00Z"}}}
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}


def pod(phase: str, *containers: dict, deleted: str | None = None, **status) -> dict:
    return {
        "metadata": {"deletionTimestamp": deleted},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": list(containers), **status},
    }


@pytest.mark.parametrize(
    ("shown", "cells"),
    [
        (pod("Pending"), ["0/1", "Pending", "0"]),
        (pod("Failed", reason="Evicted"), ["0/1", "Evicted", "0"]),
        (pod("Running", RUNNING), ["1/1", "Running", "0"]),
        (pod("Pending", {"state": {"waiting": {"reason": "ImagePullBackOff"}}}), ["0/1", "ImagePullBackOff", "0"]),
        (pod("Failed", {"state": {"terminated": {"exitCode": 3}}}), ["0/1", "ExitCode:3", "0"]),
        (pod("Running", deleted="2026-11-24T12:00:00Z"), ["0/1", "Terminating", "0"]),
        (pod("Pending", conditions=[GATED]), ["0/1", "SchedulingGated", "0"]),
        (pod("Running", RESTARTED), ["1/1", "Running", "2 (5m ago)"]),
    ],
    ids=["waits", "evicted", "runs", "no image", "exit code", "is deleted", "gated", "restarted"],
)
def test_pod_row_shows_ready_status_and_restarts_as_kubectl_does(shown, cells):
    assert list(pod_cells(shown, NOW)) == cells
