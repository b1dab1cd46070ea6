"""Queues: their immutable facts, their past usage, their state in a session, and their branches in the tree of queues."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyroclast.api import keys, records
from pyroclast.api.budgets import Budget, BudgetError, read_budget, read_spent
from pyroclast.api.past_usage import read_past_usage
from pyroclast.api.person_limits import PersonLimits, PersonLimitsError, read_person_limits
from pyroclast.resources import durations
from pyroclast_scheduler.model.dimensions import Amounts, amounts_of
from pyroclast_scheduler.model.tasks import seconds_of


@dataclass(frozen=True, slots=True)
class Past:
    """Average amounts of the past, in stored units. `held`: of the whole queue. `users`: by user who submitted the jobs."""

    held: Amounts = field(default_factory=dict)
    users: Mapping[str, Amounts] = field(default_factory=dict)


_ROOT: Final = "root"


class QueueFacts:
    """The facts of one queue.

    Raises (from the constructor):
        ValueError: a quantity of the queue is invalid.
    """

    def __init__(self, queue: records.Queue) -> None:
        spec = queue.spec
        self.record = queue
        self.name = queue.metadata.name
        self.uid = queue.metadata.uid
        self.created = seconds_of(queue.metadata.creation_timestamp)
        self.weight = max(0, spec.weight)  # a negative weight would reduce the deserved share of other queues
        self.priority = spec.priority
        self.parent = spec.parent
        self.is_reclaimable = spec.reclaimable is not False
        self.is_open = queue.status.state in {None, "", "Open"}
        self.capability: Amounts | None = None if spec.capability is None else amounts_of(spec.capability)
        self.guarantee: Amounts = amounts_of(spec.guarantee.resource)
        self.deserved: Amounts | None = None if spec.deserved is None else amounts_of(spec.deserved)
        self.faults: list[str] = []
        self.minimum_run_time = self._minimum_run_time()
        self.budget = self._budget()
        said = queue.metadata.annotations.get(keys.QUEUE_BUDGET_SPENT)
        self.spent = None if said is None or self.budget is None else read_spent(said)
        self.past = self._read_past()
        self.person_limits = self._person_limits()

    @property
    def resources(self) -> frozenset[str]:
        """The names of all resources in the capability, the guarantee or the deserved amounts of the queue."""
        return frozenset((*(self.capability or ()), *self.guarantee, *(self.deserved or ())))

    def _budget(self) -> Budget | None:
        """Return the budget of the queue, None if the annotation is missing or invalid."""
        text = self.record.metadata.annotations.get(keys.QUEUE_BUDGET)
        if text is None:
            return None
        try:
            return read_budget(text)
        except BudgetError as error:
            self.faults.append(f"annotation {keys.QUEUE_BUDGET}: {error}; it is passed over")
            return None

    def _person_limits(self) -> PersonLimits | None:
        """Return the limits of each person in the queue, None if the annotation is missing or invalid."""
        text = self.record.metadata.annotations.get(keys.QUEUE_PERSON_LIMITS)
        if text is None:
            return None
        try:
            return read_person_limits(text)
        except PersonLimitsError as error:
            self.faults.append(f"annotation {keys.QUEUE_PERSON_LIMITS}: {error}; it is passed over")
            return None

    def _read_past(self) -> Past:
        """Return the past usage of the queue; empty if the recorder has not reported any."""
        key = keys.QUEUE_PAST_USAGE
        text = self.record.metadata.annotations.get(key)
        if text is None:
            return Past()
        try:
            said = read_past_usage(text)
            return Past(amounts_of(said.held), {name: amounts_of(amounts) for name, amounts in said.users.items()})
        except ValueError as error:
            self.faults.append(f"annotation {key}: {str(error)[:200]}; past usage of the queue is passed over")
            return Past()

    def _minimum_run_time(self) -> float | None:
        """Return for how many seconds pods of the queue run before they may be evicted for other jobs; None if undeclared."""
        key = keys.QUEUE_MINIMUM_RUN_TIME
        text = self.record.metadata.annotations.get(key)
        if text is None:
            return None
        try:
            nanoseconds = durations.nanoseconds(text)
        except durations.DurationError:
            nanoseconds = -1
        if nanoseconds < 0:
            self.faults.append(
                f"annotation {key}: {text[:40]!r} is not a duration of 0s or more, such as 10m, and is passed over"
            )
            return None
        return nanoseconds / 1e9


@dataclass(slots=True, eq=False)
class Queue:
    """A queue in a session. `elsewhere`: what other members of a ring allocated in the queue and its descendants."""

    facts: QueueFacts
    elsewhere: Amounts = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self.facts.name


def lineage(name: str, queues: Mapping[str, QueueFacts]) -> list[QueueFacts]:
    """Return the queue of that name and its ancestors, each once; nothing if there is no such queue."""
    path: dict[str, QueueFacts] = {}
    while name in queues and name not in path:
        path[name] = queues[name]
        name = queues[name].parent or _ROOT
    return list(path.values())


def queues_of(facts: Mapping[str, QueueFacts], elsewhere: Mapping[str, Amounts]) -> dict[str, Queue]:
    """Return the queues of a session. `elsewhere`: what other members of a ring allocated in each, without its descendants."""
    sums: dict[str, dict[str, int]] = {}
    for own, amounts in elsewhere.items():
        for queue in lineage(own, facts):
            total = sums.setdefault(queue.name, {})
            for resource, amount in amounts.items():
                total[resource] = total.get(resource, 0) + amount
    return {name: Queue(each, sums.get(name, {})) for name, each in facts.items()}


def branches(names: Collection[str], queues: Mapping[str, QueueFacts]) -> set[str]:
    """Return these queues and all their descendants. A queue without a parent is a child of the root."""
    concerned = set(names)
    for queue in queues if names else ():
        path: list[str] = []
        name = queue
        while name in queues and name not in concerned and name not in path:
            path.append(name)
            name = queues[name].parent or _ROOT
        if name in concerned:
            concerned.update(path)
    return concerned


def above(names: Collection[str], queues: Mapping[str, QueueFacts]) -> set[str]:
    """Return these queues and all their ancestors."""
    path: set[str] = set()
    for each in names:
        name = each
        while name not in path:
            path.add(name)
            if name not in queues:
                break
            name = queues[name].parent or _ROOT
    return path


def limited_by(name: str, queues: Mapping[str, QueueFacts]) -> list[str]:
    """Return the highest queue with a capability among `name` and its ancestors; for an unknown name, all such queues."""
    limited, seen = "", set[str]()
    while name in queues and name not in seen:
        seen.add(name)
        limited = name if queues[name].capability else limited
        name = queues[name].parent
    if not seen:
        return [each for each, facts in queues.items() if facts.capability]
    return [limited] if limited else []
