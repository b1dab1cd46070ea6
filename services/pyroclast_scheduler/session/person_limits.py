"""Limits of each person in a session: gangs that wait because their submitter has or uses as much as a queue allows.

A gang counts from when it is let in. It counts with its minimum, or with what its pods use, whichever is more. A limit of a queue
also counts the gangs of the queues below it. No limit evicts a pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final, NamedTuple

from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.person_limits import Limits, class_of, person_of
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.model.causes import Cause
from pyroclast_scheduler.model.dimensions import Amounts, amounts_of
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.queues import Queue, lineage
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.tasks import ALLOCATED, TaskStatus
from pyroclast_scheduler.model.triggers import QueueUse
from pyroclast_scheduler.model.values import number, spelled
from pyroclast_scheduler.session.statement import Move

_SHOWN: Final = 3


class Scope(NamedTuple):
    """What one limit counts: the gangs of a person in a queue and below it, all of them or those of one class of service."""

    queue: str
    person: str
    service_class: str

    @property
    def of_class(self) -> str:
        """The class as a clause of a message; empty for all classes."""
        return f" of class {self.service_class}" if self.service_class else ""


@dataclass(slots=True)
class Use:
    """What the gangs of a scope have. `held`: by gang, in the order in which they were counted. `total`: the sum by resource."""

    held: dict[str, Amounts] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)

    def set(self, key: str, amounts: Amounts | None) -> None:
        """Count a gang with `amounts`; no longer, if they are None."""
        for name, amount in self.held.pop(key, {}).items():
            self.total[name] -= amount
        if amounts is not None:
            self.held[key] = amounts
            for name, amount in amounts.items():
                self.total[name] = self.total.get(name, 0) + amount


class PersonBook:
    """The use of each person in the queues of one session, at least one of which has limits.

    Attributes:
        withheld: why a limit allowed no further pod of a gang that was let in, by key of the gang.
    """

    def __init__(self, snapshot: Snapshot, queues: Mapping[str, Queue], jobs: Mapping[str, Job]) -> None:
        self._snapshot, self._queues, self._jobs = snapshot, queues, jobs
        self._limits: dict[tuple[str, str, str], list[tuple[Scope, Limits]]] = {}
        self._placed: dict[str, dict[str, int]] = {}
        self.withheld: dict[str, Cause] = {}

    def refusal(self, job: Job) -> Cause | None:
        """Return the cause for which a limit keeps `job` from being let in, None if none does."""
        for scope, limits in self._scopes(job.facts):
            if (text := self._why_not(scope, limits, job)) is not None:
                return _cause(scope, text)
        return None

    def enter(self, job: Job) -> None:
        """Count a gang that was let in."""
        self._count(job.facts, job.facts.min_resources or {})

    def allows(self, job: Job, request: Amounts, count: int) -> int:
        """Return how many of `count` pods of `job` with `request` the limits allow to place now."""
        facts = job.facts
        for scope, limits in self._scopes(facts):
            use = self._use.get(scope, Use())
            for name, most in amounts_of(limits.resources).items():
                each = request.get(name, 0)
                if not each:
                    continue
                others = use.total.get(name, 0) - use.held.get(facts.key, {}).get(name, 0)
                left = most - others - self._allocated(facts).get(name, 0)
                count = min(count, max(0, left) // each)
                if not count:
                    asks = f"one more pod asks for {spelled(name, each)}"
                    self.withheld[facts.key] = _cause(scope, self._too_much(scope, name, most, job, asks))
                    return 0
        return count

    def moved(self, move: Move, sign: int) -> None:
        """Handle that `move` was made (1) or undone (−1)."""
        facts = move.job.facts
        if move.status is not TaskStatus.ALLOCATED or not self._scopes(facts):
            return
        placed = self._placed.setdefault(facts.key, {})
        for name, amount in move.plan.shape.request.items():
            placed[name] = placed.get(name, 0) + sign * len(move.tasks) * amount
        self._count(facts, self._least(facts) if move.job.phase is not PodGroupPhase.PENDING else {})

    # -- internals -----------------------------------------------------------------------------------------------------

    @cached_property
    def _use(self) -> dict[Scope, Use]:
        """The use by scope, of all gangs that run or are let in."""
        found: dict[Scope, Use] = {}
        for facts in self._snapshot.all_jobs.values():
            if self._counts(facts):
                for scope, _ in self._scopes(facts):
                    found.setdefault(scope, Use()).set(facts.key, _most(self._least(facts), facts.sums.allocated))
        return found

    def _counts(self, facts: JobFacts) -> bool:
        """Whether a gang runs, or is let in as far as this session knows."""
        job = self._jobs.get(facts.key)
        phase = facts.phase if job is None else job.phase
        return phase is PodGroupPhase.INQUEUE or any(facts.tally[status] for status in ALLOCATED)

    def _count(self, facts: JobFacts, least: Amounts) -> None:
        for scope, _ in self._scopes(facts):
            self._use.setdefault(scope, Use()).set(facts.key, _most(least, self._allocated(facts)))

    def _least(self, facts: JobFacts) -> Amounts:
        """Return what is counted for a gang before its pods use it."""
        promised, allocated = facts.promise.amounts, facts.sums.allocated
        return {name: amount + allocated.get(name, 0) for name, amount in promised.items()}

    def _allocated(self, facts: JobFacts) -> Amounts:
        placed = self._placed.get(facts.key)
        if not placed:
            return facts.sums.allocated
        names = placed.keys() | facts.sums.allocated.keys()
        return {name: facts.sums.allocated.get(name, 0) + placed.get(name, 0) for name in names}

    def _scopes(self, facts: JobFacts) -> list[tuple[Scope, Limits]]:
        """Return the limits that count a gang: those of its queue first, then those of the queues above."""
        meta = facts.group.metadata
        slot = facts.queue, person_of(meta.annotations, facts.namespace), class_of(meta.labels)
        found = self._limits.get(slot)
        if found is None:
            found = self._limits[slot] = list(self._limits_of(*slot))
        return found

    def _limits_of(self, queue: str, person: str, service_class: str) -> Iterator[tuple[Scope, Limits]]:
        for above in lineage(queue, self._snapshot.queues):
            for counted, limits in above.person_limits.of(person, service_class) if above.person_limits is not None else ():
                if limits.running_jobs is not None or limits.resources:
                    yield Scope(above.name, person, counted), limits

    def _why_not(self, scope: Scope, limits: Limits, job: Job) -> str | None:
        use, key, most = self._use.get(scope, Use()), job.facts.key, limits.running_jobs
        if most is not None and len(use.held) - (key in use.held) >= most:
            self._forget_displaced(use)
            has = len(use.held) - (key in use.held)
            if not most:
                return f"never: a person may have no running Jobs{scope.of_class} in queue {scope.queue}"
            if has >= most:
                who = self._named(job, [each for each in use.held if each != key])
                return f"not now: {scope.person} has {has} of {most} running Jobs{scope.of_class} in queue {scope.queue}: {who}"
        asked = job.facts.min_resources or {}
        for name, limit in amounts_of(limits.resources).items():
            amount = asked.get(name, 0)
            if amount > limit:
                may = f"a person may use at most {spelled(name, limit)}{_by_jobs(scope)} in queue {scope.queue}"
                return f"never: it asks for {spelled(name, amount)}; {may}"
            if amount and use.total.get(name, 0) - use.held.get(key, {}).get(name, 0) + amount > limit:
                self._forget_displaced(use)
                if use.total.get(name, 0) - use.held.get(key, {}).get(name, 0) + amount > limit:
                    return self._too_much(scope, name, limit, job, f"it asks for {spelled(name, amount)}")
        return None

    def _too_much(self, scope: Scope, name: str, limit: int, job: Job, asks: str) -> str:
        use = self._use.get(scope, Use())
        has = number(name, use.total.get(name, 0))
        users = [key for key, amounts in use.held.items() if amounts.get(name, 0)]
        jobs = f": {self._named(job, users)}" if users else ""
        may = f"of {spelled(name, limit)} that a person may use{_by_jobs(scope)} in queue {scope.queue}"
        return f"not now: {asks}; {may}, {scope.person} has {has}{jobs}"

    def _forget_displaced(self, use: Use) -> None:
        """Count gangs no longer that this session has put back to wait."""
        for key in [key for key in use.held if (job := self._jobs.get(key)) is not None and job.phase is PodGroupPhase.PENDING]:
            if not any(self._jobs[key].facts.tally[status] for status in ALLOCATED):
                use.set(key, None)

    def _named(self, job: Job, keys: list[str]) -> str:
        """Return the first gangs that use a limit. Those of other namespaces may be secret, and are only counted."""
        inside = f"{job.facts.namespace}/"
        here = [key for key in keys if key.startswith(inside)]
        parts = here[:_SHOWN]
        if more := len(here) - len(parts):
            parts.append(f"{more} more")
        if elsewhere := len(keys) - len(here):
            parts.append(f"{elsewhere} in other namespaces")
        return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _cause(scope: Scope, text: str) -> Cause:
    return Cause(PendingReason.PERSON_LIMIT, partial(str, text), retry_when=frozenset({QueueUse(scope.queue)}))


def _by_jobs(scope: Scope) -> str:
    return f" by Jobs{scope.of_class}" if scope.service_class else ""


def _most(one: Amounts, other: Amounts) -> Amounts:
    """Return the larger amount of each resource."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}
