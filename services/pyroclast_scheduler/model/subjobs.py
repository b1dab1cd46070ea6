"""Sub-jobs: the parts of a gang, each with a minimum of its own: those of its tree, or those that its subgroup policies make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyroclast.api import records
from pyroclast.resources.selectors import matches
from pyroclast_scheduler.model.groups import Group
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.task_counts import Tally
from pyroclast_scheduler.model.tasks import Task

__all__ = ["SubJob", "divide", "sub_job_uid"]

_LONGEST_VALUES: Final = 128  # characters; longer ones are hashed
_SAFE: Final = "456789bcdf"  # the digits 0 to 9 as Kubernetes writes them in names


@dataclass(slots=True, eq=False)
class SubJob:
    """A part of a job in a session.

    `group`: what the sub-jobs of one policy have in common, by which their number is counted. `match_index`: the value of the
    first label key if it is a number, else 0. `allocated_hyper_node`, `nominated_hyper_node`: where in the network it is, and
    where room is being made for it; empty if nowhere.
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
        """The highest priority of its tasks, at least 0."""
        return max(0, *(task.facts.priority for task in self.tasks))

    @property
    def is_ready(self) -> bool:
        """Whether enough tasks have their place."""
        return self.tally.ready + self.tally.pending_best_effort >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        """As `is_ready`, counting promised places too."""
        waiting = self.tally[TaskStatus.PIPELINED]
        return waiting + self.tally.ready + self.tally.pending_best_effort >= self.min_available


def divide(job: str, group: Group, tasks: Iterable[Task]) -> dict[str, SubJob]:
    """The sub-jobs of the job of key `job` by UID; a job without parts and subgroup policies has one, itself."""
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
    """The UID of the sub-job that is that part of a tree."""
    return f"{job}/{part}"


def _captured(job: str, policies: Sequence[records.SubGroupPolicy], labels: Mapping[str, str]) -> SubJob | None:
    """An empty sub-job of the first policy that takes a pod of those labels; None if none does.

    A policy without label keys takes none, and a key without a value is one that the pod lacks.
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
