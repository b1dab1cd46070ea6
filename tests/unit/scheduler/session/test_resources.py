"""Which resources have columns: what nodes have and queues limit. What pods and PodGroups invent fits nowhere."""

import pytest

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.dimensions import MOST, MOST_OF_ONE, UNKNOWN
from tests.scenarios import objects
from tests.scenarios.taking import take
from tests.unit.scheduler.deciding import committed, configured, evicted, placed

MANY = {f"x.io/r{i:04}": 1 for i in range(3000)}
QUOTA = ["proportion", "capacity", "overcommit"]
PLUGINS = "{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}, {name: binpack}, {name: drf}"


class World:
    """A cache and who decides over it."""

    def __init__(self, *nodes, quota="overcommit", actions="enqueue, allocate, backfill"):
        text = f'actions: "{actions}"\ntiers:\n- plugins: [{PLUGINS}, {{name: {quota}}}]'
        self.configuration = configured(text)
        self.cache = Cache()
        self.evicted = []
        self.cache.queue_changed(None, objects.queue(["q"]))
        for rank in range(3):
            self.cache.priority_changed(None, objects.priority_class(rank))
        for node in nodes or (["n0", 8, "8Gi"], ["n1", 8, "8Gi"]):
            self.node(node)

    def node(self, row, *, before=None):
        new = objects.node(row)
        self.cache.node_changed(before, new)
        return new

    def job(self, name, asks=None, **group):
        self.cache.group_changed(None, objects.pod_group([name, "q", 1, {"phase": "Inqueue", **group}]))
        self.cache.pod_changed(None, objects.pod([f"{name}-0", name, "-", 1, "1Gi", asks or {}]))

    def cycle(self):
        """Where pods are bound, and what is said of the others, by job."""
        outcome, commits = committed(self.cache, self.configuration)
        self.evicted += evicted(commits)
        binds = placed(commits)
        for uid, node in binds.items():
            assert self.cache.pods.assume(uid, node) is None
        take(self.cache, outcome)
        said = {key: each for key, status in outcome.statuses.items() for each in status.conditions[-1:]}
        return {uid.removeprefix("t-"): node for uid, node in binds.items()}, said

    def settled(self):
        """The same, once the jobs rest."""
        placed, said = self.cycle()
        for _ in range(3):
            more, news = self.cycle()
            placed, said = placed | more, said | news
        return placed, said


@pytest.mark.parametrize("quota", QUOTA)
def test_unknown_resources_of_pods_and_podgroups_add_no_columns(quota):
    world = World(quota=quota)
    sizes = []
    for i, asks in enumerate([{}, {"minRes": MANY, "phase": "Pending"}, {}]):
        world.job(f"j{i}", **asks)
        world.job(f"k{i}", MANY if i == 1 else None)
        placed, _ = world.settled()
        snapshot = world.cache.snapshot()
        sums = [len(each.pending) for each in snapshot.queue_sums.values()]
        sizes.append((len(snapshot.dimensions), len(snapshot.columns.used), *sums))
        assert placed.keys() == ({"j0-0", "k0-0"}, set(), {"j2-0", "k2-0"})[i]
    assert set(sizes) == {sizes[0]}


@pytest.mark.parametrize("quota", QUOTA)
def test_a_resource_that_no_node_has_is_named_in_the_waiting_reason(quota):
    world = World(quota=quota)
    world.job("pod", {"x.io/gpu": 2})
    world.job("group", minRes={"x.io/gpu": 2}, phase="Pending")
    placed, said = world.settled()
    assert placed == {}
    assert "AboveCluster: never: it asks for 2 x.io/gpu in all, and the cluster has no x.io/gpu" in said["t/group"].message
    assert "NoNodeBigEnough: never: pod-0 asks for 2 x.io/gpu, and no node has any x.io/gpu" in said["t/pod"].message
    assert ("2 Insufficient x.io/gpu" in said["t/pod"].message) is (quota == "overcommit")


def test_the_waiting_reason_names_only_a_few_of_many_missing_resources():
    world = World()
    world.job("pod", MANY)
    world.job("group", minRes=MANY, phase="Pending")
    _, said = world.settled()
    assert all("x.io/r0000" in each.message and len(each.message) < 2000 for each in said.values())


@pytest.mark.parametrize("quota", QUOTA)
def test_jobs_waiting_for_a_missing_resource_are_bound_once_a_node_has_it(quota):
    world = World(quota=quota)
    world.job("pod", {"x.io/gpu": 2})
    world.job("group", {"x.io/gpu": 1}, minRes={"x.io/gpu": 1}, phase="Pending")
    world.settled()
    node = world.node(["n2", 8, "8Gi", {"x.io/nic": 4}])
    assert world.settled()[0] == {}
    world.node(["n2", 8, "8Gi", {"x.io/nic": 4, "x.io/gpu": 4}], before=node)
    assert world.settled()[0] == {"pod-0": "n2", "group-0": "n2"}


def test_resources_of_pods_count_once_their_node_reports_the_resource():
    world = World(["n0", 8, "8Gi"])
    world.cache.group_changed(None, objects.pod_group(["old", "q", 1, {"phase": "Running"}]))
    for i in range(2):
        world.cache.pod_changed(None, objects.pod([f"old-{i}", "old", "n0", 1, "1Gi", {"x.io/gpu": 1}]))
    world.cache.pods.releasing("t-old-1")
    world.node(["n0", 8, "8Gi", {"x.io/gpu": 4}])
    columns, row = world.cache.nodes.columns, world.cache.dimensions.find("x.io/gpu")
    assert [int(table[row, 0]) for table in (columns.allocatable, columns.used, columns.releasing)] == [4000, 2000, 1000]
    world.job("four", {"x.io/gpu": 4})
    world.job("two", {"x.io/gpu": 2})
    assert world.settled()[0] == {"two-0": "n0"}
    for i in range(2):
        world.cache.pod_changed(objects.pod([f"old-{i}", "old", "n0", 1, "1Gi", {"x.io/gpu": 1}]), None)
    assert [int(table[row, 0]) for table in (columns.used, columns.releasing)] == [2000, 0]


@pytest.mark.parametrize("kind", ["node", "queue"])
def test_only_64_resources_of_a_node_or_queue_count_and_the_excess_is_reported(kind):
    world = World()
    if kind == "node":
        node = world.node(["n2", 8, "8Gi", MANY])
    else:
        world.cache.queue_changed(None, objects.queue(["n2", {"capability": MANY}]))
    assert len(world.cache.dimensions) == UNKNOWN + 1 + MOST_OF_ONE
    (fault,) = world.cache.faults()
    assert (fault.kind.kind.lower(), fault.name) == (kind, "n2")
    assert fault.reason.startswith("2936 of its resources do not count, x.io/r0064 among them: at most 64 of one object count")
    if kind == "node":
        world.job("j", {"x.io/r0063": 1})
        assert world.settled()[0] == {"j-0": "n2"}
        world.node(["n2", 8, "8Gi", {"x.io/r0063": 1}], before=node)
        assert world.cache.faults() == frozenset()


def test_columns_of_resources_that_no_node_reports_any_more_are_reused():
    world = World()
    node = world.node(["n2", 8, "8Gi", {"x.io/kept": 2}])
    world.cache.queue_changed(None, objects.queue(["limited", {"capability": {"x.io/limited": 1}}]))
    kept, limited = world.cache.dimensions.find("x.io/kept"), world.cache.dimensions.find("x.io/limited")
    world.job("first", {"x.io/kept": 1})
    assert world.settled()[0] == {"first-0": "n2"}
    node = None
    for i in range(3 * MOST // MOST_OF_ONE):
        node = world.node(["n3", 64, "64Gi", {"pods": 64} | {f"x.io/{i}-{j}": 2 for j in range(MOST_OF_ONE)}], before=node)
        world.job(f"j{i}", {f"x.io/{i}-0": 2})
        assert world.settled()[0] == {f"j{i}-0": "n3"}
        assert len(world.cache.dimensions) <= MOST
    assert world.cache.faults() == frozenset()
    assert (world.cache.dimensions.find("x.io/kept"), world.cache.dimensions.find("x.io/limited")) == (kept, limited)
    columns = world.cache.nodes.columns
    assert int(columns.used[kept].sum()) == 1000
    assert int(columns.used[4:].sum()) <= 1000 + 2000 * len(world.cache.tasks)
    for name, row in ((name, world.cache.dimensions.find(name)) for name in world.cache.dimensions.names[4:] if name):
        held = sum(task.shape.request.get(name, 0) for task in world.cache.tasks.values() if task.node)
        assert int(columns.used[row].sum()) == held, name


def test_resources_of_a_deleted_job_are_removed_from_the_sums_of_its_queue():
    world = World()
    world.job("stays")
    group = objects.pod_group(["bad", "q", 1, {"minRes": MANY, "phase": "Inqueue"}])
    pod = objects.pod(["bad-0", "bad", "-", 1, "1Gi", MANY])
    world.cache.group_changed(None, group)
    world.cache.pod_changed(None, pod)
    world.cache.snapshot()
    world.cache.pod_changed(pod, None)
    world.cache.group_changed(group, None)
    world.cache.snapshot()
    totals = world.cache.jobs._totals["q"]
    assert all(not name.startswith("x.io/") for part in totals.parts for name in part)


def test_pods_holding_a_removed_resource_are_not_evicted_for_another_missing_resource():
    """A device plugin went with its name, and its pods still run: they do not go for pods that ask for another such resource."""
    world = World(["n0", 8, "8Gi"], actions="enqueue, allocate, preempt, gangpreempt")
    world.cache.group_changed(None, objects.pod_group(["old", "q", 1, {"phase": "Running"}]))
    for i in range(2):
        world.cache.pod_changed(None, objects.pod([f"old-{i}", "old", "n0", 1, "1Gi", {"x.io/old": 1, "preemptable": True}]))
    world.job("high", {"x.io/new": 1, "prio": 1000}, **{"class": 2})
    assert world.settled()[0] == {}
    assert world.evicted == []
    assert int(world.cache.nodes.columns.used[UNKNOWN, 0]) == 2000
    world.node(["n0", 8, "8Gi", {"x.io/old": 2}])
    assert int(world.cache.nodes.columns.used[UNKNOWN, 0]) == 0


def test_a_pod_requesting_zero_of_a_resource_waits_while_every_node_is_over_committed_in_it():
    world = World()
    world.cache.group_changed(None, objects.pod_group(["old", "q", 1, {"phase": "Running"}]))
    olds = [objects.pod([f"old-{i}", "old", f"n{i}", 1, "1Gi", {"x.io/old": 1}]) for i in range(2)]
    for pod in olds:
        world.cache.pod_changed(None, pod)
    world.job("zero", {"x.io/old": 0})
    placed, said = world.settled()
    assert placed == {}
    assert "2 Insufficient x.io/old" in said["t/zero"].message
    world.cache.pod_changed(olds[0], None)
    assert world.settled()[0] == {"zero-0": "n0"}
