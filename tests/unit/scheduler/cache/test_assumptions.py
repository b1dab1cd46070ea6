"""What was decided holds until an event, an answer or a deadline ends it: each way for binds, evictions and nominations."""

import msgspec
import pytest

from pyroclast_scheduler.cache.assumptions import DEADLINE_SECONDS
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.shell.seat_keeper import Verifier
from tests.scenarios import objects
from tests.scenarios.taking import assume_all
from tests.unit.kube.fault_server import FaultServer, answer
from tests.unit.scheduler.cache.test_cache import changed

EVICTED = [{"type": "Ready", "status": "False", "reason": "Evict"}]


class World:
    """A cache with a clock, and one pod that something is assumed of."""

    def __init__(self, kind):
        self.now = 0.0
        self.cache = Cache(now=lambda: self.now)
        self.cache.queue_changed(None, objects.queue(["q"]))
        self.cache.node_changed(None, objects.node(["n1", 4, "8Gi"]))
        self.cache.group_changed(None, objects.pod_group(["g", "q", 1]))
        where = "n1" if kind == "going" else "-"
        self.pod = objects.pod(["p", "g", where, 2, "1Gi"])
        self.cache.pod_changed(None, self.pod)
        {
            "bound": lambda: self.cache.pods.assume("t-p", "n1"),
            "going": lambda: self.cache.pods.releasing("t-p"),
            "nominated": lambda: self.cache.pods.nominate("t-p", "n1"),
        }[kind]()

    @property
    def task(self):
        return self.cache.tasks["t-p"]

    @property
    def used(self):
        return int(self.cache.nodes.columns.used[0, 0])

    def tell(self, **fields):
        new = changed(self.pod, **fields)
        self.cache.pod_changed(self.pod, new)
        self.pod = new


STANDS = {
    "bound": lambda task: task.status is TaskStatus.BINDING and task.node == "n1",
    "going": lambda task: task.status is TaskStatus.RELEASING,
    "nominated": lambda task: task.nominated == "n1",
}
LATE = {
    "bound": {"metadata__labels": {"seen": "late"}},
    "going": {"status__conditions": EVICTED},  # our own status update, before the deletion
    "nominated": {"status__conditions": [{"type": "PodScheduled", "status": "False"}]},
}
CONFIRMED = {
    "bound": {"spec__nodeName": "n1"},
    "going": {"metadata__deletionTimestamp": "2026-01-01T00:00:00Z"},
    "nominated": {"status__nominatedNodeName": "n1"},
}
END = {
    "bound": lambda pods: pods.forget("t-p"),
    "going": lambda pods: pods.restore("t-p"),
    "nominated": lambda pods: pods.unnominate("t-p"),
}
KINDS = pytest.mark.parametrize("kind", ["bound", "going", "nominated"])


@KINDS
def test_an_assumption_holds_through_events_older_than_the_decision(kind):
    world = World(kind)
    assert STANDS[kind](world.task)
    world.tell(**LATE[kind])
    assert STANDS[kind](world.task)
    assert len(world.cache.assumptions) == 1
    assert world.used == (0 if kind == "nominated" else 2000)


@KINDS
def test_an_event_that_confirms_the_decision_ends_the_assumption(kind):
    world = World(kind)
    world.tell(**CONFIRMED[kind])
    assert len(world.cache.assumptions) == 0
    END[kind](world.cache.pods)  # too late to be taken back
    assert world.task.status is {"bound": TaskStatus.BOUND, "going": TaskStatus.RELEASING}.get(kind, TaskStatus.PENDING)
    assert world.used == (0 if kind == "nominated" else 2000)


@KINDS
def test_a_pod_deletion_ends_its_assumption_and_frees_the_node(kind):
    world = World(kind)
    world.cache.pod_changed(world.pod, None)
    assert len(world.cache.assumptions) == 0
    assert world.used == 0


@KINDS
def test_a_refused_write_undoes_the_assumption(kind):
    world = World(kind)
    END[kind](world.cache.pods)
    assert world.task.status is (TaskStatus.RUNNING if kind == "going" else TaskStatus.PENDING)
    assert world.used == (2000 if kind == "going" else 0)
    assert not STANDS[kind](world.task)
    assert len(world.cache.assumptions) == 0


@KINDS
@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "as-it-was"])
def test_an_assumption_past_its_deadline_is_replaced_by_the_pod_as_read(kind, is_gone):
    world = World(kind)
    world.now = DEADLINE_SECONDS - 1
    assert world.cache.assumptions.overdue(world.now) == []
    world.now = DEADLINE_SECONDS
    assert world.cache.assumptions.overdue(world.now) == ["t-p"]
    assert world.cache.assumptions.overdue(world.now) == []  # once per deadline
    world.cache.pods.read("t-p", None if is_gone else world.pod)
    assert len(world.cache.assumptions) == 0
    assert is_gone == ("t-p" not in world.cache.tasks)
    if not is_gone:
        assert not STANDS[kind](world.task)


def test_a_pod_with_a_refused_bind_is_pending_and_held_until_released():
    world = World("bound")
    world.cache.pods.forget("t-p", is_refused=True)
    assert world.task.status is TaskStatus.PENDING
    snapshot = world.cache.snapshot()
    assert snapshot.held == snapshot.refused == {"t-p"}
    world.cache.pods.release("t-p")
    snapshot = world.cache.snapshot()
    assert (snapshot.held, snapshot.refused) == (frozenset(), {"t-p"})
    world.cache.pods.assume("t-p", "n1")
    world.tell(spec__nodeName="n1")
    assert world.cache.snapshot().refused == frozenset()


def test_a_placement_that_cannot_be_assumed_as_a_whole_leaves_a_nominated_pod_pending():
    world = World("nominated")
    other = msgspec.to_builtins(objects.pod(["big", "g", "-", 9, "1Gi"]))
    world.cache.pod_changed(None, msgspec.convert(other, type(world.pod)))
    assert assume_all(world.cache, [("t-p", "n1"), ("t-big", "n1")])
    assert world.task.status is TaskStatus.PENDING


async def test_verification_removes_a_pod_that_does_not_decode_from_the_cache():
    """Whoever watches leaves such a pod out too; the service goes on."""
    world = World("bound")
    pod = {"metadata": {"namespace": "default", "name": "p", "uid": "t-p"}, "spec": "does not decode"}
    async with FaultServer() as server, server.client() as client:
        server.on("GET /api/v1/namespaces/default/pods/p", answer(200, pod))
        await Verifier(client, world.cache, now=lambda: 0.0)._verify("t-p")
    assert "t-p" not in world.cache.tasks
