"""Budgets of queues in a session: the gangs that a budget refuses or lets wait, and the pods that it makes preemptable.

No budget evicts a pod. A budget counts the pods of its queue and of the descendants of the queue. If several budgets refuse a
gang, the cause names the budget whose period ends last.

A budget with `atEnd: safe` is never exceeded if estimates hold. Its hours are booked: by each allocated pod for the rest of the
estimate, counted from its own placement, and by each promise for the whole estimate. A gang is let in if its minimum fits into
what is not booked. Each pod is asked about again when it is placed, as the estimate may have changed since. Beyond its promise it
may only take what nobody booked, and within its promise only what no allocated pod booked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final

from pyroclast.api.budgets import HOUR, AtEnd, WhenUnknown
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.resources import durations
from pyroclast_scheduler.model.budgets import BudgetStanding, hours_of, spelled_hours, standing_of
from pyroclast_scheduler.model.causes import Cause
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.promises import beyond
from pyroclast_scheduler.model.queues import Queue, lineage
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.tasks import ALLOCATED, TaskStatus, placed_at
from pyroclast_scheduler.model.triggers import QueueUse
from pyroclast_scheduler.session.ports import Ports, WaitingPlaces
from pyroclast_scheduler.session.statement import Move

_NOT_PLACED: Final = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})
_NOT_FOR_ROOM: Final = frozenset({
    PendingReason.LEFT_OUT,
    PendingReason.NOT_LET_IN,
    PendingReason.QUEUE_CLOSED,
    PendingReason.ABOVE_QUEUE_LIMIT,
    PendingReason.ABOVE_CLUSTER,
    PendingReason.BUDGET_SPENT,
    PendingReason.PERSON_LIMIT,
    PendingReason.PODS_MISSING,
    PendingReason.GATED,
    PendingReason.NO_NODE_ALLOWED,
    PendingReason.NO_NODE_BIG_ENOUGH,
    PendingReason.TOO_FEW_NODES,
})  # fmt: skip
"""Codes of jobs that would not start even if there were more room."""
_ROUNDING: Final = 1e-6  # hours, or pods: sums of floats differ in their last digits


def others_wait(
    jobs: Mapping[str, Job], all_jobs: Mapping[str, JobFacts], waiting: WaitingPlaces | None, is_low: Callable[[str], bool]
) -> bool:
    """Whether a job waits for room in a queue that is not `is_low`, by this session or by earlier ones (`waiting`), if known."""
    if any(_waits(job.facts) and not is_low(job.facts.queue) and _is_for_room(waiting, job) for job in jobs.values()):
        return True
    if waiting is None:
        at_rest = (facts for key, facts in all_jobs.items() if key not in jobs)
        return any(_waits(facts) and not is_low(facts.queue) for facts in at_rest)
    here: dict[tuple[str, PendingReason], int] = {}
    for key in jobs:
        slot = waiting.slot(key)
        if slot is not None:
            here[slot] = here.get(slot, 0) + 1
    return any(
        count > here.get((queue, code), 0) and code not in _NOT_FOR_ROOM and not is_low(queue)
        for (queue, code), count in waiting.counts.items()
    )


def _waits(facts: JobFacts) -> bool:
    return facts.phase in _NOT_PLACED and facts.tally.ready < facts.min_available


def _is_for_room(waiting: WaitingPlaces | None, job: Job) -> bool:
    """Whether the job waits for room, by the result of this session or else of the previous one."""
    if job.is_ready or job.facts.group.spec.hold is not None:
        return False
    if job.cause is not None:
        return job.cause.reason not in _NOT_FOR_ROOM
    slot = None if waiting is None else waiting.slot(job.facts.key)
    return slot is None or slot[1] not in _NOT_FOR_ROOM


EARLIER: Final = frozenset(
    {PendingReason.NOT_LET_IN, PendingReason.QUEUE_CLOSED, PendingReason.ABOVE_QUEUE_LIMIT, PendingReason.ABOVE_CLUSTER}
)
"""Causes for which a job is not enqueued that are reported even if a budget is used up too."""


class Budgets:
    """The budgets of the queues of one session, at least one of which has a budget.

    Attributes:
        withheld: why a budget with `atEnd: safe` allowed no further pod of a gang that was let in, by key of the gang.
    """

    def __init__(self, snapshot: Snapshot, queues: Mapping[str, Queue], jobs: Mapping[str, Job], ports: Ports) -> None:
        self._snapshot, self._queues, self._jobs, self._ports = snapshot, queues, jobs, ports
        self._above: dict[str, tuple[str, ...]] = {}
        self._booked: dict[str, _Bookings] = {}
        self._changed: dict[str, Job] = {}
        self._given: dict[str, Amounts] = {}
        self._placed: dict[str, dict[str, int]] = {}
        self._ran: dict[tuple[str, str], float] = {}
        self._low: dict[str, bool] = {}
        self.withheld: dict[str, Cause] = {}

    @cached_property
    def standings(self) -> Mapping[str, BudgetStanding]:
        """The states of all budgets, by queue."""
        snapshot, found = self._snapshot, {}
        allocated: dict[str, dict[str, float]] = {}
        for name, sums in snapshot.queue_sums.items():
            for above in self._budgeted(name):
                limits, total = self._queues[above].facts.budget, allocated.setdefault(above, {})
                for resource in limits.limits if limits is not None else ():
                    row = snapshot.dimensions.find(resource)
                    total[resource] = total.get(resource, 0.0) + (0.0 if row is None else float(sums.allocated[row]))
        for name, queue in self._queues.items():
            here = allocated.get(name, {})

            def has(resource: str, here: Mapping[str, float] = here, elsewhere: Amounts = queue.elsewhere) -> float:
                return here.get(resource, 0.0) + elsewhere.get(resource, 0)

            standing = standing_of(queue.facts, self._ports.now, self._ports.budget_patience, has)
            if standing is not None:
                found[name] = standing
        return found

    def may_enter(self, job: Job, *, is_let_in: bool) -> bool:
        """Whether `job` may be enqueued; if not, it has a cause, that of a plugin only if it is `EARLIER`."""
        if not is_let_in and job.cause is not None and job.cause.reason in EARLIER:
            return False
        refused = self._refusal(job)
        if refused is not None:
            job.cause = refused
            return False
        if is_let_in and any(self._safe(job.facts.queue)):
            self._given[job.facts.key] = beyond(job.facts.min_resources or {}, job.facts.sums.allocated)
            self._book(job)
        return is_let_in

    def allows(self, job: Job, request: Amounts, count: int) -> int:
        """Return how many of `count` pods of `job` with `request` the budgets with `atEnd: safe` allow to place now."""
        for standing in self._safe(job.facts.queue):
            names = standing.asked([name for name, amount in request.items() if amount])
            seconds = self._seconds(job.facts) if names else None
            for name in names:
                each = 0.0 if seconds is None else hours_of(name, request[name]) * seconds / HOUR
                count = 0 if seconds is None else min(count, int(self._free(standing, job.facts.key, name) / each + _ROUNDING))
                if count <= 0:
                    text = self._withholds(standing, name, each, seconds)
                    self.withheld[job.facts.key] = Cause(PendingReason.BUDGET_SPENT, partial(str, text))
                    return 0
        return count

    def moved(self, move: Move, sign: int) -> None:
        """Handle that `move` was made (1) or undone (−1)."""
        job = move.job
        if move.status is TaskStatus.ALLOCATED and any(self._safe(job.facts.queue)):
            amounts = self._placed.setdefault(job.facts.key, {})
            for name, amount in move.plan.shape.request.items():
                amounts[name] = amounts.get(name, 0) + sign * len(move.tasks) * amount
            self._book(job)

    def is_low(self, queue: str) -> bool:
        """Whether pods of `queue` are preemptable because a budget with `atEnd: low` is used up."""
        found = self._low.get(queue)
        if found is None:
            low = (standing for standing in self._of(queue) if standing.budget.at_end is AtEnd.LOW)
            found = self._low[queue] = any(self._used_up(standing, None) for standing in low)
        return found

    # -- internals -----------------------------------------------------------------------------------------------------

    def _of(self, queue: str) -> Iterator[BudgetStanding]:
        """Return the budgets that apply to a queue: its own first, then those of its ancestors."""
        return (self.standings[name] for name in self._budgeted(queue))

    def _safe(self, queue: str) -> Iterator[BudgetStanding]:
        return (standing for standing in self._of(queue) if standing.budget.at_end is AtEnd.SAFE)

    def _budgeted(self, queue: str) -> tuple[str, ...]:
        if queue not in self._above:
            path = lineage(queue, self._snapshot.queues)
            self._above[queue] = tuple(facts.name for facts in path if facts.budget is not None)
        return self._above[queue]

    def _refusal(self, job: Job) -> Cause | None:
        """Return the cause for which a budget refuses the job: that whose period ends last, with no end as the last of all."""
        kept = [(each, text) for each in self._of(job.facts.queue) if (text := self._why_not(each, job.facts)) is not None]
        if not kept:
            return None
        standing, text = max(kept, key=lambda pair: float("inf") if pair[0].span.end is None else pair[0].span.end)
        is_of_queue = standing.budget.at_end is AtEnd.HOLD or not standing.is_known  # else time or other queues decide
        retry_when = frozenset({QueueUse(standing.queue)}) if is_of_queue else None
        return Cause(PendingReason.BUDGET_SPENT, lambda: text, retry_when=retry_when)

    def _why_not(self, standing: BudgetStanding, facts: JobFacts) -> str | None:
        budget = standing.budget
        if not standing.is_known:
            if budget.when_unknown is WhenUnknown.ALLOW or budget.at_end is AtEnd.WARN:
                return None
            return f"not now: nobody knows how much of the budget of queue {standing.queue} is spent; it lets nobody in meanwhile"
        used_up = self._used_up(standing, facts.min_resources)
        if budget.at_end is AtEnd.WARN or (budget.at_end is not AtEnd.SAFE and not used_up):
            return None
        if not used_up:
            return self._does_not_fit(standing, facts)
        if budget.at_end is AtEnd.LOW:
            if not others_wait(self._jobs, self._snapshot.all_jobs, self._ports.waiting, self.is_low):
                return None
            text = f"{self._is_used_up(standing, used_up)}, so that it starts only where nobody else waits"
            return f"not now: {text}; {standing.next_period}"
        when = "not now" if standing.span.end is not None else "never"
        return f"{when}: {self._is_used_up(standing, used_up)}; {standing.next_period}"

    def _is_used_up(self, standing: BudgetStanding, resource: str) -> str:
        spent = standing.written.get(resource, 0.0) + self._ran_exactly(standing, resource)
        has, limit = spelled_hours(resource, spent), spelled_hours(resource, standing.budget.limits[resource])
        return f"the budget of queue {standing.queue}{standing.period} is used up: {has} of {limit} hours of {resource} are spent"

    def _used_up(self, standing: BudgetStanding, asked: Amounts | None) -> str:
        """Return the first limited resource in `asked` of which no hours are left; empty if there is none."""
        if not standing.is_known:
            return ""
        for name in standing.asked(None if asked is None else [each for each, amount in asked.items() if amount]):
            if standing.is_used_up(name) and standing.is_used_up(name, self._ran_exactly(standing, name)):
                return name
        return ""

    def _does_not_fit(self, standing: BudgetStanding, facts: JobFacts) -> str | None:
        """Return why a budget with `atEnd: safe` refuses a gang whose hours do not fit into the remaining hours."""
        least = facts.min_resources or {}
        names = standing.asked([name for name, amount in least.items() if amount])
        seconds = self._seconds(facts) if names else None
        for name in names:
            needed = 0.0 if seconds is None else hours_of(name, least[name]) * seconds / HOUR
            if seconds is None or needed > self._left(standing, name) - self._bookings_of(standing).total(name) + _ROUNDING:
                return self._too_many_hours(standing, name, needed, seconds, "it")
        return None

    def _too_many_hours(self, standing: BudgetStanding, name: str, needed: float, seconds: float | None, who: str) -> str:
        """Return why the `needed` hours of `name` do not fit. `seconds`: the run time of the gang. `who`: that asks for them."""
        whose = f"the budget of queue {standing.queue}{standing.period}"
        if seconds is None:
            return f"never: {whose} lets in only gangs that say how long they run: spec.runningEstimate"
        limit, left = standing.budget.limits[name], self._left(standing, name)
        asks = f"{who} may use {spelled_hours(name, needed)} hours of {name} in {durations.shown(int(seconds * 1e9))}"
        if needed > limit:
            return f"never: {asks}; {whose} is {spelled_hours(name, limit)} in all"
        free = max(0.0, left - self._bookings_of(standing).total(name))
        rest = f"{spelled_hours(name, free)} of {spelled_hours(name, limit)}"
        when = "never" if standing.span.end is None and needed > left else "not now"
        return f"{when}: {asks}, and of {whose} {rest} are left beside what runs; {standing.next_period}"

    def _withholds(self, standing: BudgetStanding, name: str, needed: float, seconds: float | None) -> str:
        """Return why a budget with `atEnd: safe` does not allow a further pod that needs so many hours of `name`."""
        if not standing.is_known:
            unknown = f"nobody knows how much of the budget of queue {standing.queue} is spent"
            return f"not now: {unknown}; no further pod starts meanwhile"
        return self._too_many_hours(standing, name, needed, seconds, "one more pod")

    def _left(self, standing: BudgetStanding, name: str) -> float:
        """Return the hours of `name` that are not spent, whether or not they are booked."""
        return standing.budget.limits[name] - standing.written.get(name, 0.0) - self._ran_exactly(standing, name)

    def _free(self, standing: BudgetStanding, key: str, name: str) -> float:
        """Return the hours of `name` that further pods of a gang may use: what was promised to it, and what nobody booked."""
        booked = self._bookings_of(standing)
        own = booked.promised_to.get(key, {}).get(name, 0.0)
        if not standing.is_known:
            return float("inf") if standing.budget.when_unknown is WhenUnknown.ALLOW else own
        unused = self._left(standing, name) - booked.used.get(name, 0.0)
        return max(0.0, min(unused, own + max(0.0, unused - booked.promised.get(name, 0.0))))

    def _seconds(self, facts: JobFacts) -> float | None:
        said = facts.declared_seconds
        return self._ports.usual_seconds(facts) if said is None else said

    def _jobs_below(self, standing: BudgetStanding) -> Iterator[JobFacts]:
        facts = self._snapshot.all_jobs.values()
        return (each for each in facts if standing.queue in self._budgeted(each.queue))

    def _bookings_of(self, standing: BudgetStanding) -> _Bookings:
        """Return the hours that the gangs below a queue have booked in its budget."""
        found = self._booked.get(standing.queue)
        if found is None:
            found, now = self._booked.setdefault(standing.queue, _Bookings()), self._ports.now
            for facts in self._jobs_below(standing):
                seconds = self._seconds(facts)
                if seconds is None:
                    continue
                for task in facts.tasks if any(map(facts.sums.allocated.get, standing.budget.limits)) else ():
                    if task.status in ALLOCATED:
                        begun = placed_at(task)
                        rest = seconds if begun is None else max(0.0, begun + seconds - now)
                        _add(found.used, standing.hours(task.shape.request, rest))
                found.promise(facts.key, standing.hours(facts.promise.amounts, seconds))
            for job in self._changed.values():
                if standing.queue in self._budgeted(job.facts.queue):
                    self._book_in(standing, found, job)
        return found

    def _book(self, job: Job) -> None:
        """Book what was promised to `job`, and what was allocated to it, in this session."""
        self._changed[job.facts.key] = job
        for standing in self._safe(job.facts.queue):
            if (booked := self._booked.get(standing.queue)) is not None:
                self._book_in(standing, booked, job)

    def _book_in(self, standing: BudgetStanding, booked: _Bookings, job: Job) -> None:
        key, seconds = job.facts.key, self._seconds(job.facts)
        if seconds is not None:
            placed, promise = self._placed.get(key, {}), self._given.get(key, job.facts.promise.amounts)
            booked.place(key, standing.hours(placed, seconds))
            booked.promise(key, standing.hours(beyond(promise, placed), seconds))

    def _ran_exactly(self, standing: BudgetStanding, resource: str) -> float:
        """Return the hours since the recorder's last report, counted for each pod from the time of its placement."""
        key = standing.queue, resource
        found = self._ran.get(key)
        if found is None:
            if standing.written.get(resource, 0.0) >= standing.budget.limits[resource] or not standing.ran.get(resource):
                found = standing.ran.get(resource, 0.0)
            else:
                now, whole = self._ports.now, 0.0
                for facts in self._jobs_below(standing):
                    for task in facts.tasks if facts.sums.allocated.get(resource) else ():
                        if task.status in ALLOCATED:
                            begun = max(standing.since, placed_at(task) or standing.since)
                            whole += hours_of(resource, task.shape.request.get(resource, 0)) * max(0.0, now - begun) / HOUR
                elsewhere = hours_of(resource, self._queues[standing.queue].elsewhere.get(resource, 0))
                found = whole + elsewhere * max(0.0, now - standing.since) / HOUR
            self._ran[key] = found
        return found


@dataclass(slots=True)
class _Bookings:
    """The hours that gangs have booked in one budget, by resource.

    Attributes:
        used: what allocated pods will use in the rest of their estimates.
        promised: what is kept for gangs that were let in, without what their pods already use.
        placed_by, promised_to: of these, what was allocated in this session and what is promised, by key of the gang.
    """

    used: dict[str, float] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)
    placed_by: dict[str, Mapping[str, float]] = field(default_factory=dict)
    promised_to: dict[str, Mapping[str, float]] = field(default_factory=dict)

    def total(self, name: str) -> float:
        """Return the hours of `name` that are used or promised."""
        return self.used.get(name, 0.0) + self.promised.get(name, 0.0)

    def place(self, key: str, hours: Mapping[str, float]) -> None:
        """Replace what a gang was allocated in this session."""
        _replace(self.used, self.placed_by, key, hours)

    def promise(self, key: str, hours: Mapping[str, float]) -> None:
        """Replace what is promised to a gang."""
        _replace(self.promised, self.promised_to, key, hours)


def _replace(total: dict[str, float], each: dict[str, Mapping[str, float]], key: str, hours: Mapping[str, float]) -> None:
    _add(total, {name: -before for name, before in each.get(key, {}).items()})
    each[key] = hours
    _add(total, hours)


def _add(total: dict[str, float], hours: Mapping[str, float]) -> None:
    for name, amount in hours.items():
        total[name] = total.get(name, 0.0) + amount
