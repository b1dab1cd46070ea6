"""Gates of queues: pods are let in as far as the queue has room, and what was let in keeps its room until it is placed."""

import pytest

from pyroclast.api import keys
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.configuration import Configuration, PluginEntry
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Session
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.scenarios.taking import take
from tests.unit.scheduler.deciding import decided

GATE = keys.QUEUE_ALLOCATION_GATE
ASKED = {"annotations": {GATE: "true"}}


SETTINGS = Configuration(("allocate",), ((PluginEntry("gang"), PluginEntry("predicates"), PluginEntry("capacity")),))


def fed(*pods, nodes=(64,)):
    cache = Cache()
    tables = {
        "nodes": [[f"n{i}", cpu, "64Gi"] for i, cpu in enumerate(nodes)],
        "queues": [["q", {"capability": {"cpu": 4}}]],
        "podgroups": [["j", "q", 1]],
    }
    feed(cache, {**tables, "pods": [[name, "j", "-", cpu, 0, options] for name, cpu, options in pods]})
    return cache


def allocated(*pods):
    cache = fed(*pods)
    commits: list = []
    session = Session(cache.snapshot(), SETTINGS, registry.plugins(), Ports(objects.NOW, commits.append), uid="session")
    registry.actions()["allocate"](session, Arguments())
    bound = sorted(cache.tasks[uid].name for commit in commits for binds in commit.binds for uid, _ in binds.placed)
    return sorted(task.name for task in session.report.let_in), bound, [note.reason for note in session.report.notes]


def test_queue_gates_are_opened_only_for_pods_that_fit_the_queue_capability():
    pods = [(f"p{i}", 2, {**ASKED, "gates": [GATE]}) for i in range(3)]
    assert allocated(*pods)[:2] == (["p0", "p1"], [])


@pytest.mark.parametrize("gates", [[GATE, "other"], ["other"]])
def test_a_pod_with_a_foreign_scheduling_gate_keeps_all_gates(gates):
    assert allocated(("p", 2, {**ASKED, "gates": gates}))[:2] == ([], [])


def test_a_queue_gate_without_the_annotation_stays_and_is_reported():
    let_in, _, reasons = allocated(("p", 2, {"gates": [GATE]}))
    assert let_in == []
    assert "QueueGateNotRequested" in reasons


def test_an_ungated_waiting_pod_keeps_its_share_of_the_queue_capability():
    """One of 3 cpu was let in and waits; of the others only what fits beside it is placed or let in."""
    let_in, bound, _ = allocated(("inside", 3, ASKED), ("plain", 2, {}), ("gated", 1, {**ASKED, "gates": [GATE]}))
    assert bound == ["inside"]
    assert let_in == ["gated"]


def test_an_ungated_pod_that_fits_no_node_keeps_its_queue_share_while_its_job_is_skipped():
    cache = fed(("inside", 3, ASKED), nodes=(2, 2, 2))

    for _ in range(3):
        outcome, _ = decided(cache, SETTINGS)
        take(cache, outcome)
    assert not cache.snapshot().jobs
    pods = [["late", "k", "-", 2, 0, {**ASKED, "gates": [GATE]}], ["small", "k", "-", 1, 0, {**ASKED, "gates": [GATE]}]]
    feed(cache, {"podgroups": [["k", "q", 1]], "pods": pods})
    assert [task.name for task in decided(cache, SETTINGS)[0].let_in] == ["small"]
