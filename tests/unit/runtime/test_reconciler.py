"""The rounds of a reconciler: when it decides again, what it waits for, and which memory it has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pyroclast.api.records import Job, Meta
from pyroclast.api.types import JOBS, Key
from pyroclast.kube.basics.errors import Conflict, KubeError, NotFound
from pyroclast.kube.lease.shards import Shards
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.runtime.reconciler import NOW, ON_CHANGE, Memories, Memory, Reconciler, Requeue

pytestmark = pytest.mark.looptime

KEY = Key("n", "a")
START = 1000.0
"""Seconds since the epoch at which the test begins; the loop has a clock of its own."""


class Objects:
    def __init__(self) -> None:
        self.informer, self.by_key = self, dict[Key, Job]()

    def get(self, key: Key) -> Job | None:
        return self.by_key.get(key)

    def values(self) -> list[Job]:
        return list(self.by_key.values())

    def put(self, uid: str, key: Key = KEY) -> None:
        self.by_key[key] = Job(metadata=Meta(name=key.name, namespace=key.namespace, uid=uid))


class Context:
    client = recorder = None

    def __init__(self) -> None:
        self.shards = Shards()
        self.shards.take(0)

    def now(self) -> float:
        return START + asyncio.get_running_loop().time()


class Kept(Reconciler[Job, str, str, Memory]):
    """Decides what its facts are, and does what the test says."""

    def __init__(self, act: Callable[[int], Requeue]) -> None:
        self.context, self.objects, self.do = Context(), Objects(), act
        self.seen: list[tuple[str, Memory]] = []
        queue: ShardedQueue[Key] = ShardedQueue("kept", shards=1, shard_of=lambda _: 0, now=self.context.now)
        self.work = queue.open(0)
        memories = Memories[Job, Memory](Memory, self.context.now)
        super().__init__(self.context, JOBS, str, self.objects, memories=memories, queue=queue)  # type: ignore[arg-type]

    def _facts(self, record: Job, memory: Memory) -> str:
        return record.metadata.uid

    async def _act(self, facts: str, memory: Memory, decision: str) -> Requeue:
        self.seen.append((decision, memory))
        return self.do(len(self.seen))


def failing(error: KubeError) -> Callable[[int], Requeue]:
    def act(number: int) -> Requeue:
        if number == 1:
            raise error
        return ON_CHANGE

    return act


@pytest.mark.parametrize(
    ("act", "want_rounds", "want_due"),
    [
        pytest.param(lambda number: ON_CHANGE, 1, None, id="nothing is left to do"),
        pytest.param(lambda number: NOW if number < 3 else ON_CHANGE, 3, None, id="it decides again at once"),
        pytest.param(lambda number: NOW if number < 3 else Requeue(START + 50.0), 3, 50.0, id="it is looked at again at a time"),
        pytest.param(lambda number: NOW, Reconciler.ROUNDS, 0.005, id="what is done does not show"),
        pytest.param(failing(Conflict(409, "Conflict", "changed")), 1, 0.005, id="somebody was faster"),
        pytest.param(failing(NotFound(404, "NotFound", "gone")), 1, 0.005, id="it is going"),
    ],
)
async def test_the_result_of_an_action_decides_the_rounds_and_the_next_reconcile(
    act: Callable[[int], Requeue], want_rounds: int, want_due: float | None
) -> None:
    kept = Kept(act)
    kept.objects.put("u")
    await kept.reconcile(KEY)
    assert len(kept.seen) == want_rounds
    assert kept.work.delayed == (want_due is not None)
    if want_due is not None:
        await kept.work.get()
        assert kept.context.now() - START == pytest.approx(want_due)


async def test_memory_is_kept_per_uid_until_the_object_is_deleted_or_its_shard_released() -> None:
    kept = Kept(lambda _: ON_CHANGE)
    for uid in ("first", "first", "second"):
        kept.objects.put(uid)
        await kept.reconcile(KEY)
    kept.objects.by_key.clear()
    await kept.reconcile(KEY)
    kept.objects.put("second")
    await kept.reconcile(KEY)
    kept.context.shards.give(0)
    await kept.reconcile(KEY)
    assert [uid for uid, _ in kept.seen] == ["first", "first", "second", "second", "second"]
    assert all(memory.uid == uid for uid, memory in kept.seen)
    assert len({id(memory) for _, memory in kept.seen}) == 4, "it is kept for one object, until that or its shard has gone"


async def test_an_object_recreated_between_rounds_ends_the_current_reconcile() -> None:
    kept = Kept(lambda _: (kept.objects.put("second"), NOW)[1])
    kept.objects.put("first")
    await kept.reconcile(KEY)
    assert [uid for uid, _ in kept.seen] == ["first"]


async def test_enqueue_all_queues_every_object() -> None:
    kept = Kept(lambda _: ON_CHANGE)
    for name in ("a", "b", "c"):
        kept.objects.put(name, Key("n", name))
    kept.enqueue_all()
    assert len(kept.work) == 3
