"""The checks of health: each problem in a sentence with its numbers, and what is unknown said as such."""

from __future__ import annotations

from datetime import datetime

import pytest

from pyroclast.api.keys import SERVICE_PROBLEM, SERVICE_VERSION, WEBHOOKS
from pyroclast.api.schedulers import SCHEDULER_NAMES
from pyroclast.views.health import CHECKS, judged

NOW = datetime.fromisoformat("2026-03-01T10:00:00Z").timestamp()


def at(minute: int, second: int = 0) -> str:
    return f"2026-03-01T09:{minute:02}:{second:02}Z"


def lease(name: str, renewed: str = at(59, 58), **said: str) -> dict:
    annotations = {SERVICE_VERSION: "1.0", SERVICE_PROBLEM: "", **said}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"renewTime": renewed}}


def node(name: str, status: str = "True") -> dict:
    ready = {"type": "Ready", "status": status, "lastTransitionTime": at(50)}
    return {"metadata": {"name": name}, "status": {"conditions": [ready]}}


def pod(owner: str, phase: str = "Running") -> dict:
    return {"metadata": {"ownerReferences": [{"uid": owner, "controller": True}]}, "status": {"phase": phase}}


def evicted(count: int, minute: int) -> dict:
    return {"involvedObject": {"kind": "Pod"}, "count": count, "lastTimestamp": at(minute)}


def command(minute: int, second: int, **annotations: str) -> dict:
    return {"metadata": {"name": "c", "creationTimestamp": at(minute, second), "annotations": annotations}}


WELL = {
    "now": NOW,
    "seconds": 0.1,
    "leases": [lease("volcano", **{SCHEDULER_NAMES: "volcano"}), {"metadata": {"name": "other"}, "spec": None}],
    "nodes": [node("n1"), node("n2")],
    "pods": [],
    "evictions": [evicted(59, 55), evicted(100, 10), {"involvedObject": None, "count": 500, "lastTimestamp": at(59)}],
    "validating": [{"metadata": {"name": "v", "annotations": {WEBHOOKS: "2"}}}],
    "mutating": [{"metadata": {"name": "m", "annotations": None}}],
    "deployments": [{"metadata": {"namespace": "a", "name": "b"}, "spec": {"replicas": 0}}],
    "commands": [command(59, 45)],
    "probes": {"a:443": ("", NOW + 90 * 86_400)},
    "review": "",
}
CASES = {
    "service-silent": ({"leases": [lease("volcano", at(50), **{SCHEDULER_NAMES: "volcano"})]}, ["volcano is silent since"]),
    "configuration-refused": (
        {
            "leases": [
                lease(
                    "volcano", **{SCHEDULER_NAMES: "volcano", SERVICE_PROBLEM: f"configuration {at(1)} f: line 7: no such plugin"}
                )
            ]
        },
        ["volcano: f: line 7: no such plugin, since "],
    ),
    "recorder-cannot-write": (
        {"leases": [*WELL["leases"], lease("r", **{SERVICE_PROBLEM: f"database {at(2)} disk full"})]},
        ["r: disk full, since "],
    ),
    "nodes-away": (
        {
            "nodes": [node("n1"), node("n2", "Unknown"), node("n3", "False")],
            "pods": [pod("a"), pod("a"), pod("b", "Succeeded"), pod("c")],
        },
        ["2 of 3 nodes are away with 2 Jobs: n2 since ", ", n3 since "],
    ),
    "evictions": ({"evictions": [evicted(60, 55)]}, ["6.0 evictions per minute, 60 in 10 minutes"]),
    "certificates": ({"probes": {"a:443": ("", NOW + 3 * 86_400)}}, ["the certificate of a:443 expires in 3d"]),
    "webhooks": (
        {"mutating": [], "review": "failed calling webhook x"},
        ["1 of 2 webhook configurations are missing", "the API server gets no answer of webhooks: failed calling webhook x"],
    ),
    "api-server-slow": ({"seconds": 2.5}, ["took 2.5 s", "1 s at most"]),
    "versions-differ": (
        {"leases": [*WELL["leases"], lease("old", **{SERVICE_VERSION: "0.9"})]},
        ["2 versions are at work: 0.9: old; 1.0: volcano"],
    ),
    "two-owners": (
        {"deployments": [{"metadata": {"namespace": "a", "name": "b"}, "spec": {}}]},
        ["1 programs of Volcano work beside ours: a/b"],
    ),
    "commands-wait": (
        {"commands": [command(59, 0), command(59, 50)]},
        ["1 Commands are not carried out for over 30 s, 1 of them without the mark"],
    ),
}


def test_table_of_cases_has_all_checks():
    assert CASES.keys() == {check.name for check in CHECKS}


@pytest.mark.parametrize("name", CASES)
def test_problem_is_found_by_its_check_alone_and_in_words_with_numbers(name):
    facts, texts = CASES[name]
    results = judged({**WELL, **facts})
    wrong = {each["check"]: each["text"] for each in results if each["state"] == "wrong"}
    assert wrong.keys() == {name}
    assert not [text for text in texts if text not in wrong[name]], wrong[name]


def test_well_cluster_has_no_problem():
    assert {each["state"] for each in judged(WELL)} == {"ok"}


def test_silent_sources_are_unknown_and_never_well():
    silent = {name: "you may not list them" for name, value in WELL.items() if isinstance(value, list)}
    results = judged({**WELL, **silent, "probes": {}, "review": None})
    assert {each["check"] for each in results if each["state"] == "ok"} == {"api-server-slow"}  # which was measured
    assert all(each["text"].startswith("not known, because ") for each in results if each["state"] == "unknown")


def test_webhook_that_does_not_answer_the_board_is_named_with_its_address():
    (wrong,) = [
        each for each in judged({**WELL, "review": None, "probes": {"a:443": ("refused", None)}}) if each["state"] == "wrong"
    ]
    assert (wrong["check"], wrong["text"]) == ("webhooks", "the webhooks at a:443 do not answer: refused")
