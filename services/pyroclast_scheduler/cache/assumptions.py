"""Decisions that the watches do not show yet (assumptions), and pods that wait because their bind was refused (holds).

An assumption ends by a watch event, by a response of the API server, or when its pod is read after the deadline. A request may
wait long before it is sent, and the deadline only counts from the response. The module is pure: times are parameters, in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyroclast_scheduler.model.tasks import EVICTABLE, TaskFacts, TaskStatus


class Holds:
    """The job of each held pod, by UID. `refused`: the same of each pod without a node whose bind was refused."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self._paused: set[str] = set()

    def refuse(self, task: TaskFacts) -> None:
        """Hold a pod whose bind was refused."""
        self.held[task.uid] = self.refused[task.uid] = task.job

    def seen(self, task: TaskFacts) -> None:
        """Hold a new pod of a paused job. A pod that has a node was bound in spite of an earlier refusal."""
        if task.node and task.status is not TaskStatus.BINDING:
            self.refused.pop(task.uid, None)
        elif task.status is TaskStatus.PENDING and task.job in self._paused:
            self.held[task.uid] = task.job

    def drop(self, uid: str) -> None:
        """Remove a deleted pod."""
        self.held.pop(uid, None)
        self.refused.pop(uid, None)

    def release(self, uid: str) -> str | None:
        """End the hold of a pod unless its job is paused. Return the job, None if nothing changed."""
        if self.held.get(uid) in self._paused:
            return None
        return self.held.pop(uid, None)

    def pause(self, job: str, tasks: Iterable[TaskFacts]) -> None:
        """Hold all pending pods of a job, later ones included, until `resume`. `tasks`: the present tasks of the job."""
        self._paused.add(job)
        for task in tasks:
            self.seen(task)

    def resume(self, job: str) -> None:
        """End the hold of all pods of a job, since the pause is over or a new PodGroup has the same name."""
        if job in self._paused:
            self._paused.discard(job)
            for uid in [uid for uid, each in self.held.items() if each == job]:
                del self.held[uid]


DEADLINE_SECONDS: Final = 60.0  # longer than the usual delay of a watch


class AssumptionKind(Enum):
    """The kinds of assumptions about a pod."""

    BOUND = "bound"  # the pod is bound to the node that the scheduler chose
    GOING = "going"  # the pod is being deleted because the scheduler evicts it
    NOMINATED = "nominated"  # the node is nominated for the pod


@dataclass(slots=True, eq=False)
class Assumption:
    """An assumption about one pod. `node`: empty if the assumption concerns no node. `deadline`: when the pod must be read."""

    kind: AssumptionKind
    node: str
    deadline: float


class Assumptions:
    """All assumptions, at most one per pod. A later assumption replaces an earlier one."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Assumption] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> Assumption | None:
        """Return the assumption about pod `uid`, None if there is none."""
        return self._by_uid.get(uid)

    def all(self) -> Iterable[tuple[str, Assumption]]:
        """Return all assumptions by UID of the pod."""
        return self._by_uid.items()

    def nodes(self, kind: AssumptionKind) -> set[str]:
        """Return the nodes that assumptions of `kind` concern."""
        return {each.node for each in self._by_uid.values() if each.kind is kind}

    def add(self, uid: str, kind: AssumptionKind, node: str, now: float) -> None:
        """Add an assumption."""
        self._by_uid[uid] = Assumption(kind, node, now + DEADLINE_SECONDS)

    def hold(self, uid: str, kind: AssumptionKind) -> Assumption | None:
        """Remove the deadline of the assumption of `kind` about pod `uid` until it is renewed, and return it, if any."""
        found = self._by_uid.get(uid)
        if found is None or found.kind is not kind:
            return None
        found.deadline = math.inf
        return found

    def stands(self, uid: str, assumption: Assumption | None) -> bool:
        """Whether `assumption` is still the assumption about pod `uid`: it has not ended, and no other one has replaced it."""
        return assumption is not None and self._by_uid.get(uid) is assumption

    def renew(self, uid: str, now: float) -> None:
        """Set a new deadline for the assumption about pod `uid`."""
        found = self._by_uid.get(uid)
        if found is not None:
            found.deadline = now + DEADLINE_SECONDS

    def end(self, uid: str, kind: AssumptionKind | None = None) -> bool:
        """End the assumption about pod `uid` if it is of `kind` (None: of any kind). Return whether an assumption ended."""
        found = self._by_uid.get(uid)
        if found is None or (kind is not None and found.kind is not kind):
            return False
        del self._by_uid[uid]
        return True

    def overdue(self, now: float) -> list[str]:
        """Return the pods whose assumptions are past their deadline, and set new deadlines."""
        late = [uid for uid, each in self._by_uid.items() if each.deadline <= now]
        for uid in late:
            self._by_uid[uid].deadline = now + DEADLINE_SECONDS
        return late

    def applied(self, observed: TaskFacts) -> TaskFacts:
        """Return the task as it is assumed to be. An assumption that the observed task confirms or refutes ends."""
        found = self._by_uid.get(observed.uid)
        if found is None:
            return observed
        is_waiting = observed.status is TaskStatus.PENDING and not observed.node
        match found.kind:
            case AssumptionKind.BOUND if is_waiting:
                return observed.moved(TaskStatus.BINDING, found.node)
            case AssumptionKind.GOING if observed.status in EVICTABLE:
                return observed.moved(TaskStatus.RELEASING, observed.node)
            case AssumptionKind.NOMINATED if is_waiting and observed.nominated != found.node:
                return observed.nominated_to(found.node)
        del self._by_uid[observed.uid]
        return observed
