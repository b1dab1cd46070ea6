"""Who cannot win a place from others is tried again only on nodes of which something changed, from session to session."""

import pytest

from pyroclast.api.keys import PREEMPTABLE
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.eviction.victims import Residents
from tests.scenarios import objects
from tests.scenarios.taking import take
from tests.unit.scheduler.deciding import committed, configured, evicted, one_tier

NODES = 6


def record(monkeypatch, rows):
    """Add to `rows` each node on which an action looks for pods that could go."""
    on = Residents.on
    monkeypatch.setattr(Residents, "on", lambda *given, **named: rows.add(given[1]) or on(*given, **named))


def prepared(queues, classes=2):
    cache = Cache()
    for name in queues:
        cache.queue_changed(None, objects.queue([name]))
    for rank in range(classes):
        cache.priority_changed(None, objects.priority_class(rank))
    return cache


def waits(cache, queue="q", cpu=1):
    cache.group_changed(None, objects.pod_group(["waits", queue, 1, {"class": 1}]))
    cache.pod_changed(None, objects.pod(["waits-0", "waits", "-", cpu, "1Gi", {"prio": 1}]))


class World:
    """Nodes of two cpu, each full of two pods of a job of its own; `waits` asks for one cpu and matters as much as they do."""

    def __init__(self, monkeypatch, plugins="priority gang predicates"):
        self.configuration = one_tier(plugins.split(), "allocate, preempt")
        self.cache, self.memory, self.rows, self.pods = prepared(["q"], 3), {}, set(), {}
        for i in range(NODES):
            self.cache.node_changed(None, objects.node([f"n{i}", 2, "64Gi"]))
            self.job(f"j{i}", 2, f"n{i}")
        self.job("waits", 1, "-")
        record(monkeypatch, self.rows)

    def job(self, name, size, node, *, rank=1, minimum=1):
        group = objects.pod_group([name, "q", minimum, {"class": rank}])
        self.cache.group_changed(self.cache.groups.written(f"t/{name}"), group)
        for i in range(size):
            before = self.pods.get((name, i))
            self.pods[name, i] = objects.pod([f"{name}-{i}", name, node, 1, "1Gi", {"prio": rank}])
            self.cache.pod_changed(before, self.pods[name, i])

    def session(self):
        """The rows that are asked for who could go there, and what is evicted."""
        self.rows.clear()
        outcome, commits = committed(self.cache, self.configuration, memory=self.memory)
        take(self.cache, outcome)
        return {self.cache.nodes.names[row] for row in self.rows}, set(evicted(commits))

    def settle(self):
        for _ in range(4):
            self.session()
        assert self.session() == (set(), set())


EVERYWHERE = {f"n{i}" for i in range(NODES)}
CHANGES = {
    "a pod of another job changes": (lambda world: world.job("j3", 2, "n3", rank=2), {"n3"}, set()),
    "a pod comes": (lambda world: world.job("late", 1, "n2"), {"n2"}, set()),
    "who is there matters less": (lambda world: world.job("j4", 2, "n4", rank=0), {"n4"}, {"j4-0"}),
    "a class changes": (
        lambda world: world.cache.priority_changed(objects.priority_class(2), objects.priority_class(2)), EVERYWHERE, set()
    ),
    "a node changes": (
        lambda world: world.cache.node_changed(None, objects.node(["n5", 2, "64Gi", {"labels": {"a": "b"}}])), EVERYWHERE, set()
    ),
    "a queue changes": (
        lambda world: world.cache.queue_changed(objects.queue(["q"]), objects.queue(["q", {"weight": 3}])), EVERYWHERE, set()
    ),
    "anything may have": (lambda world: world.cache.stale(), EVERYWHERE, set()),
    "a session was lost": (
        lambda world: (world.job("late", 1, "n2"), world.cache.snapshot()), EVERYWHERE, set()
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_preempt_searches_victims_again_only_on_nodes_that_a_change_affects(monkeypatch, name):
    world = World(monkeypatch)
    world.settle()
    change, rows, evicted = CHANGES[name]
    change(world)
    assert world.session() == (rows, evicted)


def test_preempt_searches_victims_again_on_all_nodes_if_a_plugin_depends_on_time(monkeypatch):
    world = World(monkeypatch, plugins="priority gang predicates tdm")
    world.settle()
    world.cache.recheck()
    assert world.session() == (EVERYWHERE, set())


def test_a_job_that_gains_a_pod_in_the_session_may_lose_another_to_preemption(monkeypatch):
    world = World(monkeypatch)
    world.cache.node_changed(None, objects.node(["own", 1, "64Gi", {"labels": {"own": "j5"}, "taints": ["own=j5:NoSchedule"]}]))
    stranger = objects.pod(["s", "", "own", 1, "1Gi"])
    world.cache.pod_changed(None, stranger)
    world.job("j5", 2, "n5", rank=0, minimum=2)
    third = {"prio": 0, "sel": {"own": "j5"}, "tolerate": "own=j5:NoSchedule"}
    world.cache.pod_changed(None, objects.pod(["j5-2", "j5", "-", 1, "1Gi", third]))
    world.settle()
    world.cache.pod_changed(stranger, None)
    _, evicted = world.session()
    assert len(evicted) == 1
    assert evicted < {"j5-0", "j5-1"}


MANY = 80


@pytest.mark.parametrize(
    ("actions", "plugins", "queue", "rank", "minimum", "asked"),
    [
        pytest.param("preempt", "priority gang", "q", 1, 1, 16, id="no job may lose a pod"),
        pytest.param("preempt", "priority gang", "q", 0, 1, 16, id="lower priority but at the minimum"),
        pytest.param("preempt", "priority gang", "q", 0, 0, 1, id="the first node has a victim"),
        pytest.param("preempt", "priority gang | cdp", "q", 0, 1, 1, id="the plugin of the next tier selects a victim"),
        pytest.param("preempt", "priority | drf", "q", 1, 1, MANY, id="a plugin that does not say which jobs it spares"),
        pytest.param("reclaim", "gang", "other", 0, 1, 16, id="a gang of another queue"),
        pytest.param("reclaim", "gang | proportion", "other", 0, 1, 1, id="a gang of a queue above its share"),
    ],
)
def test_a_search_for_victims_passes_over_nodes_whose_jobs_may_lose_no_pod(
    monkeypatch, actions, plugins, queue, rank, minimum, asked
):
    cache, rows = prepared({"q", queue}), set()
    for i in range(MANY):
        cache.node_changed(None, objects.node([f"n{i}", 1, "64Gi"]))
        cache.group_changed(None, objects.pod_group([f"j{i}", queue, minimum, {"class": rank}]))
        cache.pod_changed(None, objects.pod([f"j{i}-0", f"j{i}", f"n{i}", 1, "1Gi", {"prio": rank}]))
    waits(cache)
    record(monkeypatch, rows)
    tiers = ", ".join(f"plugins: [{', '.join(f'{{name: {name}}}' for name in tier.split())}]" for tier in plugins.split("|"))
    committed(cache, configured(f"actions: {actions}\ntiers: [{tiers}, plugins: [{{name: predicates}}]]"))
    assert len(rows) == asked


@pytest.mark.parametrize(
    ("actions", "queue", "asked"),
    [("preempt", "q", 16), ("reclaim", "other", 16), ("gangpreempt", "q", 0), ("gangreclaim", "other", 0)],
)
@pytest.mark.parametrize(("spare", "is_enough"), [("500m", False), ("1", True)])
def test_a_search_for_victims_passes_over_nodes_whose_jobs_can_lose_too_little(
    monkeypatch, actions, queue, asked, spare, is_enough
):
    cache, rows = prepared({"q", queue}), set()
    cache.group_changed(None, objects.pod_group(["spare", queue, 1, {"class": 0}]))
    cache.group_changed(None, objects.pod_group(["kept", queue, MANY, {"class": 0, "annotations": {PREEMPTABLE: "false"}}]))
    for i in range(MANY):
        cache.node_changed(None, objects.node([f"n{i}", 2, "64Gi"]))
        cache.pod_changed(None, objects.pod([f"kept-{i}", "kept", f"n{i}", "1" if is_enough else "1500m", "1Gi"]))
        cache.pod_changed(None, objects.pod([f"spare-{i}", "spare", f"n{i}", spare, "1Gi", {"prio": 0}]))
    waits(cache)
    record(monkeypatch, rows)
    _, commits = committed(cache, one_tier(["priority", "gang", "predicates"], actions))
    assert bool(evicted(commits)) is is_enough
    assert len(rows) == asked or is_enough


def test_preempt_results_found_without_a_plugin_are_discarded_when_it_is_enabled_again(monkeypatch):
    world = World(monkeypatch)
    tiers = "[plugins: [{name: priority}], plugins: [{name: gang}, {name: predicates}]]"
    whole = configured(f"actions: allocate, preempt\ntiers: {tiers}")
    for i in range(NODES):
        world.job(f"j{i}", 2, f"n{i}", rank=0, minimum=2)
    world.configuration = whole.without({"priority"})
    world.settle()
    world.configuration = whole
    world.cache.recheck()
    assert world.session()[1] == {"j0-1"}


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
@pytest.mark.parametrize(("cpu", "want"), [(2, True), (3, False)])
def test_victims_are_sought_only_on_nodes_that_are_large_enough(action, cpu, want, monkeypatch):
    cache, rows = prepared(["low"]), set()
    cache.queue_changed(None, objects.queue(["high", {"weight": 9}]))
    for i in range(5):
        cache.node_changed(None, objects.node([f"n{i}", 2, "8Gi"]))
        cache.group_changed(None, objects.pod_group([f"runs{i}", "low", 1, {"phase": "Running"}]))
        cache.pod_changed(None, objects.pod([f"runs{i}-0", f"runs{i}", f"n{i}", 2, "1Gi"]))
    waits(cache, "low" if action == "preempt" else "high", cpu)
    record(monkeypatch, rows)
    tiers = (
        "[plugins: [{name: priority}, {name: gang, enablePreemptable: false}], plugins: [{name: predicates}, {name: proportion}]]"
    )
    _, commits = committed(cache, configured(f"actions: allocate, {action}\ntiers: {tiers}"))
    assert (bool(rows), bool(evicted(commits))) == (want, want)
