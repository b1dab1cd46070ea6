"""What plugin usage keeps from session to session, and how it counts pods that measurements do not show yet."""

import numpy as np

from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.plugins import usage
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Session
from tests.scenarios import objects
from tests.unit.scheduler.deciding import configured

SETTINGS = configured("actions: allocate\ntiers:\n- plugins: [{name: usage}]\n")


def session_of(cache, memory):
    return Session(cache.snapshot(), SETTINGS, registry.plugins(), Ports(objects.NOW, lambda _: None, memory=memory))


def filled(pods):
    cache = Cache()
    cache.queue_changed(None, objects.queue(["q"]))
    for i in range(3):
        cache.node_changed(None, objects.node([f"n{i}", 8, "64Gi"]))
    cache.group_changed(None, objects.pod_group(["g", "q", 1]))
    for i in range(pods):
        cache.pod_changed(None, objects.pod([f"p{i}", "g", "-", 1, "1Gi"]))
    return cache


def coming(session, rows):
    """What is counted after pods went to `rows`, all at once and one after another."""
    found = []
    for at_once in (True, False):
        nodes = usage._Nodes(session, (1, 1), usage.Estimator(risk_threshold=0.1, risk_factor=2.0))
        tasks = [task.facts for task in session.jobs["t/g"].tasks][: len(rows)]
        for part in [range(len(rows))] if at_once else [[i] for i in range(len(rows))]:
            nodes._count([tasks[i] for i in part], np.array([rows[i] for i in part], dtype=np.intp))
        found.append(nodes._coming)
    return found


def test_estimated_usage_is_the_same_for_pods_added_together_or_one_by_one():
    session = session_of(filled(9), {})
    together, apart = coming(session, [0, 2, 0, 0, 1, 2, 0, 0, 1])
    assert together.tolist() == apart.tolist()
    assert together[0, 0] > 5 * together[0, 2] / 2  # the risk of a node that fills counts


def test_a_changed_job_is_examined_again_for_pods_without_measurements():
    cache, memory = filled(2), {}
    session_of(cache, memory)
    book = memory["usage"]
    jobs = cache.snapshot().all_jobs
    assert book.unseen(jobs, objects.NOW) == []
    cache.pods.assume("t-p0", "n0")
    assert [task.name for task in book.unseen(cache.snapshot().all_jobs, objects.NOW)] == ["p0"]
    assert [task.name for task in book.unseen(cache.snapshot().all_jobs, objects.NOW)] == ["p0"]


def test_node_capacity_is_recalculated_when_the_node_changes():
    cache, memory = filled(0), {}
    session_of(cache, memory)
    cache.node_changed(None, objects.node(["n1", 2, "64Gi"]))
    snapshot = cache.snapshot()
    fresh = usage._Book().capacity(snapshot.nodes)
    assert memory["usage"].capacity(snapshot.nodes).tolist() == fresh.tolist()
