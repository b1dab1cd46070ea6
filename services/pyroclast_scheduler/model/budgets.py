"""The state of a queue's budget: the hours that the recorder reported, plus the hours that ran since that report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pyroclast.api.budgets import HOUR, AtEnd, Budget, Period, Span, period_at, zoned
from pyroclast.views.readable import hours_text
from pyroclast_scheduler.model.queues import QueueFacts

_THOUSANDTHS: Final = 1000.0
_GIBIBYTE: Final = 2.0**30


@dataclass(frozen=True, slots=True)
class BudgetStanding:
    """The state of a queue's budget in the current period.

    Attributes:
        span: the start and the end of the current period.
        as_of: the time of the recorder's last report, in seconds since the epoch; None if the recorder never wrote one.
        is_known: whether the recorder's last report is recent enough to be used.
        since: the time from which `ran` is counted, in seconds since the epoch.
        written: the hours that the recorder reported for this period, by resource.
        ran: the hours since `since` by resource, as if all pods that run now had run since then; thus an upper bound.
    """

    queue: str
    budget: Budget
    span: Span
    as_of: float | None
    is_known: bool
    since: float
    written: Mapping[str, float]
    ran: Mapping[str, float]

    def spent(self, resource: str) -> float:
        """Return the hours of `resource` that are spent in this period."""
        return self.written.get(resource, 0.0) + self.ran.get(resource, 0.0)

    def ratio(self, resource: str) -> float:
        """Return the fraction of the limit of `resource` that is spent, 1.0 if the limit is 0."""
        limit = self.budget.limits[resource]
        return self.spent(resource) / limit if limit else 1.0

    def is_used_up(self, resource: str, ran: float | None = None) -> bool:
        """Whether the spent hours of `resource` reach the limit. `ran`: the exact hours since `since`, if they are known."""
        spent = self.spent(resource) if ran is None else self.written.get(resource, 0.0) + ran
        return spent >= self.budget.limits[resource]

    @property
    def is_low(self) -> bool:
        """Whether `atEnd` is `low` and a limit is reached, so that the pods that count in the budget are preemptable."""
        return self.budget.at_end is AtEnd.LOW and self.is_known and any(map(self.is_used_up, self.budget.limits))

    def asked(self, resources: Collection[str] | None) -> list[str]:
        """Return those of `resources`, or of all resources if None, that the budget limits, sorted."""
        return sorted(name for name in self.budget.limits if resources is None or name in resources)

    def hours(self, amounts: Mapping[str, int], seconds: float) -> dict[str, float]:
        """Return the hours of the limited resources that `amounts`, in stored units, cost in `seconds`."""
        limits = self.budget.limits
        return {name: hours_of(name, amount) * seconds / HOUR for name, amount in amounts.items() if name in limits}

    @property
    def period(self) -> str:
        """The period as the end of a clause, such as ` for this month`; empty if the budget has no period."""
        return "" if self.budget.period is Period.NONE else f" for this {self.budget.period}"

    @property
    def next_period(self) -> str:
        """The start of the next period, as a clause of a message."""
        if self.span.end is None:
            return "it does not begin anew"
        return f"the next one begins at {zoned(self.span.end, self.budget.zone)}"


def standing_of(facts: QueueFacts, now: float, patience: float, allocated: Callable[[str], float]) -> BudgetStanding | None:
    """Return the state of the budget of a queue, None if the queue has no budget.

    `patience`: for how many seconds a report of the recorder is used. `allocated`: a function that returns the amount of a
    resource that is allocated now, in stored units.
    """
    budget, said = facts.budget, facts.spent
    if budget is None:
        return None
    span = period_at(budget.period, budget.zone, now, first=int(facts.created))
    is_of_period = said is not None and said.since == span.begin
    is_of_last = said is not None and said.since < span.begin and said.as_of < span.begin
    is_known = said is not None and (is_of_period or is_of_last) and now - said.as_of <= patience
    since = float(max(said.as_of, span.begin)) if said is not None else now
    written = said.amounts if said is not None and is_of_period else {}
    hours = max(0.0, now - since) / HOUR
    ran = {name: hours_of(name, allocated(name)) * hours for name in budget.limits}
    return BudgetStanding(facts.name, budget, span, None if said is None else said.as_of, is_known, since, written, ran)


def hours_of(resource: str, amount: float) -> float:
    """Return the budget hours that `amount` of a resource, in stored units, costs in one hour."""
    return amount if resource == "memory" else amount / _THOUSANDTHS


def spelled_hours(resource: str, hours: float) -> str:
    """Return hours of a resource as text without the name of the resource; hours of bytes are in GiB."""
    is_bytes = resource == "memory" or resource.startswith(("ephemeral-storage", "hugepages-"))
    return f"{hours_text(hours / _GIBIBYTE)} GiB" if is_bytes else hours_text(hours)
