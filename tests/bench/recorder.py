"""What the recorder's database costs: `python -m tests.bench.recorder [--pods 50000] [--years 1] [--sqlite | --postgresql]`.

Pods go through the tables as the recorder writes them: each is seen four times (made, bound, running, ended), 500 rows a
transaction. Told are rows per second, bytes per million pods, how long after an event its row is there while 100 pods a second
come and go, how long it takes to add up their hours, and how long reports over a year of 10 million pods take. What these read is
filled in: hourly usage of 50 queues of 3 users with 3 resources, all of them at work in every hour, and a million Jobs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast_recorder.database.batches import Batch
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import job_phases, jobs, pods
from pyroclast_recorder.following.writer import Writer
from pyroclast_recorder.hourly_usage import DAY, HOUR
from pyroclast_recorder.reading.queries import history, usage
from pyroclast_recorder.reading.questions import HistoryQuestion, UsageQuestion, history_question
from tests.postgres import postgres_server

START = 1_767_225_600
REQUESTS = '{"cpu":4000,"memory":16384,"nvidia.com/gpu":1000}'
ROWS = 500
PODS_EACH = 10
PODS_A_YEAR = 10_000_000
PACE, PACED_SECONDS, FIRST_PACED = 100, 30, 10_000_000
HOURS_AT_ONCE, JOBS_AT_ONCE = 200, 20_000
QUEUES, USERS, RESOURCES = 50, 3, ("cpu", "memory", "nvidia.com/gpu")


@contextlib.contextmanager
def url_of(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/history.db"
        return
    with postgres_server() as url:
        yield url


def seen(number: int) -> Iterator[tuple[Any, int, dict[str, Any]]]:
    """A pod as it is seen four times, and its Job with the first of ten."""
    at = START + number // 100  # a hundred a second
    owner = f"4b1c7a52-0000-4000-8000-{number // PODS_EACH:012d}"
    whole = {
        "uid": f"9d0e6c11-0000-4000-8000-{number:012d}",
        "job": owner,
        "namespace": "research",
        "name": f"train-{number // PODS_EACH}-worker-{number % PODS_EACH}",
        "task": "worker",
        "task_index": number % PODS_EACH,
        "job_version": 0,
        "node": f"node-{number % 5000}",
        "requests": REQUESTS,
        "created": at,
    }
    for version, more in enumerate(
        (
            {"phase": "Pending"},
            {"phase": "Pending", "bound": at + 2},
            {"phase": "Running", "bound": at + 2, "started": at + 3},
            {"phase": "Succeeded", "bound": at + 2, "started": at + 3, "finished": at + 600, "released_high": at + 601},
        ),
        1,
    ):
        yield pods, version, {**whole, **more}
    if number % PODS_EACH == 0:
        name = f"train-{number // PODS_EACH}"
        job = {
            "uid": owner,
            "namespace": "research",
            "name": name,
            "queue": f"q{number // PODS_EACH % QUEUES}",
            "submitted_by": "ann",
        }
        yield jobs, 1, {**job, "created": at, "started": at + 3, "ended": at + 601, "phase": "Completed", "gang_size": PODS_EACH}
        for order, phase in enumerate(("Pending", "Running", "Completed")):
            yield job_phases, order, {"job": owner, "at": at + order, "name": phase}


async def fill(database: Database, count: int) -> tuple[float, int]:
    began, rows = time.perf_counter(), 0
    batch = Batch(database.cluster)
    for number in range(count):
        for table, version, row in seen(number):
            batch.add(table, version, row)
            rows += 1
            if len(batch) >= ROWS:
                await database.write(batch, START + number // 100 + 700)
                batch = Batch(database.cluster)
    await database.write(batch, START + count // 100 + 700)
    return time.perf_counter() - began, rows


async def lags(database: Database, seconds: int) -> list[float]:
    """How long after each event its row was there, in seconds, smallest first, while `PACE` pods a second come and go."""
    found: list[float] = []
    writer = Writer(database, lambda: float(START), lambda rows, oldest: found.extend([oldest] * rows))
    writing = asyncio.create_task(writer.run())
    began = time.perf_counter()
    for number in range(PACE * seconds):
        await asyncio.sleep(max(0.0, began + number / PACE - time.perf_counter()))
        for table, version, row in seen(FIRST_PACED + number):
            await writer.add(table, version, row)
    await writer.flushed()
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    return sorted(found)


async def size(database: Database, path: str) -> int:
    async with database.reading() as connection:
        if connection.dialect.name == "sqlite":
            await connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
            return await asyncio.to_thread(lambda: Path(path).stat().st_size)
        return int(await connection.scalar(text("SELECT pg_database_size(current_database())")))


USAGE = f"""
INSERT INTO usage_hours (cluster, hour, queue, namespace, submitted_by, flow, resource, asked, doubtful)
WITH RECURSIVE
  hours(n) AS (SELECT CAST(:first AS BIGINT) UNION ALL SELECT n + 1 FROM hours WHERE n + 1 < :until),
  whose(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM whose WHERE n + 1 < {QUEUES * USERS * len(RESOURCES)})
SELECT :cluster, {START} + hours.n * {HOUR}, 'q' || (whose.n % {QUEUES}), 'research',
  'user-' || (whose.n / {QUEUES} % {USERS}), '',
  CASE whose.n / {QUEUES * USERS} WHEN 0 THEN 'cpu' WHEN 1 THEN 'memory' ELSE 'nvidia.com/gpu' END, 3600000, 0
FROM hours CROSS JOIN whose
"""
JOBS = f"""
INSERT INTO jobs (cluster, uid, version, namespace, name, queue, submitted_by, phase, gang_size, retries, created, started, ended)
WITH RECURSIVE numbers(n) AS (SELECT CAST(:first AS BIGINT) UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :until)
SELECT :cluster, 'year-' || n, 1, 'research', 'train-' || n, 'q' || (n % {QUEUES}), 'user-' || (n % {USERS}),
  CASE n % 50 WHEN 0 THEN 'Failed' ELSE 'Completed' END, {PODS_EACH}, 0,
  {START} + CAST(n AS BIGINT) * :seconds / :jobs, {START} + CAST(n AS BIGINT) * :seconds / :jobs + 60,
  {START} + CAST(n AS BIGINT) * :seconds / :jobs + 660
FROM numbers
"""


async def year(database: Database, years: float) -> tuple[int, int]:
    """What reports read of so many years with 10 million pods each: hourly usage, every queue, user and resource in every hour,
    and the Jobs, of ten pods each. The rows of their pods are left out: no report over a year reads them.
    """
    hours, count = int(365 * 24 * years), int(PODS_A_YEAR / PODS_EACH * years)
    async with database.transaction() as connection:
        for table in ("usage_hours", "usage_days"):
            await connection.execute(text(f"DELETE FROM {table}"))
    mine = {"cluster": database.cluster}
    for first in range(0, hours, HOURS_AT_ONCE):
        async with database.transaction() as connection:
            some = {"first": first, "until": min(hours, first + HOURS_AT_ONCE)}
            await connection.execute(text(USAGE), mine | some)
    async with database.transaction() as connection:
        for day in range(START // DAY * DAY, START + hours * HOUR, DAY):
            await database.settle_day(connection, day)
    for first in range(0, count, JOBS_AT_ONCE):
        async with database.transaction() as connection:
            some = {"first": first, "until": min(count, first + JOBS_AT_ONCE)}
            await connection.execute(text(JOBS), {**mine, **some, "jobs": count, "seconds": hours * HOUR})
    async with database.transaction() as connection:
        await connection.execute(text("ANALYZE"))  # as the database does by itself in a year
    return hours * QUEUES * USERS * len(RESOURCES), count


async def measure(kind: str, count: int, years: float) -> None:
    with tempfile.TemporaryDirectory() as folder, url_of(kind, Path(folder)) as url:
        database = Database(url, "bench")
        await database.migrate()
        path = url.removeprefix("sqlite:///")
        empty = await size(database, path)
        seconds, rows = await fill(database, count)
        grown = await size(database, path) - empty
        print(
            f"{kind}: {rows} rows in {seconds:.1f} s, {rows / seconds:.0f} rows/s; {grown / count / 1e3:.2f} GB per million pods"
        )
        behind = await lags(database, PACED_SECONDS)
        at = {share: behind[len(behind) * share // 100] for share in (50, 99)}
        print(f"{kind}: at {PACE} pods a second the row of an event is there after {at[50]:.2f} s (p50), {at[99]:.2f} s (p99)")
        began = time.perf_counter()
        hours = await database.settle(START + count // 100 + 700)
        print(f"{kind}: {hours} hours of {count} pods added up in {time.perf_counter() - began:.1f} s")
        began = time.perf_counter()
        made = await year(database, years)
        print(f"{kind}: {made[0]} rows of hourly usage and {made[1]} Jobs made in {time.perf_counter() - began:.0f} s")
        until = START + int(years * 365 * 86_400) - 1
        for by, per in ((("queue", "resource"), "all"), (("queue", "user", "resource"), "month"), (("queue", "resource"), "day")):
            question = UsageQuestion(START, until, by, per)
            took = []
            async with database.reading() as connection:
                for _ in range(5):
                    began = time.perf_counter()
                    found = await usage(connection, database.cluster, question, ["research"])
                    took.append(time.perf_counter() - began)
            assert sum(row["asked"] for row in found) == made[0] * 3_600_000
            what = f"a report by {','.join(by)} per {per}, {len(found)} rows"
            print(f"{kind}: {what}: {sorted(took)[2]:.2f} s (median of 5)")
        for words in ({}, {"user": "user-1"}, {"state": "Failed"}, {"name": "train-77*"}, {"queue": "q7", "since": "4w"}):
            page = history_question({"since": "520w", "limit": "100", **words}, until)
            took = []
            for _ in range(5):
                began = time.perf_counter()
                items, _ = await database.answer(partial(_page, database, page, until))
                took.append(time.perf_counter() - began)
            print(f"{kind}: a list page of {made[1]} Jobs, {words or 'all'}, {len(items)} rows: {sorted(took)[2] * 1e3:.0f} ms")
        print(f"{kind}: the process used at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")
        await database.close()


async def _page(database: Database, page: HistoryQuestion, now: int, connection: AsyncConnection) -> tuple[list[Any], bool]:
    return await history(connection, database.cluster, page, ["research"], now)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--years", type=float, default=1.0)
    parser.add_argument("--sqlite", action="store_const", const=("sqlite",), dest="kinds")
    parser.add_argument("--postgresql", action="store_const", const=("postgresql",), dest="kinds")
    arguments = parser.parse_args()
    for kind in arguments.kinds or ("sqlite", "postgresql"):
        asyncio.run(measure(kind, arguments.pods, arguments.years))


if __name__ == "__main__":
    main()
