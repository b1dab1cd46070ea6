"""The story of a Job by its phase: which steps it has, what helps next, and what is said of sources that are silent."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from pyroclast.views.story import LOG_LINES, StoryFacts, away_since, log_source, story_lines, story_of, with_log
from pyroclast_cli import programs
from tests.unit.cli.golden.server import serving


def at(minute: int) -> str:
    return f"2026-03-01T10:{minute:02}:00Z"


def job(*phases: str, message: str = "", reason: str = "", **meta: Any) -> dict[str, Any]:
    conditions = [{"status": phase, "lastTransitionTime": at(10 * number)} for number, phase in enumerate(phases)]
    state = {"phase": phases[-1], "message": message, "reason": reason, "lastTransitionTime": at(10 * len(phases) - 10)}
    metadata = {
        "name": "j",
        "namespace": "team",
        "creationTimestamp": at(0),
        "annotations": {"pyroclast.dev/submitted-by": "ann"},
    }
    return {"metadata": metadata | meta, "spec": {"queue": "q"}, "status": {"state": state, "conditions": conditions}}


def pod(index: int, node: str = "n1", phase: str = "Running", **states: Any) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(5)}
    status = {"phase": phase, "conditions": [scheduled], "containerStatuses": [{"name": "main", **states}]}
    return {"metadata": {"name": f"j-w-{index}"}, "spec": {"nodeName": node}, "status": status}


def ended(code: int, reason: str = "Error", minute: int = 9) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at(minute)}}


def evict(name: str, whom: str = " (reclaim) for vision/big in queue vision", kind: str = "Pod") -> dict[str, Any]:
    message = f"Pod is evicted, because of it is over its share{whom}"
    return {"reason": "Evict", "message": message, "involvedObject": {"kind": kind, "name": name}, "lastTimestamp": at(7)}


RECORD = {
    "submitted": at(0),
    "user": "ann",
    "queue": "q",
    "state": "Failed",
    "reason": None,
    "message": "it broke",
    "exitCode": 3,
    "ended": at(9),
    "phases": [{"at": at(0), "name": "Pending", "message": None}, {"at": at(9), "name": "Failed", "message": None}],
    "causes": [{"at": at(1), "name": "QueueFull", "message": "it asks for 4 cpu"}],
    "evictions": [
        {"at": at(6), "pod": "j-w-1", "message": "volcano: preempting to accommodate a higher priority pod (preempt) for a/b"}
    ],
}
CASES = {
    "waits, and the recorder is away": (
        {"job": job("Pending", message="waits: QueueFull: not now"), "unknown": ["history is not known, because it hangs"]},
        ["by ann to queue q", "QueueFull: not now"],
        "vcctl order q",
    ),
    "runs": (
        {"job": job("Pending", "Running"), "pods": [pod(0), pod(1, "n2")]},
        ["2 of 2 pods, on n[1-2]"],
        "vcctl logs -n team j -f",
    ),
    "runs with a trouble that is told elsewhere": (
        {"job": job("Pending", "Running", message="2 of 2 have started; waits: NodeSilent: x", reason="Enough")},
        ["Running: Enough: 2 of 2 have started"],
        "vcctl logs -n team j -f",
    ),
    "runs on a dead node": (
        {"job": job("Pending", "Running"), "pods": [pod(0), pod(1)], "away": {"n1": at(8)}},
        ["node n1 does not answer since", "2 pods of this Job are on it (j-w-[0-1])"],
        "vcctl explain node/n1",
    ),
    "evicted for another, as two events of one minute": (
        {
            "job": job("Pending", "Running"),
            "events": [evict("j-w-0"), evict("j-w-1"), evict("other-w-0"), evict("j-w-0", kind="PodGroup")],
        },
        ["2 pods (j-w-[0-1]) by reclaim for vision/big in queue vision"],
        "vcctl logs -n team j -f",
    ),
    "evicted for nobody that is known": (
        {"job": job("Pending", "Running"), "events": [evict("j-w-0", " (shuffle)")]},
        ["by shuffle, it is not known for whom"],
        "vcctl logs -n team j -f",
    ),
    "crashes": (
        {"job": job("Pending", "Running"), "pods": [pod(0, state={"waiting": {}}, lastState=ended(7))]},
        ["container main of pod j-w-0 on node n1 ended with exit code 7"],
        "vcctl logs -n team j --previous",
    ),
    "failed": (
        {"job": job("Pending", "Running", "Failed", message="it broke"), "pods": [pod(0, phase="Failed", state=ended(3))]},
        ["Failed: it broke", "ended with exit code 3"],
        "vcctl logs -n team j --failed",
    ),
    "failed for its memory": (
        {"job": job("Pending", "Failed"), "pods": [pod(0, phase="Failed", state=ended(137, "OOMKilled"))]},
        ["exit code 137 (OOMKilled)"],
        "vcctl efficiency -n team j",
    ),
    "failed, and its pods are gone": (
        {"job": job("Failed"), "record": RECORD},
        ["a container ended with exit code 3"],
        "vcctl history -n team j",
    ),
    "completed": ({"job": job("Pending", "Completed")}, ["Completed"], "vcctl efficiency -n team j"),
    "suspended": ({"job": job("Pending", "Aborted")}, ["Aborted"], "vcctl job resume -n team -N j"),
    "deleted but held": (
        {"job": job("Failed", deletionTimestamp=at(9), finalizers=["a/b"])},
        ["it stays until its finalizers are removed: a/b"],
        "kubectl get vcjob -n team j -o jsonpath={.metadata.finalizers}",
    ),
    "gone": (
        {"job": None, "record": RECORD},
        ["by ann to queue q", "QueueFull: it asks for 4 cpu", "by preempt for a/b", "Failed: it broke"],
        "vcctl history -n team j",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_story_of_each_phase_has_its_steps_in_order_and_a_next_command(case):
    facts, texts, want_next = case
    story = story_of(StoryFacts("team", "j", **facts))
    told = "\n".join(step["text"] for step in story["steps"])
    assert not [text for text in texts if text not in told], told
    assert "NodeSilent" not in told
    times = [step["at"] for step in story["steps"] if step["at"]]
    assert times == sorted(times)
    assert story["next"] == want_next
    assert list(story["unknown"]) == list(facts.get("unknown", ()))
    assert max(map(len, story_lines(story)[:-1])) <= 79


def test_log_of_the_first_failure_is_shown_without_characters_that_change_a_terminal():
    pods = [pod(0, phase="Failed", state=ended(1, minute=9)), pod(1, phase="Failed", state=ended(2, minute=8))]
    assert log_source(pods).pod == "j-w-1"
    facts = with_log(StoryFacts("team", "j", job("Failed"), pods), "".join(f"line {n}\x1b[2J\n" for n in range(50)))
    story = story_of(facts)
    assert len(story["log"]) == LOG_LINES
    assert story["log"][-1] == "line 49\N{REPLACEMENT CHARACTER}[2J"
    assert story["logOf"] == "j-w-1/main"
    assert "  | line 49\N{REPLACEMENT CHARACTER}[2J" in story_lines(story)


def test_node_without_a_ready_condition_is_away():
    ready = {"type": "Ready", "status": "True"}
    assert away_since({"status": {"conditions": [ready]}}) is None
    assert away_since({"status": {"conditions": [ready | {"status": "Unknown", "lastTransitionTime": at(1)}]}}) == at(1)
    assert away_since({"status": None}) == "an unknown time"


def test_recorder_that_hangs_is_named_after_three_seconds_and_the_rest_is_told(capsys):
    with serving() as server, socket.create_server(("127.0.0.1", 0)) as silent:
        recorder = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        assert programs.vcctl(["why", "big", "-n", "team", "-s", server, "--recorder", recorder]) == 0
        took = time.monotonic() - began
    told = capsys.readouterr().out
    assert "history is not known, because the recorder at http://127.0.0.1" in told
    assert "submitted by alice to queue research" in told
    assert took < 8, "it was 45 s"
