"""The actions, by name."""

from . import allocate, backfill, enqueue, gangs, preempt, reclaim, shuffle

ACTIONS = {
    "enqueue": enqueue.execute,
    "allocate": allocate.execute,
    "backfill": backfill.execute,
    "gangpreempt": gangs.gangpreempt,
    "gangreclaim": gangs.gangreclaim,
    "preempt": preempt.execute,
    "reclaim": reclaim.execute,
    "shuffle": shuffle.execute,
}
