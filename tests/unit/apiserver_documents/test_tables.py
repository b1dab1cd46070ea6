"""Tables: paths, columns, and how long ago."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.views.readable import human_duration
from pyroclast_standalone.apiserver import kinds
from pyroclast_standalone.apiserver.documents.jsonpath import BadPath, compile_path
from pyroclast_standalone.apiserver.documents.tables import custom_columns
from pyroclast_standalone.times import parse_time, since

NOW = parse_time("2026-01-02T00:00:00Z")
DOCUMENT = {
    "metadata": {"name": "w", "creationTimestamp": "2026-01-01T23:59:00Z", "labels": {"a.b/c": "l"}},
    "spec": {"list": [{"name": "a", "v": 1}, {"name": "b", "v": 2}], "n": 3, "f": 1.5, "t": True, "o": {"x": 1}, "z": None},
}


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (330, "5m30s"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (10860, "3h1m"),
        (28799, "7h59m"),
        (28800, "8h"),
        (172799, "47h"),
        (172800, "2d"),
        (176400, "2d1h"),
        (691199, "7d23h"),
        (691200, "8d"),
        (63071999, "729d"),
        (63072000, "2y"),
        (63158400, "2y1d"),
        (252287999, "7y364d"),
        (252288000, "8y"),
    ],
)
def test_human_duration_formats_seconds_in_short_units(seconds, want):
    assert human_duration(seconds) == want


@given(st.integers(-5, 10**9))
def test_durations_have_at_most_two_units(seconds):
    shown = human_duration(seconds)
    assert shown == "<invalid>" or sum(character.isalpha() for character in shown) <= 2


def test_since_returns_the_elapsed_time_or_unknown():
    assert since("2026-01-01T00:00:00Z", NOW) == "24h"
    assert since(None, NOW) == "<unknown>"


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (".spec.n", [3]),
        ("{.spec.n}", [3]),
        (".spec.list[0].name", ["a"]),
        (".spec.list[-1].name", ["b"]),
        (".spec.list[*].v", [1, 2]),
        ('.spec.list[?(@.name=="b")].v', [2]),
        (".spec.list[?(@.v>1)].name", ["b"]),
        (r".metadata.labels.a\.b/c", ["l"]),
        (".metadata.labels['a.b/c']", ["l"]),
        (".spec.nope.deep", []),
    ],
)
def test_json_path_selects_fields_items_and_filtered_items(path, want):
    assert compile_path(path)(DOCUMENT) == want


@pytest.mark.parametrize("path", [".spec[", ".spec.list[?(@.v", ".spec.list[x]"])
def test_malformed_json_path_raises_bad_path(path):
    with pytest.raises(BadPath):
        compile_path(path)


@pytest.mark.parametrize(
    ("kind", "path", "want"),
    [
        ("integer", ".spec.n", 3),
        ("integer", ".spec.f", 1),
        ("integer", ".spec.t", None),
        ("number", ".spec.f", 1.5),
        ("boolean", ".spec.t", True),
        ("boolean", ".spec.n", None),
        ("string", ".spec.n", "3"),
        ("string", ".spec.t", "true"),
        ("string", ".spec.o", '{"x":1}'),
        ("string", ".spec.z", None),
        ("string", ".spec.nope", None),
        ("date", ".metadata.creationTimestamp", "60s"),
        ("date", ".spec.n", None),
        ("date", ".metadata.name", "<invalid>"),
        ("string", ".spec[", None),
    ],
)
def test_custom_column_values_are_converted_to_the_column_type(kind, path, want):
    _, (read,) = custom_columns([{"name": "X", "type": kind, "jsonPath": path}])
    assert read(DOCUMENT, NOW) == want


def container(name, ready=False, restarts=0, **state):
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ({}, ["0/1", "Pending", "0"]),
        ({"phase": "Running", "containerStatuses": [container("c", ready=True, running={})]}, ["1/1", "Running", "0"]),
        ({"containerStatuses": [container("c", waiting={"reason": "ErrImagePull"})]}, ["0/1", "ErrImagePull", "0"]),
        (
            {"phase": "Succeeded", "containerStatuses": [container("c", terminated={"reason": "Completed"})]},
            ["0/1", "Completed", "0"],
        ),
        ({"phase": "Failed", "containerStatuses": [container("c", terminated={"exitCode": 3})]}, ["0/1", "ExitCode:3", "0"]),
        ({"phase": "Failed", "containerStatuses": [container("c", terminated={"signal": 9})]}, ["0/1", "Signal:9", "0"]),
        ({"phase": "Failed", "reason": "Evicted"}, ["0/1", "Evicted", "0"]),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    {
                        **container("c", restarts=3, waiting={"reason": "CrashLoopBackOff"}),
                        "lastState": {"terminated": {"finishedAt": "2026-01-01T23:59:30Z"}},
                    }
                ],
            },
            ["0/1", "CrashLoopBackOff", "3 (30s ago)"],
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            ["0/1", "SchedulingGated", "0"],
        ),
    ],
)
def test_pod_row_shows_readiness_status_and_restarts(change, want):
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending", **change}}
    assert kinds.strategy_of("", "v1", "Pod").cells(pod, NOW)[1:4] == want


def test_pod_row_shows_terminating_for_a_pod_being_deleted():
    pod = {
        "metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    }
    strategy = kinds.strategy_of("", "v1", "Pod")
    assert strategy.cells(pod, NOW)[2] == "Terminating"
    assert strategy.conditions(pod) == []
    done = {**pod, "status": {"phase": "Succeeded"}}
    assert [condition["reason"] for condition in strategy.conditions(done)] == ["Succeeded"]
