"""The actions, by name."""

from . import allocate, backfill, enqueue, preempt, reclaim, shuffle

ACTIONS = {
    "enqueue": enqueue.execute,
    "allocate": allocate.execute,
    "backfill": backfill.execute,
    "preempt": preempt.execute,
    "reclaim": reclaim.execute,
    "shuffle": shuffle.execute,
}
