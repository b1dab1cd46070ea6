"""Jobs, tasks and queues inside a session: what may change while it decides. The facts below them are shared and never change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.framework.reasons import FitErrors
from pyroclast_scheduler.model.dimensions import Dimensions, Ints
from pyroclast_scheduler.model.jobs import JobFacts
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tallies import Tally
from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["Condition", "Job", "Task"]


class Condition(NamedTuple):
    """A condition that holds now: type, reason and message."""

    type: str
    reason: str
    message: str = ""


class Task:
    """A pod in a session. `row`: its node, −1 without one. `last`: status and row in the transaction that was last undone."""

    __slots__ = ("evicted_others", "facts", "last", "row", "status")

    def __init__(self, facts: TaskFacts, row: int) -> None:
        self.facts = facts
        self.status = facts.status
        self.row = row
        self.last: tuple[TaskStatus, int] | None = None
        self.evicted_others = False

    @property
    def uid(self) -> str:
        """UID of the pod."""
        return self.facts.uid

    def __repr__(self) -> str:
        return f"<Task {self.facts.key} {self.status.label}>"


class Job:
    """A PodGroup in a session.

    `fit_errors`: by UID of the task, why it fits nowhere; `failed_roles`: the roles of those tasks. `conditions`: by type, what
    this session says of the job.
    """

    __slots__ = (
        "_rows",
        "_tally_is_own",
        "_tasks",
        "allocated",
        "conditions",
        "facts",
        "failed_roles",
        "fit_errors",
        "phase",
        "tally",
    )

    def __init__(self, facts: JobFacts, dimensions: Dimensions, rows: dict[str, int]) -> None:
        self.facts = facts
        self.phase = facts.group.status.phase
        self.tally: Tally = facts.tally
        self.allocated: Ints = facts.allocated(dimensions)
        self.fit_errors: dict[str, FitErrors] = {}
        self.failed_roles: set[str] = set()
        self.conditions: dict[str, Condition] = {}
        self._tally_is_own = False
        self._tasks: Sequence[Task] | None = None
        self._rows = rows

    def __repr__(self) -> str:
        return f"<Job {self.facts.key} {self.phase}>"

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks; made when first asked for, since most jobs are not touched in most sessions."""
        if self._tasks is None:
            self._tasks = [Task(facts, self._rows.get(facts.node, -1) if facts.node else -1) for facts in self.facts.tasks]
        return self._tasks

    def fail(self, task: Task, errors: FitErrors) -> None:
        """Note why `task` fits nowhere."""
        self.fit_errors[task.uid] = errors
        self.failed_roles.add(task.facts.role)

    @property
    def was_touched(self) -> bool:
        """Whether a task of it was moved in this session, also if that was undone."""
        return self._tally_is_own

    @property
    def is_pending(self) -> bool:
        """Whether it waits to be enqueued."""
        return self.phase is PodGroupPhase.PENDING

    @property
    def is_ready(self) -> bool:
        """Whether enough tasks have their place, counting the job's minimum only."""
        return self.tally.ready + self.tally.pending_best_effort >= self.facts.min_available

    @property
    def is_pipelined(self) -> bool:
        """As `is_ready`, counting promised places too."""
        waiting = self.tally[TaskStatus.PIPELINED]
        return waiting + self.tally.ready + self.tally.pending_best_effort >= self.facts.min_available

    @property
    def is_starving(self) -> bool:
        """Whether places are still missing; tasks that ask for nothing do not count."""
        return self.tally[TaskStatus.PIPELINED] + self.tally.ready < self.facts.min_available

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

    def move(self, tasks: Sequence[Task], status: TaskStatus, rows: Sequence[int]) -> None:
        """Put each of `tasks` into `status` on its node of `rows`, and keep the tally."""
        if not self._tally_is_own:
            self.tally = self.facts.tally.copy()
            self._tally_is_own = True
        kinds = Counter((task.facts.role, task.status, task.facts.shape.is_best_effort) for task in tasks)
        for (role, before, is_best_effort), count in kinds.items():
            self.tally.add(role, before, is_best_effort=is_best_effort, count=-count)
            self.tally.add(role, status, is_best_effort=is_best_effort, count=count)
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
