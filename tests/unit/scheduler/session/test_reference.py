"""The engine and the naive reference of `tests/reference` decide random clusters alike."""

from collections import Counter
from functools import partial

import pytest

from pyroclast_scheduler import registry
from tests.reference import additions, networks
from tests.reference.compare import differences, written
from tests.reference.generator import covered, make
from tests.reference.plugins.devices import Devices
from tests.reference.plugins.gang import Gang
from tests.reference.plugins.proportion import Proportion
from tests.reference.plugins.protections import Cdp, Pdb
from tests.reference.plugins.rescheduling import Rescheduling
from tests.reference.plugins.reservation import Reservation
from tests.reference.plugins.resourcequota import ResourceQuota
from tests.reference.plugins.task_topology import TaskTopology
from tests.reference.plugins.usage import Usage
from tests.reference.plugins.volumes import Volumes

COUNT = 80
COUNT_OF_EACH = 12
SOAK = 10_000
HELD_BY_TABLES = {"deviceshare", "extender", "numa-aware"}
"""Plugins without a second implementation: tables of their own hold each of their rules."""


def disagreements(seeds, maker=make):
    """Those about clusters of these seeds; the pairs of action and plugin that the clusters covered are printed."""
    pairs, found = Counter(), []
    for seed in seeds:
        case = maker(seed)
        pairs.update(covered(case))
        told = differences(case)
        if told:
            found.append(f"seed {seed}: {told}\n{written(case)}")
    print(*(f"{action} × {plugin}: {count}" for (action, plugin), count in sorted(pairs.items())), sep="\n")
    return found


@pytest.mark.parametrize("maker", [make, networks.make, networks.make_full])
def test_engine_and_naive_reference_decide_random_clusters_alike(maker):
    assert disagreements(range(COUNT), maker) == []


@pytest.mark.parametrize("name", additions.ADDITIONS)
def test_engine_and_reference_decide_random_clusters_with_an_additional_plugin_alike(name):
    assert disagreements(range(COUNT_OF_EACH), partial(additions.make, name=name)) == []


def test_random_clusters_cover_every_action_and_plugin():
    cases = [maker(seed) for maker in (make, networks.make, networks.make_full) for seed in range(COUNT)]
    cases += [additions.make(seed, name) for name in additions.ADDITIONS for seed in range(COUNT_OF_EACH)]
    pairs = set().union(*map(covered, cases))
    assert {action for action, _ in pairs} == registry.actions().keys()
    assert {plugin for _, plugin in pairs} == registry.plugins().keys() - HELD_BY_TABLES


@pytest.mark.soak
@pytest.mark.parametrize(
    ("maker", "count"),
    [(make, SOAK * 3 // 10), (networks.make, SOAK // 10), (networks.make_full, SOAK // 10), (additions.make, SOAK // 2)],
)
def test_engine_and_naive_reference_decide_many_random_clusters_alike(maker, count):
    assert disagreements(range(COUNT, COUNT + count), maker) == []


@pytest.mark.parametrize(
    ("plugin", "point", "wrong"),
    [
        (Gang, "job_ready", lambda self, job: True),
        (Proportion, "allocatable", lambda self, queue, task: True),
    ],
)
def test_the_comparison_detects_a_wrong_rule_in_the_reference(monkeypatch, plugin, point, wrong):
    monkeypatch.setattr(plugin, point, wrong)
    assert any(differences(make(seed)) for seed in range(COUNT))


@pytest.mark.parametrize(
    ("name", "seed", "plugin", "point", "wrong"),
    [
        ("pdb", 84, Pdb, "preemptable", lambda self, preemptor, candidates: candidates),
        ("cdp", 29, Cdp, "is_protected", lambda self, task: False),
        ("resourcequota", 2, ResourceQuota, "job_enqueueable", lambda self, job: 1),
        ("usage", 16, Usage, "node_order", lambda self, task, node: 0),
        ("usage", 2, Usage, "predicate", lambda self, task, node: ""),
        ("device-claims", 0, Devices, "filter", lambda self, task, node: ""),
        ("rescheduling", 4, Rescheduling, "victim_tasks", lambda self, running: []),
        ("reservation", 4, Reservation, "is_closed", lambda self, job, node: False),
        ("reservation", 45, Reservation, "fills", lambda self, job, state: False),
        ("reservation", 269, Reservation, "drain", lambda self, job, nodes: None),
        ("reservation", 1, Reservation, "may_go_on", lambda self, job: True),
        ("reservation", 25, Reservation, "capabilities", lambda self, name: ()),
        ("reservation", 0, Reservation, "weight", lambda self, job: (False, 0)),
        ("reservation", 0, Reservation, "whole", lambda self, job, node: node.allocatable),
        ("task-topology", 16, TaskTopology, "task_order", lambda self, left, right: 0),
        ("task-topology", 5, TaskTopology, "node_order", lambda self, task, node: 0),
        ("volumes", 3, Volumes, "binding", lambda self, task, node: ""),
        ("volumes", 226, Volumes, "zone", lambda self, task, node: ""),
        ("volumes", 2, Volumes, "limit", lambda self, task, node: ""),
    ],
)
def test_the_comparison_detects_a_wrong_rule_of_an_additional_plugin(monkeypatch, name, seed, plugin, point, wrong):
    """`seed` is that of the first cluster in which it shows."""
    monkeypatch.setattr(plugin, point, wrong)
    assert differences(additions.make(seed, name))
