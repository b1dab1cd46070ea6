"""What if: the starts of all waiting jobs after a change of the cluster, a queue or one Job, beside the starts without it.

Both come from the same scenarios with the same random numbers, so that only the change makes a difference. Nothing is written.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from pyroclast.api.waiting_reasons import PendingReason as Code
from pyroclast.resources.vectors import stored_amount
from pyroclast_scheduler.explaining.annotations import Start
from pyroclast_scheduler.explaining.calibration import Interval
from pyroclast_scheduler.explaining.estimates import Pass
from pyroclast_scheduler.explaining.simulation import World
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.snapshot import ItemKind, Snapshot, SnapshotItem, SnapshotPart

MOST_JOBS: Final = 300
MOST_NAMES: Final = 64
"""The largest number of resources, and of drained nodes, in a question."""
MOST_PODS: Final = 20_000
HOPEFUL: Final = frozenset(
    {Code.ABOVE_QUEUE_LIMIT, Code.ABOVE_CLUSTER, Code.TOO_FEW_NODES, Code.NODES_REFUSE, Code.NO_NODE_READY}
)
"""Codes that more room or a higher limit may end, besides those that wait for room."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A change: `added` amounts of the cluster, a new `limit` of a queue, `drained` nodes, and another number of `pods` of a Job.

    `namespace`, `name`: the Job, empty for none. Amounts are in stored units. An amount in `added` may be negative.
    """

    added: Amounts = field(default_factory=dict)
    queue: str = ""
    limit: Amounts = field(default_factory=dict)
    drained: tuple[str, ...] = ()
    namespace: str = ""
    name: str = ""
    pods: int = 0


class Compared(NamedTuple):
    """The start of a waiting job `before` and `after` a change, or why it is not known, and `earlier`, `later` or `same`."""

    key: str
    before: Start | str
    after: Start | str
    effect: str


def read_what_if(body: Mapping[str, Any], snapshot: Snapshot) -> WhatIf:
    """Return the change in the body of a request. ValueError: it is invalid, or names a queue or node that does not exist."""
    if unknown := sorted(set(body) - {"add", "queue", "capability", "drain", "job", "pods"}):
        raise ValueError(f'there is no "{str(unknown[0])[:64]}"; there are add, capability, drain, job, pods and queue')
    queue, drained = str(body.get("queue") or ""), body.get("drain") or []
    job, pods = body.get("job") or {}, body.get("pods") or 0
    if not isinstance(drained, list) or len(drained) > MOST_NAMES or not isinstance(job, dict):
        raise ValueError(f"drain is a list of at most {MOST_NAMES} nodes, and job has a namespace and a name")
    if gone := next((each for each in drained if not isinstance(each, str) or each not in snapshot.rows), None):
        raise ValueError(f'there is no node "{str(gone)[:64]}"')
    if queue and queue not in snapshot.queues:
        raise ValueError(f'there is no queue "{queue[:64]}"')
    if not isinstance(pods, int) or not 0 <= pods <= MOST_PODS or (pods and not job.get("name")):
        raise ValueError(f"pods is a number from 1 to {MOST_PODS}, of the Job that job names")
    limit = _amounts("capability", body.get("capability"))
    if bool(queue) != bool(limit):
        raise ValueError("queue and capability belong together: the capability of which queue?")
    added = _amounts("add", body.get("add"))
    namespace, name = str(job.get("namespace") or ""), str(job.get("name") or "")
    return WhatIf(added, queue, limit, tuple(dict.fromkeys(drained)), namespace, name, pods)


def _amounts(name: str, given: Any) -> dict[str, int]:  # noqa: ANN401 - JSON of a user
    if given is None:
        return {}
    if not isinstance(given, dict) or len(given) > MOST_NAMES or not all(isinstance(each, str | int) for each in given.values()):
        raise ValueError(f"{name} has quantities by resource, at most {MOST_NAMES}")
    return {str(resource): stored_amount(str(resource), value) for resource, value in given.items()}


def changed_snapshot(snapshot: Snapshot, what: WhatIf) -> Snapshot:
    """Return the cluster with the new limit and without the drained nodes. Added amounts are on no node, so they are missing."""
    if what.queue:
        queue = copy.copy(snapshot.queues[what.queue])
        queue.capability = {**(queue.capability or {}), **what.limit}
        snapshot = replace(snapshot, queues={**snapshot.queues, what.queue: queue})
    if what.drained:
        snapshot = SnapshotPart(snapshot).without([SnapshotItem(ItemKind.NODE, name) for name in what.drained]).made()
    return snapshot


def changed_pass(before: Pass, snapshot: Snapshot, what: WhatIf, asked: Mapping[str, Floats], waits: str = "") -> Pass:
    """Return the pass after the change, with nothing simulated. `asked`: the new requests of jobs, by key. `waits`: the
    key of a job of which a trial found that it does not start at once.

    Pods on drained nodes need as much room elsewhere. What the change lets start at once, by sums and not by nodes, has started.
    """
    world, dimensions = before.world, snapshot.dimensions
    free = world.free + dimensions.sums(what.added)
    for name in what.drained:
        row = snapshot.rows[name]
        free = free - snapshot.columns.allocatable[:, row] * float(snapshot.is_ready[row])
    limits = world.limits.copy()
    if what.queue:
        for resource, amount in what.limit.items():
            if (column := dimensions.find(resource)) is not None and column < limits.shape[1]:
                limits[list(snapshot.queues).index(what.queue), column] = amount
    rows = [asked.get(key, world.asked[at]) for at, key in enumerate(world.keys)]
    requests = np.array(rows, dtype=np.float64).reshape(world.asked.shape)
    changed = replace(world, free=free, limits=limits, asked=requests)
    now = [at for at in range(len(world.keys)) if world.keys[at] != waits and _fits(changed, at) and not _fits(world, at)]
    started, rest = _with_started(changed, now)
    found = {**before.found, **dict.fromkeys((world.keys[at] for at in started), Interval(0.0, 0.0, 0.0))}
    found = {key: found[key] for key in found if key not in rest.keys}
    return replace(before, world=rest, found=found, _drawn=[])


def _fits(world: World, job: int) -> bool:
    """Whether a waiting job fits into the sums at the beginning."""
    asked, chain = world.asked[job], world.waiting_chains[job]
    return bool((asked <= world.free).all() and (world.used[chain] + asked <= world.limits[chain]).all())


def _with_started(world: World, jobs: Sequence[int]) -> tuple[list[int], World]:
    """Return the jobs of `jobs` that start at once, in their order, and the state after that."""
    world = replace(world, free=world.free.copy(), used=world.used.copy())
    started = []
    for job in jobs:
        if _fits(world, job):
            started.append(job)
            world.free[:] -= world.asked[job]
            np.add.at(world.used, np.unique(world.waiting_chains[job]), world.asked[job])
    waits = np.setdiff1d(np.arange(len(world.keys)), started)
    return started, replace(
        world,
        ends=np.concatenate([world.ends, world.lengths[started]]),
        held=np.concatenate([world.held, world.asked[started]]),
        chains=np.concatenate([world.chains, world.waiting_chains[started]]),
        running=np.concatenate([world.running, world.waiting[started]]),
        asked=world.asked[waits],
        lengths=world.lengths[waits],
        waiting_chains=world.waiting_chains[waits],
        keys=[world.keys[at] for at in waits.tolist()],
        waiting=world.waiting[waits],
    )


def effect_of(before: Interval | str | None, after: Interval | str | None) -> str:
    """Return `earlier`, `later` or `same` for the likely start of one job without and with the change."""
    was = before.likely if isinstance(before, Interval) else float("inf")
    now = after.likely if isinstance(after, Interval) else float("inf")
    return "same" if was == now or abs(was - now) < 1.0 else "earlier" if now < was else "later"
