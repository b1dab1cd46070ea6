"""A job inside a session: what may change while it decides. The facts below it are shared and never change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.model.causes import Cause
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.group_tree import GroupPart
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.reasons import FitErrors
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.subjobs import SubJob, divide, sub_job_uid
from pyroclast_scheduler.model.task_counts import Tally
from pyroclast_scheduler.model.tasks import Task, TaskFacts

__all__ = ["Condition", "Job"]


class Condition(NamedTuple):
    """A condition that holds now: type, reason and message."""

    type: str
    reason: str
    message: str = ""


class Job:
    """A PodGroup in a session.

    `fit_errors`: by UID of the task, why it fits nowhere; `failed_roles`: the roles of those tasks. `conditions`: by type, what
    this session says of the job. `cause`: why it was not let in, if it was not. `is_limited`: a quota kept tasks from being
    tried. `objection`: why a plugin had a place of it taken back, empty if none had. `allocated_hyper_node`: the part of the
    network that holds all of it, empty if none is known.
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
        """The sum of the requests of its tasks that have their place."""
        if self._allocated is None:
            self._allocated = self.facts.allocated(self._dimensions)
        return self._allocated

    @allocated.setter
    def allocated(self, amount: Floats) -> None:
        self._allocated = amount

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks; made when first asked for, since most jobs are not touched in most sessions."""
        if self._tasks is None:
            if self._made:
                self._tasks = [self.task(facts) for facts in self.facts.tasks]
            else:
                self._tasks = [Task(facts, self._rows.get(facts.node, -1) if facts.node else -1) for facts in self.facts.tasks]
        return self._tasks

    def task(self, facts: TaskFacts) -> Task:
        """One task of it, without making the others."""
        if self._tasks is not None and not self._made:
            self._made = {task.uid: task for task in self._tasks}
        task = self._made.get(facts.uid)
        if task is None:
            task = self._made[facts.uid] = Task(facts, self._rows.get(facts.node, -1) if facts.node else -1)
        return task

    @property
    def is_divided(self) -> bool:
        """Whether it has parts, or subgroup policies divide it."""
        return bool(self.facts.group.spec.sub_group_policy) or self.facts.group.spec.tree is not None

    @property
    def sub_jobs(self) -> Mapping[str, SubJob]:
        """Its sub-jobs by UID; without parts and subgroup policies one, that has all tasks."""
        if self._sub_jobs is None:
            self._sub_jobs = divide(self.facts.key, self.facts.group, self.tasks)
            self._sub_job_of = {task.uid: each for each in self._sub_jobs.values() for task in each.tasks}
        return self._sub_jobs

    def sub_job_of(self, task: Task) -> SubJob:
        """The sub-job that `task` belongs to."""
        self.sub_jobs  # noqa: B018 - divides it
        return self._sub_job_of[task.uid]

    def path(self, part: str) -> tuple[GroupPart, ...]:
        """The parts that the part of that name belongs to, the whole first and itself last; nothing where there are no parts."""
        tree = self.facts.group.spec.tree
        if self._paths is None:
            self._paths = {} if tree is None else {path[-1].name: path for path in tree.paths()}
        return self._paths.get(part, ())

    def is_part_ready(self, part: GroupPart, *, pipelined: bool = False) -> bool:
        """Whether enough of `part` has a place, with the promised ones on demand."""

        def test(name: str) -> bool:
            found = self.sub_jobs.get(sub_job_uid(self.facts.key, name))
            return found is not None and (found.is_pipelined if pipelined else found.is_ready)

        return part.is_ready(test)

    def _is_tree_ready(self, *, pipelined: bool = False) -> bool:
        tree = self.facts.group.spec.tree
        return tree is None or self.is_part_ready(tree, pipelined=pipelined)

    def fail(self, task: Task, errors: FitErrors) -> None:
        """Note why `task` fits nowhere."""
        self.fit_errors[task.uid] = errors
        self.failed_roles.add(task.facts.role)

    @property
    def was_touched(self) -> bool:
        """Whether a task of it was moved in this session, also if that was undone."""
        return self._tally_is_own

    @property
    def is_changed(self) -> bool:
        """Whether tasks stand elsewhere than when the session began."""
        return self._tally_is_own and self.tally.counts != self.facts.tally.counts

    @property
    def is_pending(self) -> bool:
        """Whether it waits to be enqueued."""
        return self.phase is PodGroupPhase.PENDING

    @property
    def is_ready(self) -> bool:
        """Whether enough tasks have their place, counting the minimum of the job and of its parts only."""
        return self.tally.ready + self.tally.pending_best_effort >= self.facts.min_available and self._is_tree_ready()

    @property
    def is_pipelined(self) -> bool:
        """As `is_ready`, counting promised places too."""
        waiting = self.tally[TaskStatus.PIPELINED]
        has_enough = waiting + self.tally.ready + self.tally.pending_best_effort >= self.facts.min_available
        return has_enough and self._is_tree_ready(pipelined=True)

    @property
    def is_starving(self) -> bool:
        """Whether places are still missing; tasks that ask for nothing do not count."""
        has_enough = self.tally[TaskStatus.PIPELINED] + self.tally.ready >= self.facts.min_available
        return not (has_enough and self._is_tree_ready(pipelined=True))

    @property
    def enforces_roles(self) -> bool:
        """Whether the role minimums count; they do not when they add up to more than the job's minimum."""
        roles = self.facts.role_minimum
        return bool(roles) and self.facts.min_available >= sum(roles.values())

    def are_roles_ready(self, *, pipelined: bool = False) -> bool:
        """Whether each role has its minimum of tasks with a place, with the promised ones on demand."""
        if not self.enforces_roles:
            return True
        return all(self.tally.role_ready(role, pipelined=pipelined) >= least for role, least in self.facts.role_minimum.items())

    @property
    def has_enough_sub_jobs(self) -> bool:
        """Whether there are as many sub-jobs of each policy as it wants at least."""
        return self._count_sub_jobs(lambda _: True)

    def are_sub_jobs_ready(self, *, pipelined: bool = False) -> bool:
        """Whether as many sub-jobs of each policy are ready as it wants at least, with promised places on demand."""
        return self._count_sub_jobs(lambda each: each.is_pipelined if pipelined else each.is_ready)

    def _count_sub_jobs(self, test: Callable[[SubJob], bool]) -> bool:
        policies = [policy for policy in self.facts.group.spec.sub_group_policy if policy.min_sub_groups > 0]
        if not policies:
            return True
        counts = Counter(each.group for each in self.sub_jobs.values() if test(each))
        return all(counts[f"{self.facts.key}/{policy.name}"] >= policy.min_sub_groups for policy in policies)

    def move(self, tasks: Sequence[Task], status: TaskStatus, rows: Sequence[int]) -> None:
        """Put each of `tasks` into `status` on its node of `rows`, and keep the tally."""
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
        """Reason and message of the pod's condition PodScheduled=False; an empty message stands for the job's own text."""
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
        """The job's summary: how many tasks stand where, why the pending ones wait, and which task could not be placed."""
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
