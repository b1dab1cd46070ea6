"""The actions, by name."""

from tests.reference.actions import allocate, backfill, enqueue, gangs, preempt, reclaim, reserving, shuffle

ACTIONS = {
    "elect": reserving.elect,
    "enqueue": enqueue.execute,
    "allocate": allocate.execute,
    "backfill": backfill.execute,
    "gangpreempt": gangs.gangpreempt,
    "gangreclaim": gangs.gangreclaim,
    "preempt": preempt.execute,
    "reclaim": reclaim.execute,
    "reserve": reserving.reserve,
    "shuffle": shuffle.execute,
}
