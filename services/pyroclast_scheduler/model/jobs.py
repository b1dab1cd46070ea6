"""A job in a session: the state that the session changes. The facts of the job are immutable and shared by all sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pyroclast.api.enums import PodGroupPhase
from pyroclast.lifecycle.gang.groups import GroupPart
from pyroclast_scheduler.model.causes import Cause
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.fit_errors import FitErrors
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.resource_sums import Tally
from pyroclast_scheduler.model.subjobs import SubJob, divide, sub_job_uid
from pyroclast_scheduler.model.tasks import Task, TaskFacts, TaskStatus


class Condition(NamedTuple):
    """A condition that is true in this session: type, reason and message."""

    type: str
    reason: str
    message: str = ""


class Job:
    """A PodGroup in a session.

    Attributes:
        fit_errors: why no node is feasible for a task, by UID of the task.
        failed_roles: the roles of the tasks in `fit_errors`.
        conditions: the conditions of the job in this session, by type.
        cause: why the job was not enqueued; None if the job was enqueued or not examined.
        is_limited: whether a quota kept the session from trying tasks of the job.
        objection: why a plugin undid a placement of the job; empty if no plugin did.
        allocated_hyper_node: the lowest hypernode that contains all allocated tasks; empty if none is known.
    """

    __slots__ = (
        "_allocated",
        "_dimensions",
        "_made",
        "_paths",
        "_rows",
        "_sub_job_of",
        "_sub_jobs",
        "_tally_is_own",
        "_tasks",
        "allocated_hyper_node",
        "cause",
        "conditions",
        "facts",
        "failed_roles",
        "fit_errors",
        "is_limited",
        "objection",
        "phase",
        "tally",
    )

    def __init__(self, facts: JobFacts, dimensions: Dimensions, rows: dict[str, int]) -> None:
        self.facts = facts
        self.phase = facts.group.status.phase
        self.tally: Tally = facts.tally
        self._dimensions = dimensions
        self._allocated: Floats | None = None
        self.fit_errors: dict[str, FitErrors] = {}
        self.failed_roles: set[str] = set()
        self.conditions: dict[str, Condition] = {}
        self._tally_is_own = False
        self._tasks: Sequence[Task] | None = None
        self._sub_jobs: dict[str, SubJob] | None = None
        self._sub_job_of: dict[str, SubJob] = {}
        self._made: dict[str, Task] = {}
        self._paths: dict[str, tuple[GroupPart, ...]] | None = None
        self.allocated_hyper_node = ""
        self.is_limited = False
        self.objection = ""
        self.cause: Cause | None = None
        self._rows = rows

    def __repr__(self) -> str:
        return f"<Job {self.facts.key} {self.phase}>"

    @property
    def allocated(self) -> Floats:
        """The sum of the requests of the allocated tasks."""
        if self._allocated is None:
            self._allocated = self.facts.allocated(self._dimensions)
        return self._allocated

    @allocated.setter
    def allocated(self, amount: Floats) -> None:
        self._allocated = amount

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks of the job, created on first use, since most sessions do not touch most jobs."""
        if self._tasks is None:
            if self._made:
                self._tasks = [self.task(facts) for facts in self.facts.tasks]
            else:
                self._tasks = [Task(facts, self._rows.get(facts.node, -1) if facts.node else -1) for facts in self.facts.tasks]
        return self._tasks

    def task(self, facts: TaskFacts) -> Task:
        """Return the task of these facts without creating the other tasks."""
        if self._tasks is not None and not self._made:
            self._made = {task.uid: task for task in self._tasks}
        task = self._made.get(facts.uid)
        if task is None:
            task = self._made[facts.uid] = Task(facts, self._rows.get(facts.node, -1) if facts.node else -1)
        return task

    @property
    def is_divided(self) -> bool:
        """Whether the job has a tree of parts or subgroup policies."""
        return bool(self.facts.group.spec.sub_group_policy) or self.facts.group.spec.tree is not None

    @property
    def sub_jobs(self) -> Mapping[str, SubJob]:
        """The sub-jobs by UID. A job without parts and subgroup policies has one sub-job with all tasks."""
        if self._sub_jobs is None:
            self._sub_jobs = divide(self.facts.key, self.facts.group, self.tasks)
            self._sub_job_of = {task.uid: each for each in self._sub_jobs.values() for task in each.tasks}
        return self._sub_jobs

    def sub_job_of(self, task: Task) -> SubJob:
        """Return the sub-job that contains `task`."""
        self.sub_jobs  # noqa: B018 - creates the sub-jobs
        return self._sub_job_of[task.uid]

    def path(self, part: str) -> tuple[GroupPart, ...]:
        """Return the path from the root of the tree to the part named `part`; empty if there is no such part."""
        tree = self.facts.group.spec.tree
        if self._paths is None:
            self._paths = {} if tree is None else {path[-1].name: path for path in tree.paths()}
        return self._paths.get(part, ())

    def is_part_ready(self, part: GroupPart, *, pipelined: bool = False) -> bool:
        """Whether enough members of `part` are allocated. `pipelined`: pipelined members count too."""

        def test(name: str) -> bool:
            found = self.sub_jobs.get(sub_job_uid(self.facts.key, name))
            return found is not None and (found.is_pipelined if pipelined else found.is_ready)

        return part.is_ready(test)

    def _is_tree_ready(self, *, pipelined: bool = False) -> bool:
        tree = self.facts.group.spec.tree
        return tree is None or self.is_part_ready(tree, pipelined=pipelined)

    def fail(self, task: Task, errors: FitErrors) -> None:
        """Record why no node is feasible for `task`."""
        self.fit_errors[task.uid] = errors
        self.failed_roles.add(task.facts.role)

    @property
    def was_touched(self) -> bool:
        """Whether the session changed the status of a task, even if it undid the change."""
        return self._tally_is_own

    @property
    def is_changed(self) -> bool:
        """Whether the number of tasks per status differs from that at the start of the session."""
        return self._tally_is_own and self.tally.counts != self.facts.tally.counts

    @property
    def is_pending(self) -> bool:
        """Whether the job waits to be enqueued."""
        return self.phase is PodGroupPhase.PENDING

    @property
    def is_ready(self) -> bool:
        """Whether enough tasks are allocated for the minimum of the job and of its parts. Role minimums are not checked."""
        return self.tally.ready + self.tally.pending_best_effort >= self.facts.min_available and self._is_tree_ready()

    @property
    def is_pipelined(self) -> bool:
        """Whether `is_ready` would be true if the pipelined tasks were allocated."""
        waiting = self.tally[TaskStatus.PIPELINED]
        has_enough = waiting + self.tally.ready + self.tally.pending_best_effort >= self.facts.min_available
        return has_enough and self._is_tree_ready(pipelined=True)

    @property
    def is_starving(self) -> bool:
        """Whether the job lacks allocated or pipelined tasks. Tasks without requests do not count as allocated."""
        has_enough = self.tally[TaskStatus.PIPELINED] + self.tally.ready >= self.facts.min_available
        return not (has_enough and self._is_tree_ready(pipelined=True))

    @property
    def enforces_roles(self) -> bool:
        """Whether the role minimums are enforced: only if their sum is at most the minimum of the job."""
        roles = self.facts.role_minimum
        return bool(roles) and self.facts.min_available >= sum(roles.values())

    def are_roles_ready(self, *, pipelined: bool = False) -> bool:
        """Whether each role has its minimum of allocated tasks. `pipelined`: pipelined tasks count too."""
        if not self.enforces_roles:
            return True
        return all(self.tally.role_ready(role, pipelined=pipelined) >= least for role, least in self.facts.role_minimum.items())

    @property
    def has_enough_sub_jobs(self) -> bool:
        """Whether the job has the minimum number of sub-jobs of each subgroup policy."""
        return self._count_sub_jobs(lambda _: True)

    def are_sub_jobs_ready(self, *, pipelined: bool = False) -> bool:
        """Whether the minimum number of sub-jobs of each policy is ready. `pipelined`: pipelined tasks count too."""
        return self._count_sub_jobs(lambda each: each.is_pipelined if pipelined else each.is_ready)

    def _count_sub_jobs(self, test: Callable[[SubJob], bool]) -> bool:
        policies = [policy for policy in self.facts.group.spec.sub_group_policy if policy.min_sub_groups > 0]
        if not policies:
            return True
        counts = Counter(each.group for each in self.sub_jobs.values() if test(each))
        return all(counts[f"{self.facts.key}/{policy.name}"] >= policy.min_sub_groups for policy in policies)

    def move(self, tasks: Sequence[Task], status: TaskStatus, rows: Sequence[int]) -> None:
        """Set `status` and the node row of each of `tasks`, and update the tallies."""
        if not self._tally_is_own:
            self.tally = self.facts.tally.copy()
            self._tally_is_own = True
        kinds = Counter([(task.facts.role, task.status, task.facts.shape.is_best_effort) for task in tasks])
        for (role, before, is_best_effort), count in kinds.items():
            self.tally.add(role, before, is_best_effort=is_best_effort, count=-count)
            self.tally.add(role, status, is_best_effort=is_best_effort, count=count)
        if self._sub_jobs is not None:
            for task in tasks:
                tally, is_best_effort = self._sub_job_of[task.uid].tally, task.facts.shape.is_best_effort
                tally.add(task.facts.role, task.status, is_best_effort=is_best_effort, count=-1)
                tally.add(task.facts.role, status, is_best_effort=is_best_effort)
        for task, row in zip(tasks, rows, strict=True):
            task.status = status
            task.row = row

    def scheduling_reason(self, task: Task, names: Sequence[str]) -> tuple[str, str]:
        """Return reason and message for the condition PodScheduled=False of a pod.

        If the message is empty, the summary of the job (`fit_error`) is used.
        """
        status, row = task.last or (task.status, task.row)
        if status is TaskStatus.ALLOCATED:
            return "Schedulable", f"Pod {task.facts.key} can possibly be assigned to {names[row]}, once minAvailable is satisfied"
        if status is TaskStatus.PIPELINED:
            where = f"Pod {task.facts.key} can possibly be assigned to {names[row]}"
            return "Unschedulable", f"{where}, once resource is released and minAvailable is satisfied"
        if status is TaskStatus.PENDING:
            errors = self.fit_errors.get(task.uid)
            return "Unschedulable", "" if errors is None else str(errors)
        return status.label, ""

    def fit_error(self, names: Sequence[str]) -> str:
        """Return a summary of the job: the number of tasks per status, the reasons of pending tasks, and the first fit error."""
        ready = "pod group is ready" if self.is_ready else "pod group is not ready"
        parts = [*self.tally.histogram(), f"{self.facts.min_available} minAvailable"]
        text = f"{ready}, {', '.join(sorted(parts))}"
        waiting: dict[str, int] = {}
        if self.tally[TaskStatus.PENDING]:
            for task in self.tasks:
                if task.status is TaskStatus.PENDING:
                    reason, _ = self.scheduling_reason(task, names)
                    waiting[reason] = waiting.get(reason, 0) + 1
            text += f"; Pending: {', '.join(sorted(f'{count} {reason}' for reason, count in waiting.items()))}"
        for task in self.tasks if self.fit_errors else ():
            errors = self.fit_errors.get(task.uid)
            if errors is not None:
                return f"{text}. Origin reason is {task.facts.name}: {errors}"
        return text
