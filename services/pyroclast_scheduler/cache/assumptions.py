"""Assumptions: what was decided and the watches do not show yet.

Each ends by an observed event, by an answer of the API server, or when its deadline passes and the pod is read. What is sent for
it may wait long for its turn: no deadline runs until it is answered. Pure: time is a parameter, in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["DEADLINE_SECONDS", "Assumption", "AssumptionKind", "Assumptions"]

DEADLINE_SECONDS: Final = 60.0  # longer than a watch may lag


class AssumptionKind(Enum):
    """What is assumed of a pod."""

    BOUND = "bound"  # it sits on the node that we chose
    GOING = "going"  # it is on its way out because we evict it
    NOMINATED = "nominated"  # room is being made for it on a node


@dataclass(slots=True, eq=False)
class Assumption:
    """Something assumed of one pod since a time; `node` empty where it says nothing about one."""

    kind: AssumptionKind
    node: str
    deadline: float


class Assumptions:
    """At most one per pod: a later one replaces an earlier one."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Assumption] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> Assumption | None:
        """What is assumed of pod `uid`."""
        return self._by_uid.get(uid)

    def all(self) -> Iterable[tuple[str, Assumption]]:
        """What is assumed, by UID of the pod."""
        return self._by_uid.items()

    def nodes(self, kind: AssumptionKind) -> set[str]:
        """The nodes of which something of that kind is assumed."""
        return {each.node for each in self._by_uid.values() if each.kind is kind}

    def add(self, uid: str, kind: AssumptionKind, node: str, now: float) -> None:
        """Begin to assume."""
        self._by_uid[uid] = Assumption(kind, node, now + DEADLINE_SECONDS)

    def hold(self, uid: str, kind: AssumptionKind) -> Assumption | None:
        """What is assumed of pod `uid`, which has no deadline until it is renewed; None where nothing of that kind is."""
        found = self._by_uid.get(uid)
        if found is None or found.kind is not kind:
            return None
        found.deadline = math.inf
        return found

    def stands(self, uid: str, assumption: Assumption | None) -> bool:
        """Whether that very thing is still assumed of pod `uid`: it did not end, and no other took its place."""
        return assumption is not None and self._by_uid.get(uid) is assumption

    def renew(self, uid: str, now: float) -> None:
        """Let what is assumed of pod `uid` stand for another term."""
        found = self._by_uid.get(uid)
        if found is not None:
            found.deadline = now + DEADLINE_SECONDS

    def end(self, uid: str, kind: AssumptionKind | None = None) -> bool:
        """Assume no longer, if it is of that kind; whether anything ended."""
        found = self._by_uid.get(uid)
        if found is None or (kind is not None and found.kind is not kind):
            return False
        del self._by_uid[uid]
        return True

    def overdue(self, now: float) -> list[str]:
        """The pods whose assumption has stood for too long; each is told once per deadline."""
        late = [uid for uid, each in self._by_uid.items() if each.deadline <= now]
        for uid in late:
            self._by_uid[uid].deadline = now + DEADLINE_SECONDS
        return late

    def applied(self, observed: TaskFacts) -> TaskFacts:
        """The task as it is assumed to be; an assumption that what is observed confirms or refutes ends."""
        found = self._by_uid.get(observed.uid)
        if found is None:
            return observed
        is_waiting = observed.status is TaskStatus.PENDING and not observed.node
        match found.kind:
            case AssumptionKind.BOUND if is_waiting:
                return observed.moved(TaskStatus.BINDING, found.node)
            case AssumptionKind.GOING if observed.status in {TaskStatus.BOUND, TaskStatus.RUNNING}:
                return observed.moved(TaskStatus.RELEASING, observed.node)
            case AssumptionKind.NOMINATED if is_waiting and observed.nominated != found.node:
                return observed.nominated_to(found.node)
        del self._by_uid[observed.uid]
        return observed
