"""Plugin nodegroup: queues use or avoid groups of nodes, with a limit of resources per group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from pyroclast.api import keys, records
from pyroclast_scheduler.model.dimensions import Amounts, Ints, amounts_of
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.queues import QueueFacts
from pyroclast_scheduler.model.tasks import ALLOCATED, Task
from pyroclast_scheduler.model.triggers import Neighbours, QueueUse, Trigger
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move

_ROOT: Final = "root"
_NO_LABEL: Final = "node group label not found"
_NO_WISHES: Final = "node group affinity not specified"
_UNWANTED: Final = "node does not satisfy the node group affinity"
_BAD_LIMITS: Final = "node group resource limit annotation invalid"
_EXCEEDED: Final = "node group resource limit exceeded"
_REQUIRED: Final = 100.0
_PREFERRED: Final = 50.0
_AVOIDED: Final = -1.0
_TOLERANCE: Final = 0.1
_Limits = Mapping[str, Amounts]


@dataclass(frozen=True, slots=True)
class Wishes:
    """The node groups that a queue requires or prefers, which differ only in the score, and those that it excludes or avoids."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the queue names no groups."""
        return not (self.required or self.preferred or self.anti_required or self.anti_preferred)

    def accepts(self, group: str) -> bool:
        """Whether pods may be placed in the group. An avoided (anti-preferred) group is open, even if it is also excluded."""
        wanted = group in self.required or group in self.preferred
        return group in self.anti_preferred or (wanted and group not in self.anti_required)

    def score(self, group: str, *, is_ordered: bool) -> float:
        """Return the score of a node group for this queue. `is_ordered`: whether earlier preferred groups get a higher score."""
        if group in self.anti_preferred:
            return _AVOIDED
        total = _REQUIRED if group in self.required else 0.0
        if group in self.preferred:
            count = len(self.preferred)
            total += _PREFERRED * (count - self.preferred.index(group)) / count if is_ordered else _PREFERRED
        return total


class NodeGroup:
    """Arguments: `strict` (true: nodes without the label accept no pods), `enablePreferredOrder` (false).

    With the flag `enableHierarchy`, a queue without group affinity uses that of its nearest ancestor which has one.
    """

    def __init__(self, arguments: Arguments) -> None:
        self._is_strict = arguments.boolean("strict", default=True)
        self._is_ordered = arguments.boolean("enablePreferredOrder", default=False)
        self._inherits = arguments.is_on("enableHierarchy")

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        queues = {name: queue.facts for name, queue in session.queues.items()}
        wishes = {name: wishes_of(name, queues, inherits=self._inherits) for name in queues}
        limits = {name: _limits_of(facts) for name, facts in queues.items()}
        groups = session.features.label(keys.NODE_GROUP_NAME)
        is_bare = groups.where(lambda group: not group)
        taken = _Taken(session, {name: found for name, found in limits.items() if found})

        def refusals(job: Job) -> list[Refusal]:
            queue = job.facts.queue
            if limits.get(queue) is None:
                return [_refusal(np.ones_like(is_bare), _BAD_LIMITS)]
            said = wishes[queue]
            if said.is_empty:
                return [_refusal(is_bare & self._is_strict, _NO_LABEL), _refusal(~is_bare, _NO_WISHES)]
            unwanted = groups.where(lambda group: bool(group) and not said.accepts(group or ""))
            return [_refusal(is_bare, _NO_LABEL), _refusal(unwanted, _UNWANTED)]

        def scores(job: Job, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
            del task, plan, candidates
            said = wishes[job.facts.queue]
            if said.is_empty:
                return None
            return groups.map(lambda group: said.score(group, is_ordered=self._is_ordered) if group else 0.0)

        return Extensions(
            job_predicate=refusals,
            coupled_predicate=taken.refusals if taken.queues else None,
            retry_when=taken.retry_when,
            batch_node_order=scores,
            moved=taken.moved if taken.queues else None,
        )


class _Taken:
    """The amounts that queues with limits use of each group, as vectors by queue and group."""

    def __init__(self, session: PluginSession, limits: Mapping[str, _Limits]) -> None:
        self.queues = limits
        self._session = session
        self._groups = session.features.label(keys.NODE_GROUP_NAME)
        self._taken: dict[tuple[str, str], Ints] = {}
        for job in session.all_jobs().values() if limits else ():
            if job.facts.queue in limits and job.allocated.any():
                for task in job.tasks:
                    if task.status in ALLOCATED and task.row >= 0:
                        self._add(job.facts.queue, task.row, session.dimensions.vector(task.facts.shape.request))

    def moved(self, move: Move, sign: int) -> None:
        if move.job.facts.queue in self.queues:
            each = sign * move.change // len(move.tasks)
            for row, count in zip(move.nodes.tolist(), move.counts.tolist(), strict=True):
                self._add(move.job.facts.queue, row, each * count)

    def refusals(self, task: Task, plan: PlacementPlan) -> list[Refusal] | None:
        queue = self._session.snapshot.all_jobs[task.facts.job].queue
        limits = self.queues.get(queue)
        if not limits:
            return None
        full = {group for group, limit in limits.items() if self._exceeds(queue, group, limit, plan.request)}
        return [_refusal(self._groups.where(lambda group: group in full), _EXCEEDED)]

    def retry_when(self, task: Task, plan: PlacementPlan) -> Collection[Trigger]:
        """Return the triggers: the use of the queue, and changes of nodes, which may move to other groups."""
        del plan
        queue = self._session.snapshot.all_jobs[task.facts.job].queue
        return (QueueUse(queue), Neighbours()) if self.queues.get(queue) else ()

    def _exceeds(self, queue: str, group: str, limit: Amounts, request: Ints) -> bool:
        taken = self._taken.get((queue, group), np.zeros_like(request))
        rows = ((self._session.dimensions.find(name), most) for name, most in limit.items())
        return any(row is not None and taken[row] + request[row] - most >= _TOLERANCE for row, most in rows)

    def _add(self, queue: str, row: int, amount: Ints) -> None:
        group = self._groups.values[self._groups.codes[row]]
        if group:
            self._taken[queue, group] = self._taken.get((queue, group), np.zeros_like(amount)) + amount


def wishes_of(name: str, queues: Mapping[str, QueueFacts], *, inherits: bool) -> Wishes:
    """Return the group affinity of queue `name`, or if it has none and `inherits`, that of its nearest ancestor."""
    seen: set[str] = set()
    while name in queues and name not in seen:
        seen.add(name)
        affinity = queues[name].record.spec.affinity
        if affinity is not None:
            for_groups = affinity.node_group_affinity or records.NodeGroupTerms()
            against = affinity.node_group_anti_affinity or records.NodeGroupTerms()
            return Wishes(
                for_groups.required_during_scheduling_ignored_during_execution,
                for_groups.preferred_during_scheduling_ignored_during_execution,
                against.required_during_scheduling_ignored_during_execution,
                against.preferred_during_scheduling_ignored_during_execution,
            )
        if not inherits:
            break
        name = queues[name].parent or _ROOT
    return Wishes()


def _limits_of(queue: QueueFacts) -> _Limits | None:
    text = queue.record.metadata.annotations.get(keys.NODE_GROUP_RESOURCE_LIMITS, "")
    if not text:
        return {}
    try:
        found = msgspec.json.decode(text, type=dict[str, dict[str, str]])
        return {group: amounts_of(resources) for group, resources in found.items()}
    except (msgspec.DecodeError, ValueError):
        return None


def _refusal(nodes: Bools, reason: str) -> Refusal:
    return Refusal(nodes, reason, Code.UNRESOLVABLE)
