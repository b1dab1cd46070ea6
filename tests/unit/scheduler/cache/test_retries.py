"""Jobs that wait cost nothing until something changes that may help them, or time does."""

import msgspec
import pytest

from pyroclast.api import records
from pyroclast.lifecycle.gang.groups import volcano_group, volcano_record
from pyroclast_scheduler.cache import reads
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cache.retries import UnschedulableJobs
from pyroclast_scheduler.model.triggers import AnyChange, Eviction, Pause, Room, UnschedulableJob
from tests.scenarios import objects


def waiting_shapes(facts):
    return {task.shape for task in facts.tasks if not task.node}


def wanted(facts, only_own):
    """That there is room, also once others go; `only_own`: of its queue; None: nobody does."""
    shapes = frozenset(waiting_shapes(facts))
    return frozenset(map(Room, shapes)) | (
        {Eviction(facts.queue, shapes, only_own)} if shapes and only_own is not None else set()
    )


class World:
    """Two nodes, and a job at rest that only the larger one could take."""

    def __init__(self, *triggers):
        self.cache = Cache()
        self.cache.queue_changed(None, objects.queue(["q"]))
        self.cache.node_changed(None, objects.node(["small", 4, "8Gi"]))
        self.cache.node_changed(None, objects.node(["large", 16, "8Gi"]))
        self.cache.group_changed(None, objects.pod_group(["g", "q", 1]))
        self.cache.pod_changed(None, objects.pod(["p", "g", "-", 9, "1Gi"]))
        self.rest(*triggers)

    def rest(self, *triggers):
        (facts,) = self.cache.snapshot().jobs
        self.cache.retries.add(UnschedulableJob(facts, frozenset({*map(Room, waiting_shapes(facts)), *triggers})))
        assert self.awake() == []

    def awake(self):
        return [facts.name for facts in self.cache.snapshot().jobs]


def test_a_job_with_a_pause_of_one_period_is_retried_only_in_the_next_period():
    world = World(Pause(1))
    world.cache.pod_changed(None, objects.pod(["other", "", "small", 1, "1Gi"]))
    assert world.awake() == []
    world.cache.recheck()
    assert world.awake() == ["g"]
    world.rest(Pause(1))  # and again in the period after
    world.cache.recheck()
    assert world.awake() == ["g"]


def test_a_job_with_a_pause_of_three_periods_is_due_every_third_period():
    waiting, facts = UnschedulableJobs(), World().cache.jobs.all_facts()["t/g"]
    waiting.add(UnschedulableJob(facts, frozenset({Pause(3)})))
    assert [list(waiting.due()) for _ in range(7)] == [[], [], ["t/g"], [], [], ["t/g"], []]
    waiting.add(UnschedulableJob(facts))
    assert [list(waiting.due()) for _ in range(3)] == [[], [], []]


@pytest.mark.parametrize(("node", "want"), [("small", []), ("large", ["g"]), ("unknown", [])])
def test_a_created_numatopology_retries_only_jobs_that_fit_its_node(node, want):
    world = World()
    topology = msgspec.convert({"metadata": {"name": node, "uid": "t"}}, records.Numatopology)
    world.cache.node_object_changed(None, topology)
    assert world.awake() == want


def test_a_confirmed_status_write_retries_no_job_but_a_label_change_does():
    world = World()
    group = world.cache.groups.written("t/g")
    status = msgspec.structs.replace(group.status, phase="Inqueue", running=1)
    world.cache.groups.believe("t/g", status)
    assert world.awake() == ["g"]
    world.rest()
    metadata = msgspec.structs.replace(group.metadata, resource_version="77")
    answer = volcano_record(msgspec.structs.replace(group, metadata=metadata, status=status))
    world.cache.group_changed(None, answer)
    world.cache.groups.believe("t/g", None)
    assert world.awake() == []
    assert world.cache.groups.current("t/g") == volcano_group(answer)
    labelled = msgspec.structs.replace(answer.metadata, resource_version="78", labels={"a": "b"})
    world.cache.group_changed(answer, msgspec.structs.replace(answer, metadata=labelled))
    assert world.awake() == ["g"]


def test_a_failed_status_write_retries_the_job():
    world = World()
    status = msgspec.structs.replace(world.cache.groups.written("t/g").status, running=1)
    world.cache.groups.believe("t/g", status)
    world.rest()
    world.cache.groups.believe("t/g", None)
    assert world.awake() == ["g"]


def read_one(objects):
    return objects.of(records.PersistentVolumeClaim).get("t/claim")


READS = {
    "nothing": (lambda _objects: None, set()),
    "one that is there": (read_one, {"claim"}),
    "one that is not there yet": (lambda objects: "t/other" in objects.of(records.PersistentVolumeClaim), {"other"}),
    "those of a namespace": (lambda objects: objects.in_namespace(records.PersistentVolumeClaim, "t"), {"claim", "other"}),
    "those of another namespace": (lambda objects: objects.in_namespace(records.PersistentVolumeClaim, "u"), set()),
    "all": (lambda objects: list(objects.of(records.PersistentVolumeClaim)), {"claim", "other"}),
    "how many there are": (lambda objects: bool(objects.of(records.PersistentVolumeClaim)), {"claim", "other"}),
    "another kind": (lambda objects: list(objects.of(records.Service)), set()),
}


def claim(name, version="1", **labels):
    metadata = {"namespace": "t", "name": name, "uid": name, "resourceVersion": version, "labels": labels}
    return msgspec.convert({"metadata": metadata}, records.PersistentVolumeClaim)


@pytest.mark.parametrize(("read", "want"), READS.values(), ids=READS)
def test_a_changed_object_retries_jobs_only_if_a_session_read_it(read, want):
    for name in ("claim", "other"):
        world = World()
        before = claim("claim")
        world.cache.object_changed(None, before)
        read(world.cache.snapshot().objects)
        after = claim(name, "2", changed="yes")
        world.cache.object_changed(before if name == "claim" else None, after)
        assert (world.awake() == ["g"]) is (name in want)
        if name in want:
            world.rest()
        world.cache.object_changed(after, None)
        assert (world.awake() == ["g"]) is (name in want)


def test_an_object_created_while_a_session_first_reads_it_retries_the_job():
    world = World()
    snapshot = world.cache.snapshot()
    world.cache.object_changed(None, claim("claim"))
    assert read_one(snapshot.objects) is None
    assert world.awake() == ["g"]
    world.rest()
    world.cache.object_changed(None, claim("other"))
    read_one(world.cache.snapshot().objects)
    assert world.awake() == []


def test_the_memory_of_ignored_object_changes_is_bounded_and_its_overflow_retries_jobs(monkeypatch):
    monkeypatch.setattr(reads, "_MOST_PASSED_OVER", 10)
    world = World()
    for number in range(100):
        world.cache.object_changed(None, claim(f"c{number}"))
    assert len(world.cache.objects.read._passed_over) < 20
    assert world.awake() == ["g"], "what was given up may have been read"


def test_a_changed_object_that_was_not_read_for_1200_rechecks_retries_no_job():
    world = World()
    read_one(world.cache.snapshot().objects)
    for _ in range(1199):
        world.cache.recheck()
    world.rest()
    world.cache.object_changed(None, claim("claim"))
    assert world.awake() == ["g"]
    world.cache.recheck()
    world.rest()
    world.cache.object_changed(None, claim("claim", "2", changed="yes"))
    assert world.awake() == []


def test_prepare_processes_many_changed_jobs_in_batches():
    cache = Cache()
    cache.queue_changed(None, objects.queue(["q"]))
    for i in range(600):
        cache.group_changed(None, objects.pod_group([f"g{i}", "q", 1]))
    assert [cache.prepare(), cache.prepare()] == [351, 101]  # it is not known yet whom that wakes
    cache.group_changed(None, objects.pod_group(["late", "q", 1]))
    assert len(cache.snapshot().jobs) == 601
    assert cache.prepare() == 0


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({}, False),
        ({"status": {"state": "Open", "running": 3, "allocated": {"cpu": "2"}}}, False),
        ({"status": {"state": "Closed"}}, True),
        ({"spec": {"weight": 2}}, True),
        ({"metadata": {"name": "q", "annotations": {"volcano.sh/hierarchy-weights": "100/2"}}}, True),
    ],
)
def test_a_queue_change_wakes_the_scheduling_loop_unless_only_its_counts_differ(changes, want):
    cache, woken = Cache(), []
    old = msgspec.convert({"metadata": {"name": "q"}, "spec": {"weight": 1}, "status": {"state": "Open"}}, records.Queue)
    cache.queue_changed(None, old)
    cache.on_change(lambda: woken.append(True))
    cache.queue_changed(old, msgspec.convert(msgspec.to_builtins(old) | changes, records.Queue))
    assert bool(woken) is want


WAKES = {
    "anything may be another matter": Cache.stale,
    "a queue changes": lambda cache: cache.queue_changed(objects.queue(["q"]), objects.queue(["q", {"weight": 7}])),
    "a node comes": lambda cache: cache.node_changed(None, objects.node(["n", 4, "8Gi"])),
}


@pytest.mark.parametrize("is_wary", [True, False])
@pytest.mark.parametrize("wake", WAKES.values(), ids=WAKES.keys())
def test_prepare_retries_many_waiting_jobs_in_batches_after_a_change(wake, is_wary):
    cache = Cache()
    cache.queue_changed(None, objects.queue(["q"]))
    for i in range(600):
        cache.group_changed(None, objects.pod_group([f"g{i}", "q", 1]))
        cache.pod_changed(None, objects.pod([f"p{i}", f"g{i}", "-", 1, "1Gi"]))
    for facts in cache.snapshot().jobs:
        cache.retries.add(UnschedulableJob(facts, frozenset({AnyChange()} if is_wary else map(Room, waiting_shapes(facts)))))
    assert cache.prepare() == 0
    wake(cache)
    assert [cache.prepare(), cache.prepare(), cache.prepare()] == [350, 100, 0]
    assert len(cache.snapshot().jobs) == 600


class Full:
    """Two full nodes and one queue beside another; a job at rest that waits until others could go for it."""

    def __init__(self, *, only_own):
        self.cache = Cache()
        for name in ("q", "other"):
            self.cache.queue_changed(None, objects.queue([name]))
        self.cache.node_changed(None, objects.node(["small", 4, "8Gi"]))
        self.cache.node_changed(None, objects.node(["large", 16, "8Gi"]))
        for name, queue in (("mine", "q"), ("theirs", "other"), ("waits", "q")):
            self.cache.group_changed(None, objects.pod_group([name, queue, 1]))
        self.pods = {
            "m": objects.pod(["m", "mine", "small", 4, "1Gi"]),
            "t": objects.pod(["t", "theirs", "large", 16, "1Gi"]),
        }
        for pod in self.pods.values():
            self.cache.pod_changed(None, pod)
        self.cache.pod_changed(None, objects.pod(["w", "waits", "-", 9, "1Gi"]))
        for facts in self.cache.snapshot().jobs:
            self.cache.retries.add(UnschedulableJob(facts, wanted(facts, only_own)))
        assert self.woken() == set()

    def woken(self):
        return {facts.name for facts in self.cache.snapshot().jobs}

    def changed(self, name, **annotations):
        body = msgspec.to_builtins(self.pods[name])
        body["metadata"]["annotations"] = body["metadata"].get("annotations", {}) | annotations
        new = msgspec.convert(body, records.Pod)
        self.cache.pod_changed(self.pods[name], new)


def queue_changes(world):
    world.cache.queue_changed(objects.queue(["q"]), objects.queue(["q", {"weight": 7}]))


# a change, and whether it helps a job that waits for room, for evictions in its own queue, or for evictions anywhere
CHANGES = {
    "a pod comes that waits": (  # the queues' shares may be others
        lambda world: world.cache.pod_changed(None, objects.pod(["n", "new", "-", 1, "1Gi"])), (False, False, True)
    ),
    "a pod of its queue changes where it never fits": (
        lambda world: world.changed("m", **{"volcano.sh/preemptable": "false"}), (False, False, False)
    ),
    "a pod of another queue changes where it could fit": (  # it may not go any more
        lambda world: world.changed("t", **{"volcano.sh/preemptable": "false"}), (False, False, False)
    ),
    "a pod of another queue goes": (  # there is room
        lambda world: world.cache.pod_changed(world.pods["t"], None), (True, True, True)
    ),
    "a pod of its queue goes where it never fits": (  # its queue has less than before
        lambda world: world.cache.pod_changed(world.pods["m"], None), (False, False, True)
    ),
    "a queue changes": (queue_changes, (True, True, True)),
    "a node comes": (
        lambda world: world.cache.node_changed(None, objects.node(["tiny", 1, "1Gi"])), (False, True, True)
    ),
    "a pod of its queue comes where it could fit": (
        lambda world: world.cache.pod_changed(None, objects.pod(["m2", "mine", "large", 1, "1Gi"])), (False, False, True)
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "wants"), CHANGES.values(), ids=CHANGES)
def test_a_job_waiting_for_evictions_is_retried_only_by_changes_that_may_help_it(change, wants):
    for only_own, want in zip((None, True, False), wants, strict=True):
        world = Full(only_own=only_own)
        change(world)
        assert ("waits" in world.woken()) is want, only_own


def huge():
    """A job at rest that no node is large enough for, whoever goes."""
    world = Full(only_own=False)
    world.cache.group_changed(None, objects.pod_group(["huge", "q", 1]))
    world.cache.pod_changed(None, objects.pod(["h", "huge", "-", 99, "1Gi"]))
    for facts in world.cache.snapshot().jobs:
        world.cache.retries.add(UnschedulableJob(facts, wanted(facts, only_own=False)))
    assert world.woken() == set()
    return world


@pytest.mark.parametrize("change", [change for change, _ in CHANGES.values() if change is not queue_changes])
def test_a_job_too_large_for_every_node_is_not_retried_by_pod_or_small_node_changes(change):
    world = huge()
    change(world)
    assert "huge" not in world.woken()


def test_a_new_node_that_is_large_enough_retries_the_job_even_if_it_is_full():
    world = huge()
    world.cache.pod_changed(None, objects.pod(["fills", "theirs", "vast", 128, "1Gi"]))
    world.cache.node_changed(None, objects.node(["vast", 128, "8Gi"]))
    assert "huge" in world.woken()
