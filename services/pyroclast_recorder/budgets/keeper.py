"""The spent amounts of budgets: their rows, and the writer to the annotations of queues."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import structlog
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast.api import keys
from pyroclast.api.budgets import Spent, hours_text, written_spent
from pyroclast.api.types import QUEUES
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast_recorder.budgets.deciding import (
    BudgetedQueue,
    Crossed,
    Slot,
    Use,
    budgeted,
    crossed,
    in_period,
    is_worth_a_write,
    spent_by,
)
from pyroclast_recorder.database.connections import DatabaseUnavailable
from pyroclast_recorder.database.database import Database, charged_pods, queue_tree, settled_at
from pyroclast_recorder.database.usage_rows import held_between, usage_rows
from pyroclast_recorder.following.past_usage import annotate
from pyroclast_recorder.hourly_usage import HOUR, intervals
from pyroclast_recorder.notices import Notifier

log = structlog.get_logger()


async def use_since(connection: AsyncConnection, cluster: str, since: int, as_of: int, resources: Collection[str]) -> Use:
    """Return the usage of `resources` from `since` until `as_of`, the time until which usage is added up."""
    whole = -(-since // HOUR) * HOUR
    found: dict[Slot, tuple[int, int]] = {}
    rows = usage_rows(cluster, whole, as_of, {"resource": resources}).c
    groups = (rows.queue, rows.ancestors, rows.resource)
    sums = select(*groups, func.sum(rows.asked), func.sum(rows.doubtful)).group_by(*groups)
    for queue, ancestors, resource, asked, doubtful in await connection.execute(sums):
        found[Slot(queue, ancestors, resource)] = int(asked), int(doubtful)
    if whole > since:
        for slot, (asked, doubtful) in (await _use_between(connection, cluster, since, min(whole, as_of), resources)).items():
            known = found.get(slot, (0, 0))
            found[slot] = known[0] + asked, known[1] + doubtful
    return found


async def _use_between(connection: AsyncConnection, cluster: str, since: int, until: int, resources: Collection[str]) -> Use:
    """Return the usage of `resources` in a part of an hour, from the pods that ran in it."""
    found: dict[Slot, list[int]] = defaultdict(lambda: [0, 0])
    tree = await queue_tree(connection, cluster)
    async for pod, job in charged_pods(connection, cluster, *held_between(cluster, since, until)):
        for each in intervals(pod, job, tree):
            seconds = each.seconds(since, until)
            doubt = each.doubt if since <= (each.end or 0) < until else 0
            for resource, amount in each.amounts().items():
                if resource in resources and (seconds or doubt):
                    total = found[Slot(each.whose[0], each.ancestors, resource)]
                    total[0] += amount * seconds
                    total[1] += amount * doubt
    return {slot: (asked, doubtful) for slot, (asked, doubtful) in found.items()}


HEARTBEAT: Final = 5
"""The periods after which an unchanged amount is written again. The scheduler ignores amounts older than ten minutes."""


class BudgetKeeper:
    """Checks the budgets of all queues once each period, and writes the spent amounts that changed."""

    def __init__(
        self,
        client: Client,
        database: Database,
        settle: Callable[[], Awaitable[None]],
        period: float,
        events: EventRecorder | None = None,
        *,
        notifier: Notifier | None = None,
    ) -> None:
        self._client, self._database, self._settle, self._period, self._events = client, database, settle, period, events
        self._notifier = notifier

    async def run(self) -> None:
        """Write the spent amounts of all budgets each period, until cancelled."""
        while self._period > 0:
            try:
                await self.write()
            except (KubeError, DatabaseUnavailable) as error:
                log.warning("recorder.budgets_not_written", error=str(error))
            await asyncio.sleep(self._period)

    async def write(self) -> None:
        """Bring the annotations of all queues up to date."""
        listed, _ = await self._client.list(QUEUES)
        queues = budgeted(listed, self._client.now())
        if not queues:
            return
        await self._settle()
        for queue, new in await self._spent(queues):
            if is_worth_a_write(queue, new, self._period, HEARTBEAT * self._period):
                await self._annotate(queue, new)

    async def _spent(self, queues: list[BudgetedQueue]) -> list[tuple[BudgetedQueue, Spent]]:
        """Return the spent amounts of each queue; empty when usage was never added up."""
        resources = {name for queue in queues for name in queue.budget.limits}
        cluster = self._database.cluster
        async with self._database.reading() as connection:
            as_of = await settled_at(connection, cluster)
            if as_of is None:
                return []
            begins = {queue.span.begin for queue in queues}
            use = {begin: await use_since(connection, cluster, begin, as_of, resources) for begin in sorted(begins)}
        return [(queue, spent_by(queue, use[queue.span.begin], as_of)) for queue in queues]

    async def _annotate(self, queue: BudgetedQueue, new: Spent) -> None:
        text = written_spent(new)
        if self._notifier is not None:  # before the annotation, after which it would never be told
            for each in crossed(queue, new):
                what = f"budget {each.share:.0%} of {each.resource} since {queue.span.begin}"
                await self._notifier.told_budget(queue.name, what, _text(queue, each))
        is_there = await annotate(self._client, queue.name, keys.QUEUE_BUDGET_SPENT, text, refused="recorder.budget_refused")
        if is_there and self._events is not None:
            self._tell(self._events, queue, new)

    def _tell(self, events: EventRecorder, queue: BudgetedQueue, new: Spent) -> None:
        """Record an Event on the queue for each warning share that `new` has just reached."""
        reference = Reference(QUEUES.api_version, QUEUES.kind, "", queue.name, queue.uid)
        for each in crossed(queue, new):
            events.event(reference, "Warning", "BudgetNearlySpent", _text(queue, each))


def _text(queue: BudgetedQueue, each: Crossed) -> str:
    has, limit = hours_text(each.resource, each.spent), hours_text(each.resource, each.limit)
    part = f"{each.share:.0%} of the budget{in_period(queue.budget)}"
    return f"{part} is reached: {has} of {limit} of {each.resource} are spent"
