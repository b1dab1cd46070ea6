"""Counts of pods by (anti-)affinity term: what a long-lived book finds by labels is what looking at every pod finds."""

import random
from collections import Counter

import numpy as np
import pytest

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model import term_counts as module
from pyroclast_scheduler.model.pod_columns import RowIndex
from pyroclast_scheduler.model.term_counts import TermBook, TermCounts, own_terms
from tests.scenarios import objects

NODES = 5
ACROSS = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["p"]}]}


class World:
    """Nodes on which pods come and go, and the pods that may ask."""

    def __init__(self, seed):
        self.draw, self.cache, self.number = random.Random(seed), Cache(), 0
        for i in range(NODES):
            self.cache.node_changed(None, objects.node([f"n{i}", 64, "64Gi"]))
        self.shown = {}

    def pod(self, node):
        self.number += 1
        name, pick = f"p{self.number}", self.draw.choice
        labels = {"app": pick("pqr"), "run": pick((name, "shared"))}
        options = {"labels": labels, "ns": pick(("a", "b"))} | pick(({}, {"anti": {"key": "zone", **self.selected(labels)}}))
        options |= pick(({}, {}, {"affine": {"key": "zone", **self.selected(labels)}}))
        return objects.pod([name, "", node, 1, "1Gi", options])

    def selected(self, labels):
        chosen = self.draw.choice(({"run": labels["run"]}, {"app": "q"}, labels))
        elsewhere = ({"namespaces": ["a"]}, {"namespaces": ["a", "b"]}, {"namespaceSelector": {}})
        return chosen | self.draw.choice(({}, {}, {}, *elsewhere))

    def step(self):
        if self.shown and self.draw.random() < 0.4:
            self.cache.pod_changed(self.shown.pop(self.draw.choice([*self.shown])), None)
            return
        pod = self.pod(f"n{self.draw.randrange(NODES)}")
        self.shown[pod.metadata.uid] = pod
        self.cache.pod_changed(None, pod)

    def tasks(self, count):
        cache = Cache()
        for _ in range(count):
            cache.pod_changed(None, self.pod("-"))
        return [*cache.tasks.values()]


def required(task):
    return own_terms(task, (*task.shape.required("podAffinity"), *task.shape.required("podAntiAffinity")), {})


def brute(task, there):
    """What `matching` and `holders` should say for a task, by every pod on each node."""
    counts = [[sum(term.takes_in(each) for each in there[row]) for row in range(NODES)] for term in required(task)]
    holders = Counter()
    for row in range(NODES):
        for each in there[row]:
            for term in own_terms(each, each.shape.required("podAntiAffinity"), {}):
                if term.takes_in(task):
                    holders[term.id, term.key, row] += 1
    return counts, {key: count for key, count in holders.items() if count}


def found(task, counts):
    matching = [counts.matching(term).tolist() for term in required(task)]
    held = ((term.id, term.key, array) for term, array in counts.holders("podAntiAffinity", task))
    return matching, {(who, key, row): int(array[row]) for who, key, array in held for row in np.flatnonzero(array).tolist()}


@pytest.mark.parametrize("few_rows", [0, 2, 64])
@pytest.mark.parametrize("seed", range(6))
def test_incremental_affinity_term_counts_match_a_count_over_all_pods(seed, few_rows, monkeypatch):
    monkeypatch.setattr(module, "_FEW_ROWS", few_rows)
    monkeypatch.setattr(module, "_MOST_TERMS", 3)
    world, book = World(seed), TermBook()
    for _ in range(12):
        for _ in range(world.draw.randint(0, 5)):
            world.step()
        residents = world.cache.snapshot().residents
        there = [list(tasks) for tasks in residents]
        counts = TermCounts(book, residents)
        for task in world.tasks(6):
            assert found(task, counts) == brute(task, there)
            row = world.draw.randrange(NODES)
            if there[row] and world.draw.random() < 0.4:
                gone = there[row].pop()
                counts.moved([gone], [row], -1)
            else:
                there[row].append(task)
                counts.moved([task], [row], 1)
            assert found(task, counts) == brute(task, there)
        asked = world.tasks(3)
        for one in asked:
            for other in asked:
                is_alike = counts.signature(one) == counts.signature(other)
                assert not is_alike or brute(one, there)[1].keys() == brute(other, there)[1].keys()


@pytest.mark.parametrize("seed", range(3))
def test_the_incremental_row_index_matches_a_count_over_all_pods(seed):
    world, index = World(seed), RowIndex(lambda task: task.pod.metadata.labels["run"])
    for _ in range(40):
        world.step()
        residents = world.cache.snapshot().residents
        want = {}
        for row, tasks in enumerate(residents):
            for task in tasks:
                rows = want.setdefault(task.namespace, {}).setdefault(task.pod.metadata.labels["run"], Counter())
                rows[row] += 1
        assert index.of(residents) == want


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(lambda i: {"labels": {"run": f"r{i}"}, "anti": {"key": "zone", "run": f"r{i}"}}, id="of other labels"),
        pytest.param(
            lambda i: {"labels": {"app": "web"}, "ns": f"s{i}", "anti": {"key": "zone", "app": "web"}}, id="of other namespaces"
        ),
    ],
)
def test_counting_affinity_terms_examines_only_a_fraction_of_the_pods(monkeypatch, options):
    world = World(1)
    for i in range(200):
        world.cache.pod_changed(None, objects.pod([f"x{i}", "", f"n{i % NODES}", 0.1, "1M", options(i)]))
    residents = world.cache.snapshot().residents
    asked = []
    takes_in = module.Term.takes_in
    monkeypatch.setattr(module.Term, "takes_in", lambda self, task: asked.append(task) or takes_in(self, task))
    counts = TermCounts(TermBook(), residents)
    for tasks in residents:
        for task in tasks:
            (term,) = required(task)
            assert counts.matching(term).sum() == 1
            assert len([*counts.holders("podAntiAffinity", task)]) == 1
    assert len(asked) < 200 * (200 / NODES + 3)


def test_an_affinity_term_with_a_not_in_selector_counts_all_matching_pods():
    world = World(2)
    for _ in range(20):
        world.step()
    residents = world.cache.snapshot().residents
    (task, *_) = world.tasks(1)
    (term,) = own_terms(task, [{"labelSelector": ACROSS, "topologyKey": "zone"}], {})
    own = [[each for each in tasks if each.namespace == task.namespace] for tasks in residents]
    want = [sum(each.pod.metadata.labels["app"] != "p" for each in tasks) for tasks in own]
    assert any(want)
    assert TermCounts(TermBook(), residents).matching(term).tolist() == want
