"""The measurement of the use of pods of ended Jobs by Prometheus."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import aiohttp
import orjson
import structlog

from pyroclast.runtime.bodies import read_at_most
from pyroclast_recorder.database.database import Database, DatabaseUnavailable
from pyroclast_recorder.database.tables import Row, pod_use
from pyroclast_recorder.facts.prometheus import METRICS, BadAnswer, Round, query_of, read_answer, rows_of
from pyroclast_recorder.following.writer import Writer
from pyroclast_recorder.hourly_usage import held
from pyroclast_recorder.measured_hours import OF_THE_WHOLE_RUN

log = structlog.get_logger()

DELAY_SECONDS: Final = 60
"""Seconds between the end of a Job and the query, because Prometheus receives the last samples after the end."""

BACK_SECONDS: Final = 3600
"""The seconds before its start for which the recorder also queries ended Jobs."""

PODS_AT_ONCE: Final = 200
TIMEOUT_SECONDS: Final = 30.0
MOST_BYTES: Final = 8 << 20


class PrometheusMeter:
    """Sends a query for each ended Job and metric, for up to 200 pods at a time, and writes the results.

    Args:
        url: the URL of Prometheus, such as `http://prometheus:9090`.
        database: the source of ended Jobs.
        writer: receives the rows.
        now: returns the time in seconds by the clock of the API server.
        period: seconds between two checks for ended Jobs.
    """

    def __init__(self, url: str, database: Database, writer: Writer, now: Callable[[], float], period: float) -> None:
        self._url, self._database, self._writer, self._now, self._period = url, database, writer, now, period
        self._asked_until: int | None = None

    async def run(self) -> None:
        """Measure each period, until cancelled."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                try:
                    await self.measure(session)
                except (aiohttp.ClientError, TimeoutError, BadAnswer, DatabaseUnavailable) as error:
                    log.warning(
                        "recorder.not_measured", url=self._url.rpartition("@")[2], error=str(error) or type(error).__name__
                    )
                await asyncio.sleep(self._period)

    async def measure(self, session: aiohttp.ClientSession) -> None:
        """Query the use of the Jobs that ended since the last successful call. After a failure, the same Jobs are queried again.

        Raises:
            BadAnswer: the response of Prometheus cannot be used.
            aiohttp.ClientError, TimeoutError: Prometheus does not respond.
        """
        until = int(self._now()) - DELAY_SECONDS
        since = until - BACK_SECONDS if self._asked_until is None else self._asked_until
        for asked in rounds_of(await self._database.pods_of_ended(since, until)):
            for metric in METRICS:
                values = read_answer(await self._ask(session, query_of(metric, asked), asked.end))
                for row in rows_of(metric, asked, values):
                    await self._writer.add(pod_use, row["samples"], {**row, "source": OF_THE_WHOLE_RUN})
        self._asked_until = until

    async def _ask(self, session: aiohttp.ClientSession, query: str, at: int) -> Any:  # noqa: ANN401 - a JSON value
        form = {"query": query, "time": str(at)}
        async with session.post(f"{self._url.rstrip('/')}/api/v1/query", data=form) as response:
            body = await read_at_most(response.content, MOST_BYTES)
        if body is None:
            raise BadAnswer(f"it answered more than {MOST_BYTES >> 20} MiB")
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            raise BadAnswer(f"it answered {response.status} {response.reason}, and no JSON") from None


def rounds_of(pods: Iterable[Row]) -> Iterator[Round]:
    """Yield the pods of each try of a Job, in rounds of at most `PODS_AT_ONCE` pods."""
    by_try: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for pod in pods:
        by_try[pod["job"], pod["job_version"] or 0].append(pod)
    for of_try in by_try.values():
        for first in range(0, len(of_try), PODS_AT_ONCE):
            some = [(pod, time) for pod in of_try[first : first + PODS_AT_ONCE] if (time := held(pod)) is not None]
            ends = [time.end for _, time in some if time.end is not None]
            if ends:
                named = {pod["name"]: (pod["uid"], (time.end or max(ends)) - time.begin) for pod, time in some}
                yield Round(some[0][0]["namespace"], min(time.begin for _, time in some), max(ends), named)
