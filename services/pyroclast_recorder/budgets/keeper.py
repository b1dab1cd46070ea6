"""The writer of the spent amounts of budgets to the annotations of queues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from pyroclast.api import keys
from pyroclast.api.budgets import Spent, hours_text, written_spent
from pyroclast.api.types import QUEUES
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast_recorder.budgets.deciding import BudgetedQueue, budgeted, crossed, in_period, is_worth_a_write, spent_by
from pyroclast_recorder.budgets.reading import settled_at, use_since
from pyroclast_recorder.database.database import Database, DatabaseUnavailable
from pyroclast_recorder.following.queue_annotations import annotate

log = structlog.get_logger()

HEARTBEAT: Final = 5
"""The periods after which an unchanged amount is written again. The scheduler ignores amounts older than ten minutes."""


class BudgetKeeper:
    """Checks the budgets of all queues once each period, and writes the spent amounts that changed.

    Args:
        client: reads and writes queues.
        database: the source of usage.
        settle: adds up usage until about now.
        period: seconds between two checks; 0 to write nothing.
        events: records Events on queues that reach a warning share; None for no Events.
    """

    def __init__(
        self,
        client: Client,
        database: Database,
        settle: Callable[[], Awaitable[None]],
        period: float,
        events: EventRecorder | None = None,
    ) -> None:
        self._client, self._database, self._settle, self._period, self._events = client, database, settle, period, events

    async def run(self) -> None:
        """Write the spent amounts of all budgets each period, until cancelled."""
        while self._period > 0:
            try:
                await self.write()
            except (KubeError, DatabaseUnavailable) as error:
                log.warning("recorder.budgets_not_written", error=str(error))
            await asyncio.sleep(self._period)

    async def write(self) -> None:
        """Bring the annotations of all queues up to date.

        Raises:
            KubeError: the queues cannot be read.
            DatabaseUnavailable: usage cannot be read.
        """
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
        is_there = await annotate(self._client, queue.name, keys.QUEUE_BUDGET_SPENT, text, refused="recorder.budget_refused")
        if is_there and self._events is not None:
            self._tell(self._events, queue, new)

    def _tell(self, events: EventRecorder, queue: BudgetedQueue, new: Spent) -> None:
        """Record an Event on the queue for each warning share that `new` has just reached."""
        reference = Reference(QUEUES.api_version, QUEUES.kind, "", queue.name, queue.uid)
        for each in crossed(queue, new):
            has, limit = hours_text(each.resource, each.spent), hours_text(each.resource, each.limit)
            part = f"{each.share:.0%} of the budget{in_period(queue.budget)}"
            text = f"{part} is reached: {has} of {limit} of {each.resource} are spent"
            events.event(reference, "Warning", "BudgetNearlySpent", text)
