"""A job at rest is tried again when a queue, a node or a limit that it waits for changes, also while a session decides."""

import msgspec
import pytest

from pyroclast.api import keys, records
from pyroclast_scheduler.cache.cache import Cache
from tests.scenarios import objects
from tests.scenarios.taking import assume_all, take
from tests.unit.scheduler.deciding import decided, one_tier

PLUGINS = ("gang", "predicates", "proportion", "nodeorder")


class World:
    """A cluster that sessions look at until nothing more is to be done."""

    def __init__(self, *plugins, queues=()):
        self.configuration = one_tier(plugins)
        self.cache = Cache()
        for each in queues or (objects.queue(["q"]),):
            self.cache.queue_changed(None, each)

    def node(self, name, cpu, **options):
        self.cache.node_changed(None, objects.node([name, cpu, "64Gi", options]))

    def job(self, name, cpu, *, queue="q", node="-", count=1, minimum=1, phase="Pending"):
        self.cache.group_changed(None, objects.pod_group([name, queue, minimum, {"phase": phase}]))
        for i in range(count):
            self.cache.pod_changed(None, objects.pod([f"{name}-{i}", name, node, cpu, "1Gi"]))

    def changed(self, pod, **labels):
        body = msgspec.to_builtins(self.cache.tasks[f"t-{pod}"].pod)
        body["metadata"]["labels"] = labels
        self.cache.pod_changed(self.cache.tasks[f"t-{pod}"].pod, msgspec.convert(body, records.Pod))

    def decided(self):
        outcome, binds = decided(self.cache, self.configuration)
        return outcome, list(binds.items())

    def taken(self, outcome):
        take(self.cache, outcome)

    def settled(self):
        """What is bound until all jobs rest."""
        bound = {}
        for _ in range(4):
            outcome, binds = self.decided()
            for uid, node in binds:
                assert self.cache.pods.assume(uid, node) is None
            bound |= {uid.removeprefix("t-"): node for uid, node in binds}
            self.taken(outcome)
        assert self.cache.snapshot().jobs == []
        return bound


def queue(name, *groups, limits="", parent=""):
    """A queue for these groups of nodes, none if it says nothing of them."""
    options = {"parent": parent, "annotations": {keys.NODE_GROUP_RESOURCE_LIMITS: limits} if limits else {}}
    if groups:
        options["affinity"] = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": groups}}
    return objects.queue([name, options])


def of_group(name):
    return {"labels": {keys.NODE_GROUP_NAME: name}}


def test_jobs_are_retried_after_the_node_group_affinity_of_their_queue_changes():
    world = World(*PLUGINS, "nodegroup", queues=[queue("q", "one")])
    world.node("n", 8, **of_group("two"))
    world.job("g", 2)
    assert world.settled() == {}
    world.cache.queue_changed(queue("q", "one"), queue("q", "two"))
    assert world.settled() == {"g-0": "n"}


@pytest.mark.parametrize("change", ["changed", "gone"])
def test_jobs_are_retried_when_an_ancestor_queue_changes_or_is_deleted(change):
    above, other = queue("above", "one"), queue("other", "one")
    below = queue("q", parent="middle")
    world = World(
        *PLUGINS, "{name: nodegroup, enableHierarchy: true}", queues=[above, queue("middle", parent="above"), below, other]
    )
    world.node("n", 8, **of_group("two"))
    world.job("g", 2)
    world.job("h", 2, queue="other")
    assert world.settled() == {}
    if change == "gone":  # and with it what its descendants could not use
        world.cache.queue_changed(above, None)
        assert [[facts.name for facts in line] for line in world.cache.snapshot().candidates] == [["g"]]
    else:
        world.cache.queue_changed(above, queue("above", "two"))
        assert world.settled() == {"g-0": "n"}


def test_a_raised_node_group_limit_wakes_the_scheduling_loop_and_retries_the_jobs_of_the_queue():
    before, after = (queue("q", "one", limits=f'{{"one": {{"cpu": "{cpu}"}}}}') for cpu in (4, 40))
    world = World(*PLUGINS, "nodegroup", queues=[before])
    world.node("n", 16, **of_group("one"))
    world.job("g", 6)
    assert world.settled() == {}
    woken = []
    world.cache.on_change(lambda: woken.append(True))
    world.cache.queue_changed(before, before)
    assert not woken
    world.cache.queue_changed(before, after)
    assert woken
    assert world.settled() == {"g-0": "n"}


def test_node_group_quota_freed_on_a_node_too_small_for_the_job_retries_the_job():
    world = World(*PLUGINS, "nodegroup", queues=[queue("q", "one", limits='{"one": {"cpu": "4"}}')])
    world.node("large", 16, **of_group("one"))
    world.node("small", 1, **of_group("one"))
    world.job("runs", 1, node="small", phase="Running")
    world.job("waits", 4)
    assert world.settled() == {}
    world.cache.pod_changed(world.cache.tasks["t-runs-0"].pod, None)
    assert world.settled() == {"waits-0": "large"}


@pytest.mark.parametrize("was_there", [True, False])
def test_pods_on_a_missing_node_do_not_count_against_the_node_group_limit(was_there):
    world = World(*PLUGINS, "nodegroup", queues=[queue("q", "one", limits='{"one": {"cpu": "4"}}')])
    world.node("large", 16, **of_group("one"))
    if was_there:
        world.node("gone", 4, **of_group("one"))
    world.job("runs", 1, node="gone", phase="Running")
    world.job("waits", 4)
    if was_there:
        assert world.settled() == {}
        world.cache.node_changed(objects.node(["gone", 4, "64Gi", of_group("one")]), None)
    assert world.settled() == {"waits-0": "large"}


@pytest.mark.parametrize("was_there", [True, False])
def test_pods_on_a_missing_node_belong_to_no_topology_domain(was_there):
    world = World(*PLUGINS)
    labels = {"labels": {"zone": "x"}}
    world.node("n", 8, **labels)
    if was_there:
        world.node("gone", 8, **labels)
    world.cache.group_changed(None, objects.pod_group(["runs", "q", 1, {"phase": "Running"}]))
    world.cache.pod_changed(None, objects.pod(["runs-0", "runs", "gone", 1, "1Gi", {"labels": {"app": "a"}}]))
    world.cache.group_changed(None, objects.pod_group(["waits", "q", 1]))
    world.cache.pod_changed(None, objects.pod(["waits-0", "waits", "-", 1, "1Gi", {"anti": {"key": "zone", "app": "a"}}]))
    if was_there:
        assert world.settled() == {}
        world.cache.node_changed(objects.node(["gone", 8, "64Gi", labels]), None)
    assert world.settled() == {"waits-0": "n"}


def test_a_job_refused_for_gpu_memory_is_not_retried_when_an_unrelated_job_is_created():
    sharing = "{name: deviceshare, arguments: {deviceshare.GPUSharingEnable: true}}"
    world = World("gang", "predicates", "nodeorder", sharing)
    world.node("n", 16, **cards(4))
    world.job("g", 1)
    wants_cards(world, "g-0", 8)
    assert world.settled() == {}
    world.changed("g-0")  # and again by the same cause
    assert world.settled() == {}
    world.job("other", 32)
    assert [facts.name for facts in world.cache.snapshot().jobs] == ["other"]


def cards(memory):
    return {keys.GPU_MEMORY: memory, keys.GPU_NUMBER: 1}


def wants_cards(world, pod, memory):
    body = msgspec.to_builtins(world.cache.tasks[f"t-{pod}"].pod)
    for kind in ("requests", "limits"):
        body["spec"]["containers"][0]["resources"][kind][keys.GPU_MEMORY] = str(memory)
    world.cache.pod_changed(world.cache.tasks[f"t-{pod}"].pod, msgspec.convert(body, records.Pod))


def test_a_change_of_only_the_gpu_count_of_a_node_retries_the_job():
    world = World("gang", "predicates", "nodeorder", "{name: deviceshare, arguments: {deviceshare.GPUSharingEnable: true}}")
    node = sharing_node(cards=2)
    world.cache.node_changed(None, node)
    world.job("g", 1)
    wants_cards(world, "g-0", 8)
    assert world.settled() == {}  # two cards of four
    world.cache.node_changed(node, sharing_node(cards=1))
    assert world.settled() == {"g-0": "n"}


def sharing_node(*, cards):
    body = msgspec.to_builtins(objects.node(["n", 16, "64Gi"]))
    body["status"]["allocatable"][keys.GPU_MEMORY] = "8"
    body["status"]["capacity"] = body["status"]["allocatable"] | {keys.GPU_NUMBER: str(cards)}
    return msgspec.convert(body, records.Node)


def test_an_incomplete_gang_is_bound_after_the_gang_plugin_is_removed():
    world = World(*PLUGINS)
    world.node("n", 8)
    world.job("g", 1, minimum=3)
    assert world.settled() == {}
    world.configuration = one_tier(PLUGINS[1:])
    world.cache.stale()
    assert world.settled() == {"g-0": "n"}


def test_an_incomplete_gang_is_retried_on_the_periodic_recheck():
    world = World(*PLUGINS)
    world.node("n", 8)
    world.job("g", 1, minimum=3)
    world.job("runs", 1, node="n", phase="Running")
    world.settled()
    world.cache.recheck()
    assert [facts.name for facts in world.cache.snapshot().jobs] == ["g"]


def test_a_job_without_waiting_pods_is_not_retried_after_any_change():
    world = World(*PLUGINS)
    world.node("n", 8)
    world.job("runs", 1, node="n", phase="Running")
    world.settled()
    world.cache.stale()
    assert world.cache.snapshot().jobs == []


class Halfway:
    """Half of a gang has started, and something small about it changed, so that the next session looks at it."""

    def __init__(self):
        self.world = World(*PLUGINS)
        self.nodes = [objects.node([f"n{i}", 8, "64Gi"]) for i in range(2)]
        for node in self.nodes:
            self.world.cache.node_changed(None, node)
        self.world.cache.group_changed(None, objects.pod_group(["g", "q", 2, {"phase": "Running"}]))
        for i in range(2):
            body = msgspec.to_builtins(objects.pod([f"g-{i}", "g", f"n{i}", 1, "1Gi"]))
            body["status"] = {"phase": "Pending"}
            self.world.cache.pod_changed(None, msgspec.convert(body, records.Pod))
        self.world.settled()
        self.world.changed("g-0", a="b")


@pytest.mark.parametrize("is_deciding", [True, False], ids=["while a session decides", "while the gang rests"])
def test_a_gang_is_incomplete_after_the_node_of_an_unstarted_pod_is_deleted(is_deciding):
    halfway = Halfway()
    world, node = halfway.world, halfway.nodes[1]
    if is_deciding:
        outcome, _ = world.decided()
        assert outcome.unschedulable
    else:
        world.settled()
    world.cache.node_changed(node, None)
    if is_deciding:
        world.taken(outcome)
    outcome, _ = world.decided()
    assert outcome.incomplete == ["t/g"]


def test_a_gang_is_incomplete_after_the_node_of_an_unstarted_pod_is_excluded():
    world = Halfway().world
    outcome, _ = world.decided()
    world.cache.leave_out("node", "n1", "a session failed because of it")
    world.taken(outcome)
    outcome, _ = world.decided()
    assert outcome.incomplete == ["t/g"]


def test_a_job_is_retried_after_the_placement_that_left_it_no_room_cannot_be_assumed():
    world = World("gang", "predicates")
    world.node("n", 4)
    world.job("old", 4, node="n", phase="Running")
    world.job("h", 4)
    assert world.settled() == {}
    world.job("g", 2, count=2, minimum=2, phase="Inqueue")
    world.cache.pod_changed(world.cache.tasks["t-old-0"].pod, None)
    outcome, binds = world.decided()
    assert [uid for uid, _ in binds] == ["t-g-0", "t-g-1"]
    world.cache.pod_changed(world.cache.tasks["t-g-0"].pod, None)
    assert assume_all(world.cache, binds) == "the pod is gone"
    world.taken(outcome)
    assert world.settled() == {"h-0": "n"}


@pytest.mark.parametrize("is_looked_on", [False, True], ids=["alone", "while somebody looks on"])
def test_a_job_woken_during_a_session_is_examined_once_by_the_next_session(is_looked_on):
    world = World(*PLUGINS)
    world.node("n", 1)
    world.job("g", 4)
    assert world.settled() == {}
    world.changed("g-0", a="b")
    outcome, _ = world.decided()
    world.cache.jobs.retry(["t/g"])
    if is_looked_on:
        world.cache.view()
    world.taken(outcome)
    assert [facts.name for facts in world.cache.snapshot().jobs] == ["g"]
    outcome, _ = world.decided()
    world.taken(outcome)
    assert world.cache.snapshot().jobs == []
