"""Hypernodes: domains of the network in tiers, as masks and arrays over the rows of nodes. Lower tiers are closer together.

Also the limits that the topology of a job sets: its highest allowed tier, and the hypernode of its allocated pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final

import numpy as np
import numpy.typing as npt

from pyroclast.api import keys, records
from pyroclast.api.enums import NetworkTopologyMode
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Rows
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import ALLOCATED, Task

TOP: Final = "<cluster-top-hypernode>"


@dataclass(frozen=True, slots=True, eq=False)
class HyperNode:
    """One domain of the network. `parent`: empty only for the root. `nodes`: a mask of those below it, at any depth."""

    name: str
    tier: int
    nodes: Bools
    parent: str = ""
    children: tuple[str, ...] = ()


class HyperNodes(Mapping[str, HyperNode]):
    """All hypernodes by name, with a root above the hypernodes without a parent.

    The root contains all nodes and is one tier above all other hypernodes.

    `tier_names`: the numbers of tiers by name. `is_ready`: False while the HyperNode objects contradict each other. Jobs that
    require a network topology wait while it is False.
    """

    def __init__(
        self,
        nodes: int,
        found: Iterable[HyperNode] = (),
        *,
        tier_names: Mapping[str, int] | None = None,
        is_ready: bool = True,
    ) -> None:
        listed = {each.name: each for each in found}
        roots = [each for each in listed.values() if each.parent not in listed]
        tier = max((each.tier for each in listed.values()), default=0) + 1
        everything = np.ones(nodes, dtype=np.bool_)
        self.top = HyperNode(TOP, max(tier, 1), everything, children=tuple(sorted(each.name for each in roots)))
        for each in roots:
            listed[each.name] = HyperNode(each.name, each.tier, each.nodes, TOP, each.children)
        self._all: dict[str, HyperNode] = listed | {TOP: self.top}
        self._codes: dict[int, npt.NDArray[np.int32]] = {}
        self._rows: dict[str, Rows] = {}
        self.tier_names = dict(tier_names or {})
        self.is_ready = is_ready

    def __getitem__(self, name: str) -> HyperNode:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @cached_property
    def tiers(self) -> list[int]:
        """The tiers that occur, lowest first. Callers must not change the list."""
        return sorted(self._by_tier)

    def of_tier(self, tier: int) -> list[HyperNode]:
        """Return the hypernodes of one tier, sorted by name. The caller must not change the list."""
        return self._by_tier.get(tier, [])

    @cached_property
    def _by_tier(self) -> dict[int, list[HyperNode]]:
        found: dict[int, list[HyperNode]] = {}
        for _, each in sorted(self._all.items()):
            found.setdefault(each.tier, []).append(each)
        return found

    def rows(self, name: str) -> Rows:
        """Return the rows of the nodes below a hypernode. The caller must not change the array."""
        found = self._rows.get(name)
        if found is None:
            found = self._rows[name] = np.flatnonzero(self._all[name].nodes)
        return found

    @cached_property
    def lowest_groups(self) -> dict[str, Rows]:
        """The rows of nodes by the lowest hypernode that contains each node. Callers must not change the arrays."""
        left = np.ones(len(self.top.nodes), dtype=np.bool_)
        found: dict[str, Rows] = {}
        for tier in self.tiers:
            whole = [(each.name, self.rows(each.name)) for each in self.of_tier(tier)]
            found.update((name, rows[left[rows]]) for name, rows in whole)
            for _, rows in whole:
                left[rows] = False
        return found

    def codes(self, tier: int) -> npt.NDArray[np.int32]:
        """Return for each node the position of its hypernode in `of_tier(tier)`, −1 for none. Callers must not change it."""
        column = self._codes.get(tier)
        if column is None:
            column = self._codes[tier] = np.full(len(self.top.nodes), -1, dtype=np.int32)
            for code, each in enumerate(self.of_tier(tier)):
                column[each.nodes] = code
        return column

    def ancestors(self, name: str) -> list[HyperNode]:
        """Return the hypernode `name` and its ancestors, up to the root; empty if the hypernode does not exist."""
        found: list[HyperNode] = []
        each = self._all.get(name)
        while each is not None and each not in found:
            found.append(each)
            each = self._all.get(each.parent)
        return found

    def common(self, one: str, other: str) -> str:
        """Return the lowest hypernode that contains both, empty if there is none. If one name is empty, return the other."""
        if not one or not other:
            return one or other
        above = {each.name for each in self.ancestors(one)}
        return next((each.name for each in self.ancestors(other) if each.name in above), "")

    def lowest(self, row: int) -> str:
        """Return the hypernode of the lowest tier that contains the node at `row`."""
        return min((each for each in self._all.values() if each.nodes[row]), key=lambda each: (each.tier, each.name)).name


def has_topology(job: Job) -> bool:
    """Whether `job` or one of its subgroup policies declares a network topology."""
    spec = job.facts.group.spec
    return spec.network_topology is not None or any(policy.network_topology is not None for policy in spec.sub_group_policy)


def is_constrained(job: Job, hyper_nodes: HyperNodes) -> bool:
    """Whether `job` has sub-jobs or a limit on its network tier."""
    return job.is_divided or job_limit(job, hyper_nodes) is not None


def job_limit(job: Job, hyper_nodes: HyperNodes) -> int | None:
    """Return the highest tier that may contain all of `job`; None if the job declares none or names an unknown tier."""
    return _limit(job.facts.group.spec.network_topology, hyper_nodes)


def sub_job_limit(job: Job, sub_job: SubJob, hyper_nodes: HyperNodes) -> int | None:
    """Return the highest tier that may contain all of `sub_job`.

    Return None if the sub-job declares no topology or names an unknown tier. A soft topology has the limit of the job.
    """
    limit = _limit(sub_job.topology, hyper_nodes)
    if limit is None or sub_job.topology is None or sub_job.topology.mode is not NetworkTopologyMode.SOFT:
        return limit
    whole = job_limit(job, hyper_nodes)
    return limit if whole is None else min(limit, whole)


def locate(job: Job, hyper_nodes: HyperNodes) -> None:
    """Set `allocated_hyper_node` of `job` and of its sub-jobs to the hypernodes that contain the allocated pods."""
    for sub_job in job.sub_jobs.values():
        sub_job.allocated_hyper_node = _around(hyper_nodes, sub_job.tasks)
    noted = job.facts.group.metadata.annotations.get(keys.JOB_ALLOCATED_HYPER_NODE, "")
    known = noted if noted in hyper_nodes else ""
    parts = (sub_job.allocated_hyper_node for sub_job in job.sub_jobs.values())
    job.allocated_hyper_node = reduce(hyper_nodes.common, parts, known)


def _around(hyper_nodes: HyperNodes, tasks: Iterable[Task]) -> str:
    """Return the lowest hypernode that contains all allocated tasks of `tasks`."""
    rows = {task.row for task in tasks if task.status in ALLOCATED and task.row >= 0}
    return reduce(hyper_nodes.common, (hyper_nodes.lowest(row) for row in sorted(rows)), "")


def _limit(topology: records.NetworkTopology | None, hyper_nodes: HyperNodes) -> int | None:
    if topology is None:
        return None
    if topology.mode is NetworkTopologyMode.SOFT:
        return hyper_nodes.top.tier
    if topology.highest_tier_allowed is not None:
        return topology.highest_tier_allowed
    return hyper_nodes.tier_names.get(topology.highest_tier_name)
