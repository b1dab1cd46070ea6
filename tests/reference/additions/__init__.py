"""Plugins that a random cluster gets beside those of `generator`, with the objects that they read.

`ADDITIONS`: by name of the plugin, what puts it into a case, and the actions of which the case must have one. `volumes` is a
part of predicates, `dry-run` a mode of preempt, `inner-queues` are trees of queues for capacity, with PodGroups where none may
be; a case that has no place for them is passed over (False). `device-claims` are a part of predicates too.
"""

from __future__ import annotations

from random import Random

from tests.reference import generator
from tests.reference.additions import (
    evictions,
    queues,
    reserving,
    topologies,
    usage,
    volumes,
)

ADDITIONS = {
    "pdb": (evictions.add_pdb, {"preempt", "reclaim", "gangpreempt", "gangreclaim"}),
    "cdp": (evictions.add_cdp, {"preempt", "reclaim"}),
    "dry-run": (evictions.add_dry_run, {"preempt"}),
    "inner-queues": (queues.add_inner, {"enqueue", "allocate", "reclaim", "preempt", "gangreclaim", "gangpreempt"}),
    "resourcequota": (queues.add_quotas, {"enqueue"}),
    "usage": (usage.add, {"allocate", "backfill", "preempt"}),
    "device-claims": (volumes.add_devices, {"enqueue", "allocate", "backfill"}),
    "rescheduling": (usage.add_rescheduling, {"preempt", "reclaim", "allocate"}),
    "reservation": (reserving.add, {"allocate", "preempt", "reclaim", "gangpreempt"}),
    "task-topology": (topologies.add, {"allocate", "preempt", "reclaim"}),
    "volumes": (volumes.add, {"allocate", "backfill", "preempt", "reclaim", "gangpreempt"}),
}


def make(seed: int, name: str = "") -> dict:
    """The case of a seed: with the plugin of that name, or one by the seed."""
    random = Random(f"addition {seed}")
    name = name or random.choice(list(ADDITIONS))
    add, actions = ADDITIONS[name]
    while True:
        case = generator.make(random.getrandbits(40))
        if actions & set(case["profile"]["actions"]) and add(random, case) is not False:
            return case | {"id": f"{name}-{seed}"}
