"""Books per node: what was found out for a kind of pod holds until the node's version changes, and undoing restores a state."""

from collections import Counter

import numpy as np
import pytest

from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.fit_errors import Code
from pyroclast_scheduler.session.configuration import Configuration, PluginEntry
from pyroclast_scheduler.session.node_books import NodeBook, Refused
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Session
from tests.counts import ONE_IN
from tests.reference import additions
from tests.reference.compare import engine
from tests.scenarios import objects
from tests.scenarios.runner import feed


class Slots(NodeBook[Counter, int]):
    """Two places on each node but the last, which has none. Each pod takes one, those on nodes have one already."""

    def __init__(self, session):
        super().__init__(session)
        self.examinations = []

    def wants(self, task):
        return True

    def kind(self, task):
        return task.shape

    def held(self, task):
        return 1

    def state(self, row):
        if self.session.names[row] == "n3":
            raise Refused("none", Code.UNRESOLVABLE)
        return Counter(row=row, free=2)

    def choose(self, state, task):
        if not state["free"]:
            raise Refused("full")
        return 1

    def examine(self, state, task):
        self.examinations.append(state["row"])
        self.choose(state, task)
        return 10.0 + state["free"]

    def take(self, state, task, claim):
        state["free"] -= claim

    def undo(self, state, task, claim):
        state["free"] += claim


def opened():
    cache = Cache()
    pods = [["r0", "j", "n0", 1, "1G", {}], ["r1", "j", "n0", 1, "1G", {}], ["p", "j", "-", 1, "1G", {}]]
    feed(cache, {"nodes": [[f"n{at}", 8, "8Gi"] for at in range(4)], "queues": [["q", {}]], "podgroups": [["j", "q", 1]]})
    feed(cache, {"pods": pods})
    settings = Configuration(("allocate",), ((PluginEntry("predicates"),),))
    session = Session(cache.snapshot(), settings, registry.plugins(), Ports(objects.NOW), uid="session")
    book = Slots(session)
    session.all_of("moved").append(book.moved)
    (job,) = (job for job in session.all_jobs().values() if job.facts.name == "j")
    return session, book, job, {task.facts.name: task for task in job.tasks}


ALL = np.ones(4, dtype=np.bool_)


def refused(book, task):
    return [(each.reason, each.code.name, np.flatnonzero(each.nodes).tolist()) for each in book.refusals(task.facts, ALL)]


def test_a_node_book_counts_running_pods_and_lists_refusals_in_node_order():
    _, book, _, tasks = opened()
    assert refused(book, tasks["p"]) == [("full", "UNSCHEDULABLE", [0]), ("none", "UNRESOLVABLE", [3])]
    assert book.scores(tasks["p"].facts, ALL).tolist() == [0.0, 12.0, 12.0, 0.0]


def test_only_nodes_whose_version_changed_are_examined_again():
    session, book, job, tasks = opened()
    refused(book, tasks["p"])
    assert book.examinations == [0, 1, 2]
    statement = session.statement()
    statement.allocate(job, session.plan(tasks["p"].facts.shape), [tasks["p"]], np.array([1]))
    assert book.claim(tasks["p"].uid) == 1
    assert book.scores(tasks["p"].facts, ALL).tolist() == [0.0, 11.0, 12.0, 0.0]
    assert book.examinations == [0, 1, 2, 1]
    statement.discard()
    assert book.claim(tasks["p"].uid) is None
    assert book.scores(tasks["p"].facts, ALL).tolist() == [0.0, 12.0, 12.0, 0.0]
    book.changed_everywhere()
    refused(book, tasks["p"])
    assert book.examinations == [0, 1, 2, 1, 1, 0, 1, 2]


def test_an_eviction_frees_the_slot_of_the_pod_until_the_statement_is_discarded():
    session, book, job, tasks = opened()
    statement = session.statement()
    statement.evict(job, session.plan(tasks["r0"].facts.shape), tasks["r0"], "test")
    assert refused(book, tasks["p"]) == [("none", "UNRESOLVABLE", [3])]
    statement.discard()
    assert refused(book, tasks["p"]) == [("full", "UNSCHEDULABLE", [0]), ("none", "UNRESOLVABLE", [3])]


def test_a_pipelined_pod_takes_no_slot_in_the_node_book():
    session, book, job, tasks = opened()
    statement = session.statement()
    statement.pipeline(job, session.plan(tasks["p"].facts.shape), [tasks["p"]], np.array([0]))
    assert book.claim(tasks["p"].uid) is None
    statement.discard()
    assert book.of(0)["free"] == 0


@pytest.mark.parametrize("name", ["device-claims", "volumes"])
def test_cached_node_examinations_give_the_same_decisions_as_fresh_examinations(name, monkeypatch):
    cases = [additions.make(seed, name) for seed in range(24 // ONE_IN)]
    kept = [engine(case) for case in cases]
    assert any(each.binds for each in kept)
    monkeypatch.setattr(NodeBook, "_examined", anew)
    assert [engine(case) for case in cases] == kept


def anew(self, task, nodes, examined=NodeBook._examined):
    self._results.clear()
    return examined(self, task, nodes)
