"""Reports about budgets: metrics, and an Event if there is no recent report of the recorder.

The module also finds the queues whose jobs may be enqueued after a change by time alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Gauge

from pyroclast.api.types import QUEUES
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.lifecycle.times import format_time
from pyroclast.resources import durations
from pyroclast_scheduler.model.budgets import BudgetStanding
from pyroclast_scheduler.model.queues import QueueFacts
from pyroclast_scheduler.shell.waiting_metrics import KeptSeries

log = structlog.get_logger()

_EVENT: Final = "BudgetUnknown"


class BudgetReports:
    """The states of budgets after the last session. `patience`: for how many seconds a reported amount is used."""

    def __init__(self, registry: CollectorRegistry, recorder: EventRecorder, patience: float) -> None:
        labels = ("queue", "resource")
        self._ratio = KeptSeries(
            Gauge("pyroclast_budget_spent_ratio", "Spent part of the budget of a queue", labels, registry=registry)
        )
        text = "1 if the recorder has not reported the spent amounts of a budget for too long, else 0"
        self._unknown = KeptSeries(Gauge("pyroclast_budget_unknown", text, ("queue",), registry=registry))
        self._recorder, self._patience = recorder, patience
        self._turns: dict[str, tuple[int, bool, bool]] = {}
        self._seen: dict[str, tuple[str, float]] = {}
        self._told: set[str] = set()
        self._ratios: dict[tuple[str, ...], float] = {}

    def take(self, standings: Mapping[str, BudgetStanding], queues: Mapping[str, QueueFacts], now: float) -> list[str]:
        """Report the budgets of all queues. Return the queues whose budget period or state changed since the last session."""
        unknown = {name for name, each in standings.items() if self._is_unknown(name, each, queues, now)}
        for name in sorted(unknown - self._told):
            self._tell(standings[name], queues.get(name))
        self._told = unknown
        labels: list[tuple[str, ...]] = [(name, resource) for name, each in standings.items() for resource in each.budget.limits]
        known = {slot: standings[slot[0]].ratio(slot[1]) for slot in labels if standings[slot[0]].is_known}
        last = {slot: self._ratios[slot] for slot in labels if slot in self._ratios}
        self._ratios = {**last, **known}
        self._ratio.show(self._ratios, now)
        self._unknown.show({(name,): float(name in unknown) for name in standings}, now)
        turns = {name: (each.span.begin, each.is_known, each.is_low) for name, each in standings.items()}
        before, self._turns = self._turns, turns
        return [name for name, turn in turns.items() if name in before and before[name] != turn]

    def _is_unknown(self, name: str, standing: BudgetStanding, queues: Mapping[str, QueueFacts], now: float) -> bool:
        """Whether no usable amount has been reported for longer than the patience. A new budget has no report at first."""
        if standing.is_known:
            self._seen.pop(name, None)
            return False
        uid = queues[name].uid if name in queues else ""
        known, since = self._seen.get(name, ("", 0.0))
        if known != uid or not since:
            since = now if standing.as_of is None else min(now, standing.as_of)
            self._seen[name] = uid, since
        return now - since > self._patience

    def _tell(self, standing: BudgetStanding, facts: QueueFacts | None) -> None:
        last = "never" if standing.as_of is None else f"last at {format_time(standing.as_of)}"
        long = durations.shown(int(self._patience * 1e9))
        log.warning("budget.unknown", queue=standing.queue, last=last)
        if facts is not None:
            reference = Reference(QUEUES.api_version, QUEUES.kind, "", facts.name, facts.uid)
            text = f"the recorder has not written for {long} what is spent of the budget, {last}: see whether it runs"
            self._recorder.event(reference, "Warning", _EVENT, text)
