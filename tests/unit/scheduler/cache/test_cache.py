"""The cache: what the watches tell, our own binds until they are confirmed, and objects that make no sense."""

import random

import msgspec
import numpy as np
import pytest

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import TaskStatus
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.scenarios.taking import assume_all


def changed(record, **fields):
    """`record` with wire fields replaced, by dotted path with `__`."""
    body = msgspec.to_builtins(record)
    for path, value in fields.items():
        *parents, last = path.split("__")
        at = body
        for name in parents:
            at = at.setdefault(name, {})
        at[last] = value
    return msgspec.convert(body, type(record))


@pytest.fixture
def cache():
    cache = Cache()
    cache.queue_changed(None, objects.queue(["q"]))
    cache.node_changed(None, objects.node(["n1", 4, "8Gi"]))
    cache.node_changed(None, objects.node(["n2", 4, "8Gi"]))
    cache.group_changed(None, objects.pod_group(["g", "q", 2]))
    return cache


def used(cache, name, dimension=0):
    snapshot = cache.snapshot()
    return int(snapshot.columns.used[dimension, snapshot.rows[name]])


@pytest.mark.parametrize(
    ("node", "why"), [pytest.param("n9", "node n9 is gone", id="no-node"), pytest.param("n1", "not enough", id="no-room")]
)
def test_no_bind_is_assumed_when_one_of_them_is_impossible(cache, node, why):
    for name in ("a", "b", "c"):
        cache.pod_changed(None, objects.pod([name, "g", "-", 2, "1Gi"]))
    cache.pod_changed(None, objects.pod(["big", "g", "-", 3, "1Gi"]))
    assert why in assume_all(cache, [("t-a", "n1"), ("t-b", "n2"), ("t-big", node)])
    assert used(cache, "n1") == used(cache, "n2") == 0
    assert all(task.status is TaskStatus.PENDING for task in cache.tasks.values())


def test_assumed_binds_are_undone_pod_by_pod_when_one_does_not_fit(cache):
    for name in ("a", "b", "big"):
        cache.pod_changed(None, objects.pod([name, "g", "-", 3 if name == "big" else 1, "1Gi"]))
    binds = [("t-a", "n1"), ("t-b", "n1"), ("t-big", "n1")]
    steps = [(used(cache, "n1"), problem is not None) for problem in cache.pods.assuming(binds)]
    assert steps == [(1000, False), (2000, False), (1000, False), (0, False), (0, True)]


def test_a_pod_on_an_unknown_node_counts_there_once_the_node_is_added(cache):
    cache.pod_changed(None, objects.pod(["p", "g", "n3", 1, "1Gi"]))
    snapshot = cache.snapshot()
    assert not snapshot.is_ready[snapshot.rows["n3"]]
    cache.node_changed(None, objects.node(["n3", 4, "8Gi"]))
    assert used(cache, "n3") == 1000
    cache.node_changed(objects.node(["n3", 4, "8Gi"]), None)
    assert not cache.snapshot().is_ready[cache.snapshot().rows["n3"]]


def test_invalid_objects_are_excluded_with_a_reason_until_corrected(cache):
    cache.node_changed(None, changed(objects.node(["bad", 4, "8Gi"]), status__allocatable={"cpu": "many"}))
    cache.pod_changed(None, changed(objects.pod(["bad", "g", "-", 1, "1Gi"]), spec__overhead={"cpu": "-3"}))
    cache.group_changed(None, changed(objects.pod_group(["bad", "q", 1]), spec__minResources={"cpu": "?"}))
    cache.group_changed(None, objects.pod_group(["lost", "nowhere", 1]))
    cache.queue_changed(None, changed(objects.queue(["bad"]), spec__capability={"cpu": "1e40"}))
    snapshot = cache.snapshot()
    assert [job.name for job in snapshot.jobs] == ["g"]
    assert sorted(name for name, row in snapshot.rows.items() if snapshot.is_ready[row]) == ["bad", "n1", "n2"]
    assert snapshot.columns.allocatable[:, snapshot.rows["bad"]].max() == 0
    assert set(snapshot.queues) == {"q"}
    assert set(cache.problems) == {"node bad", "pod t/bad", "podgroup t/bad", "podgroup t/lost", "queue bad"}
    assert "queue nowhere does not exist" in cache.problems["podgroup t/lost"]
    cache.queue_changed(None, objects.queue(["nowhere"]))
    cache.node_changed(None, objects.node(["bad", 4, "8Gi"]))
    assert "t/lost" in {job.key for job in cache.snapshot().jobs}
    assert not {"podgroup t/lost", "node bad"} & set(cache.problems)


def test_a_podgroup_event_older_than_the_cached_version_is_ignored(cache):
    new = changed(objects.pod_group(["g", "q", 2]), metadata__resourceVersion="7", status__phase="Running")
    cache.group_changed(None, new)
    cache.group_changed(None, changed(objects.pod_group(["g", "q", 2]), metadata__resourceVersion="6"))
    assert cache.groups.current("t/g").status.phase == "Running"


def test_a_node_heartbeat_does_not_wake_the_scheduling_loop(cache):
    woken = []
    cache.on_change(lambda: woken.append(1))
    node = objects.node(["n1", 4, "8Gi"])
    cache.node_changed(node, changed(node, status__conditions=[{"type": "Ready", "status": "True"}]))
    assert not woken
    cache.node_changed(node, changed(node, spec__unschedulable=True))
    assert woken


def test_a_node_annotation_change_wakes_the_scheduling_loop_only_if_it_was_read(cache):
    woken = []
    cache.on_change(lambda: woken.append(1))

    def beat(number, **more):
        node = changed(objects.node(["n1", 4, "8Gi"]), metadata__annotations={"device/handshake": f"Reported {number}", **more})
        cache.node_changed(None, node)
        return len(woken)

    first = beat(0)
    assert beat(1) == first
    assert beat(2, other="a") == first
    record = next(each for each in cache.nodes.records if each is not None)
    assert record.metadata.annotations == {"device/handshake": "Reported 2", "other": "a"}, "whoever reads it sees the newest"
    assert record.metadata.annotations.get("device/handshake") == "Reported 2"
    assert beat(2, other="a") == first + 1, "a change that was passed over has been read: who read the old one looks again"
    assert beat(2, other="b") == first + 1
    assert beat(3, other="b") == first + 2
    assert list(record.metadata.annotations)
    assert beat(3, other="c") == first + 3
    assert beat(3, other="d") == first + 4


def test_node_columns_equal_a_recount_after_any_sequence_of_events():
    """Pods come, are bound, assumed, forgotten, change, end and go; nodes come and go; some resources appear late."""
    rng = random.Random(7)
    cache = Cache()
    cache.queue_changed(None, objects.queue(["q"]))
    nodes = {f"n{i}": objects.node([f"n{i}", 64, "64Gi", {"pods": 500, "x/gpu": 8}]) for i in range(4)}
    pods = {}
    for step in range(3000):
        name = f"p{rng.randrange(60)}"
        old = pods.get(name)
        match rng.randrange(8):
            case 0 | 1 if old is None:
                where = rng.choice(["-", *nodes])
                extra = {"x/gpu": 1} if rng.random() < 0.2 else {}
                pods[name] = changed(
                    objects.pod([name, "g", where, rng.randrange(3), "1Gi", extra]), metadata__uid=f"{name}-{step}"
                )
                cache.pod_changed(None, pods[name])
            case 2 if old is not None:
                cache.pods.assume(old.metadata.uid, rng.choice(list(nodes)))
            case 3 if old is not None:
                cache.pods.forget(old.metadata.uid)
            case 4 if old is not None:
                task = cache.tasks[old.metadata.uid]
                if task.node:
                    pods[name] = changed(
                        old, spec__nodeName=task.node, status__phase=rng.choice(["Running", "Succeeded", "Failed"])
                    )
                    cache.pod_changed(old, pods[name])
            case 5 if old is not None:
                pods[name] = changed(old, metadata__deletionTimestamp="2026-01-01T00:00:00Z")
                cache.pod_changed(old, pods[name])
            case 6 if old is not None:
                del pods[name]
                cache.pod_changed(old, None)
            case 7:
                node = nodes[rng.choice(list(nodes))]
                cache.node_changed(*((node, None) if rng.random() < 0.3 else (None, node)))
        if step % 100 == 0:
            compare_with_recount(cache)
    compare_with_recount(cache)


def compare_with_recount(cache):
    snapshot = cache.snapshot()
    names = snapshot.dimensions.names
    want = np.zeros_like(snapshot.columns.used)
    releasing = np.zeros_like(want)
    count = np.zeros(len(snapshot.names), dtype=int)
    for task in cache.tasks.values():
        if task.node and task.status not in {TaskStatus.SUCCEEDED, TaskStatus.FAILED}:
            row = snapshot.rows[task.node]
            count[row] += 1
            for name, amount in task.shape.request.items():
                want[names.index(name), row] += amount
                releasing[names.index(name), row] += amount * (task.status is TaskStatus.RELEASING)
    assert (snapshot.columns.used == want).all()
    assert (snapshot.columns.releasing == releasing).all()
    assert (snapshot.columns.pod_count == count).all()


def test_a_deleted_job_leaves_nothing_in_the_sums_of_its_queue():
    cache = Cache()
    feed(
        cache, {"nodes": [["n", 4, "8Gi"]], "queues": [["q", {}]], "podgroups": [["j", "q", 1]], "pods": [["p", "j", "n", 2, 0]]}
    )
    assert cache.snapshot().queue_sums["q"].allocated[0] == 2000
    cache.pod_changed(cache.tasks["t-p"].pod, None)
    cache.group_changed(objects.pod_group(["j", "q", 1]), None)
    assert not cache.snapshot().queue_sums
