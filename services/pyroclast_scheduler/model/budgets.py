"""How the budget of a queue stands now: what the recorder wrote, and what ran since."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pyroclast.api.budgets import HOUR, AtEnd, Budget, Period, Span, period_at, zoned
from pyroclast.views.usage_hours import hours_text
from pyroclast_scheduler.model.queues import QueueFacts

__all__ = ["BudgetStanding", "hours_of", "spelled_hours", "standing_of"]

_THOUSANDTHS: Final = 1000.0
_GIBIBYTE: Final = 2.0**30


@dataclass(frozen=True, slots=True)
class BudgetStanding:
    """A budget in the period that it is in.

    Attributes:
        queue: whose it is.
        budget: what its annotation says.
        span: the period.
        as_of: when the recorder wrote an amount last, None if it never did.
        is_known: whether that was a short while ago.
        since: from when on `ran` counts.
        written: hours by resource that the recorder wrote of this period.
        ran: hours by resource since then, of what has run all the time; at most so much.
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
        """Hours of a resource."""
        return self.written.get(resource, 0.0) + self.ran.get(resource, 0.0)

    def ratio(self, resource: str) -> float:
        """Which part of the limit is spent."""
        limit = self.budget.limits[resource]
        return self.spent(resource) / limit if limit else 1.0

    def is_used_up(self, resource: str, ran: float | None = None) -> bool:
        """Whether nothing of a resource is left; `ran`: hours since `since` where that is known exactly."""
        spent = self.spent(resource) if ran is None else self.written.get(resource, 0.0) + ran
        return spent >= self.budget.limits[resource]

    @property
    def is_low(self) -> bool:
        """Whether pods that count in it become preemptable."""
        return self.budget.at_end is AtEnd.LOW and self.is_known and any(map(self.is_used_up, self.budget.limits))

    def asked(self, resources: Collection[str] | None) -> list[str]:
        """The limited resources among those that a gang asks for; None: nobody knows what it asks for."""
        return sorted(name for name in self.budget.limits if resources is None or name in resources)

    @property
    def period(self) -> str:
        """The period in a sentence."""
        return "" if self.budget.period is Period.NONE else f" for this {self.budget.period}"

    @property
    def next_period(self) -> str:
        """When the next one begins, in a sentence."""
        if self.span.end is None:
            return "it does not begin anew"
        return f"the next one begins at {zoned(self.span.end, self.budget.zone)}"


def standing_of(facts: QueueFacts, now: float, patience: float, allocated: Callable[[str], float]) -> BudgetStanding | None:
    """How the budget of a queue stands; None if it has none.

    `patience`: for how many seconds a written amount counts; `allocated`: how much of a resource runs now, in stored units.
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
    """An amount in stored units that is held for an hour, as budgets count it."""
    return amount if resource == "memory" else amount / _THOUSANDTHS


def spelled_hours(resource: str, hours: float) -> str:
    """Hours of a resource without its name; those of bytes in GiB."""
    is_bytes = resource == "memory" or resource.startswith(("ephemeral-storage", "hugepages-"))
    return f"{hours_text(hours / _GIBIBYTE)} GiB" if is_bytes else hours_text(hours)
