"""Budgets of queues in a session: the gangs that a budget refuses or lets wait, and the pods that it makes preemptable.

No budget evicts a pod. A budget counts the pods of its queue and of the descendants of the queue. If several budgets refuse a
gang, the cause names the budget whose period ends last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
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
from pyroclast_scheduler.model.queues import Queue, lineage
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.tasks import ALLOCATED, placed_at
from pyroclast_scheduler.model.triggers import QueueUse
from pyroclast_scheduler.session.ports import Ports, WaitingPlaces

_NOT_PLACED: Final = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})
_NOT_FOR_ROOM: Final = frozenset({
    PendingReason.LEFT_OUT,
    PendingReason.NOT_LET_IN,
    PendingReason.QUEUE_CLOSED,
    PendingReason.ABOVE_QUEUE_LIMIT,
    PendingReason.ABOVE_CLUSTER,
    PendingReason.BUDGET_SPENT,
    PendingReason.PODS_MISSING,
    PendingReason.GATED,
    PendingReason.NO_NODE_ALLOWED,
    PendingReason.NO_NODE_BIG_ENOUGH,
    PendingReason.TOO_FEW_NODES,
})  # fmt: skip
"""Codes of jobs that would not start even if there were more room."""


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


_EARLIER: Final = frozenset(
    {PendingReason.NOT_LET_IN, PendingReason.QUEUE_CLOSED, PendingReason.ABOVE_QUEUE_LIMIT, PendingReason.ABOVE_CLUSTER}
)
"""Causes for which a job is not enqueued that are reported even if a budget is used up too."""


class Budgets:
    """The budgets of the queues of one session, at least one of which has a budget."""

    def __init__(self, snapshot: Snapshot, queues: Mapping[str, Queue], jobs: Mapping[str, Job], ports: Ports) -> None:
        self._snapshot, self._queues, self._jobs, self._ports = snapshot, queues, jobs, ports
        self._above: dict[str, tuple[str, ...]] = {}
        self._promised: dict[str, dict[str, float]] = {}
        self._committed: dict[str, dict[str, float]] = {}
        self._ran: dict[tuple[str, str], float] = {}
        self._low: dict[str, bool] = {}

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
        """Whether `job` may be enqueued; if not, it has a cause, that of a plugin only if it is `_EARLIER`."""
        if not is_let_in and job.cause is not None and job.cause.reason in _EARLIER:
            return False
        refused = self._refusal(job)
        if refused is not None:
            job.cause = refused
            return False
        for standing in self._of(job.facts.queue) if is_let_in else ():
            if standing.budget.at_end is AtEnd.SAFE:
                _add(self._promised.setdefault(standing.queue, {}), standing, job.facts.min_resources, self._seconds(job.facts))
        return is_let_in

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
        if not names:
            return None
        whose = f"the budget of queue {standing.queue}{standing.period}"
        seconds = self._seconds(facts)
        if seconds is None:
            return f"never: {whose} lets in only gangs that say how long they run: spec.runningEstimate"
        for name in names:
            limit = standing.budget.limits[name]
            needed = hours_of(name, least[name]) * seconds / HOUR
            spent = standing.written.get(name, 0.0) + self._ran_exactly(standing, name)
            left = limit - spent - self._committed_of(standing).get(name, 0.0)
            left -= self._promised.get(standing.queue, {}).get(name, 0.0)
            if needed > left:
                asks = f"it may use {spelled_hours(name, needed)} hours of {name} in {durations.shown(int(seconds * 1e9))}"
                if needed > limit:
                    return f"never: {asks}; {whose} is {spelled_hours(name, limit)} in all"
                rest = f"{spelled_hours(name, max(0.0, left))} of {spelled_hours(name, limit)}"
                when = "not now" if standing.span.end is not None else "never"
                return f"{when}: {asks}, and of {whose} {rest} are left beside what runs; {standing.next_period}"
        return None

    def _seconds(self, facts: JobFacts) -> float | None:
        said = facts.declared_seconds
        return self._ports.usual_seconds(facts) if said is None else said

    def _jobs_below(self, standing: BudgetStanding) -> Iterator[JobFacts]:
        facts = self._snapshot.all_jobs.values()
        return (each for each in facts if standing.queue in self._budgeted(each.queue))

    def _committed_of(self, standing: BudgetStanding) -> dict[str, float]:
        """Return the hours that running and earlier enqueued gangs will still use."""
        found = self._committed.get(standing.queue)
        if found is None:
            found, now = self._committed.setdefault(standing.queue, {}), self._ports.now
            for facts in self._jobs_below(standing):
                seconds = self._seconds(facts)
                if seconds is None:
                    continue
                if facts.sums.allocated:
                    placed = (placed_at(task) for task in facts.tasks if task.status in ALLOCATED)
                    begun = min((at for at in placed if at is not None), default=now)
                    _add(found, standing, facts.sums.allocated, max(0.0, begun + seconds - now))
                elif facts.phase is PodGroupPhase.INQUEUE:
                    _add(found, standing, facts.min_resources, seconds)
        return found

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


def _add(total: dict[str, float], standing: BudgetStanding, amounts: Amounts | None, seconds: float | None) -> None:
    for name, amount in (amounts or {}).items():
        if name in standing.budget.limits and seconds is not None:
            total[name] = total.get(name, 0.0) + hours_of(name, amount) * seconds / HOUR
