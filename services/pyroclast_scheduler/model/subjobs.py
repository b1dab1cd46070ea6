"""Sub-jobs: groups of tasks of one job, each with its own minimum, by the parts of the group or its subgroup policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyroclast.api import records
from pyroclast.lifecycle.gang.groups import Group
from pyroclast.resources.selectors import matches
from pyroclast_scheduler.model.resource_sums import Tally
from pyroclast_scheduler.model.tasks import Task, TaskStatus

_LONGEST_VALUES: Final = 128  # characters; longer values are hashed
_SAFE: Final = "456789bcdf"  # the characters by which Kubernetes encodes the digits 0 to 9 in names


@dataclass(slots=True, eq=False)
class SubJob:
    """A group of tasks of one job that is ready or not by itself, in a session.

    Attributes:
        group: a name that all sub-jobs of one policy share, by which they are counted.
        min_available: how many tasks must be allocated before the sub-job is ready.
        topology: the network topology that the sub-job requires; None if none.
        match_index: the value of the first label key if it is a number, else 0.
        allocated_hyper_node: the lowest hypernode that contains the allocated tasks; empty if none is allocated.
        nominated_hyper_node: the hypernode in which pods are evicted for the sub-job; empty if there is none.
    """

    uid: str
    group: str
    min_available: int
    topology: records.NetworkTopology | None = None
    match_index: int = 0
    tasks: list[Task] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    allocated_hyper_node: str = ""
    nominated_hyper_node: str = ""

    @property
    def priority(self) -> int:
        """The highest priority of the tasks, at least 0."""
        return max(0, *(task.facts.priority for task in self.tasks))

    @property
    def is_ready(self) -> bool:
        """Whether enough tasks are allocated."""
        return self.tally.ready + self.tally.pending_best_effort >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        """Whether `is_ready` would be true if the pipelined tasks were allocated."""
        waiting = self.tally[TaskStatus.PIPELINED]
        return waiting + self.tally.ready + self.tally.pending_best_effort >= self.min_available


def divide(job: str, group: Group, tasks: Iterable[Task]) -> dict[str, SubJob]:
    """Return the sub-jobs of a job by UID. A job without parts and subgroup policies has one with all its tasks."""
    spec = group.spec
    least_of = {} if spec.tree is None else {path[-1].name: path[-1].minimum for path in spec.tree.paths()}
    found: dict[str, SubJob] = {}
    for task in tasks:
        part, made = task.facts.part, _captured(job, spec.sub_group_policy, task.facts.pod.metadata.labels)
        if part in least_of:
            made = SubJob(sub_job_uid(job, part), job, least_of[part])
        if made is None:
            least = 1 if spec.sub_group_policy else spec.min_member
            made = SubJob(job, job, least, spec.network_topology)
        own = found.setdefault(made.uid, made)
        own.tasks.append(task)
        own.tally.add(task.facts.role, task.status, is_best_effort=task.facts.shape.is_best_effort)
    return found


def sub_job_uid(job: str, part: str) -> str:
    """Return the UID of the sub-job for the part `part` of a group."""
    return f"{job}/{part}"


def _captured(job: str, policies: Sequence[records.SubGroupPolicy], labels: Mapping[str, str]) -> SubJob | None:
    """Return an empty sub-job of the first policy that matches a pod with these labels; None if none matches.

    A policy without label keys matches no pod. A label with an empty value counts as missing.
    """
    for policy in policies:
        values = [labels.get(key, "") for key in policy.match_label_keys]
        if not values or not all(values) or (policy.label_selector is not None and not matches(policy.label_selector, labels)):
            continue
        of_policy = f"{job}/{policy.name}"
        index = int(values[0]) if values[0].isdecimal() else 0
        uid = f"{of_policy}-{_joined(values)}"
        return SubJob(uid, of_policy, policy.sub_group_size or 1, policy.network_topology, index)
    return None


def _joined(values: Sequence[str]) -> str:
    text = "-".join(values)
    if len(text) <= _LONGEST_VALUES:
        return text
    digest = 2166136261
    for byte in text.encode():
        digest = (digest ^ byte) * 16777619 % 2**32
    return "".join(_SAFE[int(digit)] for digit in str(digest))
