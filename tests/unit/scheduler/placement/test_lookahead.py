"""Shortcuts give what the long way gives: pods placed in one go as one after another, jobs at rest as if they were looked at."""

from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.placement.plans import Ahead
from pyroclast_scheduler.session import task_placement
from tests.counts import examples
from tests.scenarios import objects
from tests.scenarios.taking import assume_all, take_rests, take_statuses
from tests.unit.scheduler.deciding import committed, configured, placed

TEXT = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
CONFIGURATION = configured(TEXT)


def cycle(cache):
    outcome, commits = committed(cache, CONFIGURATION)
    return outcome, {cache.tasks[uid].name: node for uid, node in placed(commits).items()}, commits


LABELS = st.sampled_from([{"app": "a"}, {"app": "b"}])
ZONED = st.sampled_from(["zone", "host"])
OPTIONS = st.fixed_dictionaries(
    {"labels": LABELS},
    optional={
        "anti": st.builds(lambda key, labels: {"key": key, **labels}, ZONED, LABELS),
        "affine": st.builds(lambda labels: {"key": "zone", **labels}, LABELS),
        "spread": st.builds(
            lambda key, skew, labels: {"key": key, "maxSkew": skew, "when": "DoNotSchedule", "match": labels},
            ZONED,
            st.integers(1, 2),
            LABELS,
        ),
        "prefer": st.builds(lambda zone: {"weight": 5, "zone": zone}, st.sampled_from(["z0", "z1"])),
        "preferPod": st.builds(lambda labels: {"weight": 3, "key": "zone", **labels}, LABELS),
    },
)


@st.composite
def clusters(draw):
    """A cluster in which pods and nodes care about each other, as events."""
    nodes = []
    for i in range(draw(st.integers(2, 7))):
        labels = {"host": f"n{i}"}
        if draw(st.integers(0, 9)):
            labels["zone"] = f"z{draw(st.integers(0, 2))}"
        taints = ["old:PreferNoSchedule"] if draw(st.integers(0, 4)) == 0 else []
        nodes.append([f"n{i}", draw(st.integers(1, 6)), "64Gi", {"pods": 8, "labels": labels, "taints": taints}])
    resting = [
        [f"old-{i}", "", f"n{draw(st.integers(0, len(nodes) - 1))}", 0, "1Gi", draw(OPTIONS)]
        for i in range(draw(st.integers(0, 3)))
    ]
    size = draw(st.integers(1, 10))
    options = draw(OPTIONS)
    others = draw(LABELS) if draw(st.integers(0, 4)) == 0 else options["labels"]
    pods = [[f"j-p-{i}", "j", "-", 1, "1Gi", options | ({"labels": others} if i % 2 else {})] for i in range(size)]
    return nodes, resting, draw(st.integers(0, size)), pods


def filled(case):
    nodes, resting, minimum, pods = case
    cache = Cache()
    cache.queue_changed(None, objects.queue(["q"]))
    for row in nodes:
        cache.node_changed(None, objects.node(row))
    for row in resting:
        cache.pod_changed(None, objects.pod(row))
    cache.group_changed(None, objects.pod_group(["j", "q", minimum]))
    for row in pods:
        cache.pod_changed(None, objects.pod(row))
    return cache


FIND = task_placement.find


def one_by_one(session, job, task, plan, count, *, within=None):
    return FIND(session, job, task, plan, min(count, 1), within=within)


@settings(max_examples=examples(120))
@given(clusters())
def test_batch_placement_chooses_the_same_nodes_as_placing_pods_one_by_one(case):
    outcome, found, _ = cycle(filled(case))
    with mock.patch.object(task_placement, "find", one_by_one):
        want_outcome, want, _ = cycle(filled(case))
    assert found == want
    assert [each.message for each in outcome.notes] == [each.message for each in want_outcome.notes]


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=20),
)
def test_placement_with_lookahead_gives_the_same_binds_and_messages_as_without(nodes, jobs):
    """Many small jobs of few shapes, some of which do not fit and are undone."""

    def decided():
        cache = Cache()
        cache.queue_changed(None, objects.queue(["q"]))
        for i, cpu in enumerate(nodes):
            cache.node_changed(None, objects.node([f"n{i}", cpu, "64Gi", {"pods": 9}]))
        for j, (cpu, size, minimum) in enumerate(jobs):
            cache.group_changed(None, objects.pod_group([f"j{j:02}", "q", min(size, minimum)]))
            for i in range(size):
                cache.pod_changed(None, objects.pod([f"j{j:02}-p-{i}", f"j{j:02}", "-", cpu, "1Gi"]))
        outcome, found, _ = cycle(cache)
        return found, [each.message for each in outcome.notes]

    ahead = decided()
    with mock.patch.object(Ahead, "next", lambda self, count, at: self._rows[:0]):
        assert ahead == decided()


class World:
    """A cache to which things happen; what a session finds is taken up, and jobs rest or not."""

    def __init__(self, *, rests):
        self.rests = rests
        self.cache = Cache()
        self.cache.queue_changed(None, objects.queue(["q"]))
        self.pods = {}
        self.binds = []

    def decide(self):
        outcome, found, commits = cycle(self.cache)
        for commit in commits:
            for binds in commit.binds:
                assert assume_all(self.cache, binds.placed) is None
        take_statuses(self.cache, outcome)
        if self.rests:
            take_rests(self.cache, outcome)
        self.binds.append(dict(sorted(found.items())))

    def happen(self, event):
        match event:
            case ("node", i, cpu):
                self.cache.node_changed(None, objects.node([f"n{i}", cpu, "64Gi", {"pods": 6}]))
            case ("lose", i):
                self.cache.node_changed(objects.node([f"n{i}", 1, "64Gi"]), None)
            case ("job", j, minimum, cpus):
                self.cache.group_changed(None, objects.pod_group([f"j{j}", "q", minimum, {"phase": "Pending"}]))
                for i, cpu in enumerate(cpus):
                    row = [f"j{j}-p-{i}", f"j{j}", "-", cpu, "1Gi"]
                    if row[0] not in self.pods:
                        self.pods[row[0]] = objects.pod(row)
                        self.cache.pod_changed(None, self.pods[row[0]])
            case ("end", j):
                for name in [name for name in self.pods if name.startswith(f"j{j}-")]:
                    if self.cache.tasks[f"t-{name}"].node:
                        self.cache.pod_changed(self.pods.pop(name), None)
            case ("queue", capability):
                self.cache.queue_changed(None, objects.queue(["q", {"capability": {"cpu": capability}}]))


EVENTS = st.one_of(
    st.tuples(st.just("node"), st.integers(0, 3), st.integers(1, 6)),
    st.tuples(st.just("lose"), st.integers(0, 3)),
    st.tuples(st.just("job"), st.integers(0, 5), st.integers(0, 4), st.lists(st.integers(0, 5), min_size=1, max_size=5)),
    st.tuples(st.just("end"), st.integers(0, 5)),
    st.tuples(st.just("queue"), st.sampled_from([2, 6, 30])),
)


@settings(max_examples=examples(40))
@given(st.lists(EVENTS, min_size=1, max_size=14))
def test_skipping_unplaceable_jobs_until_a_change_gives_the_same_binds(events):
    lazy, eager = World(rests=True), World(rests=False)
    for world in (lazy, eager):
        world.happen(("node", 0, 4))
        for event in events:
            world.happen(event)
            world.decide()
            world.decide()
    assert lazy.binds == eager.binds
