"""The measurement of the use of pods of ended Jobs by Prometheus: its queries, and the rows of the answers."""

from __future__ import annotations

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import aiohttp
import orjson
import structlog

from pyroclast.runtime.bodies import read_at_most
from pyroclast_recorder.database.connections import DatabaseUnavailable
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import Row, pod_use
from pyroclast_recorder.facts.units import LARGEST, clipped
from pyroclast_recorder.following.writer import Writer
from pyroclast_recorder.hourly_usage import OF_THE_WHOLE_RUN, held

log = structlog.get_logger()


STEP_SECONDS: Final = 30
MOST_STEPS: Final = 500
"""The most samples of a pod in one query. For longer runs, the step between samples is longer."""

PARTS: Final = {"mean": "avg_over_time", "p95": "quantile_over_time", "largest": "max_over_time", "samples": "count_over_time"}


class BadAnswer(Exception):
    """The response of Prometheus cannot be used; the text names the fault."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A resource, and the PromQL expressions of its use by pod.

    `gauge`: the present use in the units of the recorder; `{pods}` is replaced by the selector of the pods. `counter`: the total
    use in units × seconds, which is exact between samples; empty when there is no such metric.
    """

    resource: str
    gauge: str
    counter: str = ""


_CPU: Final = 'container_cpu_usage_seconds_total{{{pods},container!="",container!="POD"}}'
METRICS: Final = (
    Metric("cpu", f"1000 * sum by (pod) (rate({_CPU}[2m]))", f"1000 * sum by (pod) (max_over_time({_CPU}[{{window}}s]))"),
    Metric("memory", 'sum by (pod) (container_memory_working_set_bytes{{{pods},container!="",container!="POD"}}) / 1048576'),
    Metric("nvidia.com/gpu", "10 * sum by (pod) (DCGM_FI_DEV_GPU_UTIL{{{pods}}})"),
    Metric("nvidia.com/gpu-memory", "sum by (pod) (DCGM_FI_DEV_FB_USED{{{pods}}})"),
)
"""The metrics of the kubelet (cAdvisor) and of the DCGM exporter, whose memory is in MiB."""


@dataclass(frozen=True, slots=True)
class Round:
    """The pods of one try of a Job, for one query.

    `begin` and `end`: the start of the first pod and the end of the last pod. `pods`: the uid of each pod, and the seconds for
    which the pod held its requests, by name.
    """

    namespace: str
    begin: int
    end: int
    pods: Mapping[str, tuple[str, int]]


def query_of(metric: Metric, asked: Round) -> str:
    """Return one query for all pods of a round. The label `part` of each value names its statistic, such as `mean`."""
    window = max(1, asked.end - asked.begin)
    step = max(STEP_SECONDS, -(-window // MOST_STEPS))
    pods = f"namespace={_text(asked.namespace)},pod=~{_text('|'.join(map(re.escape, sorted(asked.pods))))}"
    gauge = f"({metric.gauge.format(pods=pods)})[{window}s:{step}s]"
    parts = {name: f"{how}({'0.95, ' if name == 'p95' else ''}{gauge})" for name, how in PARTS.items()}
    if metric.counter:
        parts["total"] = metric.counter.format(pods=pods, window=window)
    return " or ".join(f'label_replace({each}, "part", "{name}", "", "")' for name, each in parts.items())


def read_answer(answer: Any) -> dict[str, dict[str, float]]:  # noqa: ANN401 - a JSON value
    """Return the statistics of each pod from the response to an instant query, by pod. Invalid rows are ignored.

    Raises BadAnswer: the query failed, or the response has another form.
    """
    if not isinstance(answer, dict) or answer.get("status") != "success":
        why = answer.get("error", "no reason given") if isinstance(answer, dict) else "the answer is no object"
        raise BadAnswer(f"the query failed: {str(why)[:300]}")
    data = answer.get("data")
    rows = data.get("result") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        raise BadAnswer("the query answered no vector")
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        try:
            pod, part, value = row["metric"]["pod"], row["metric"]["part"], float(row["value"][1])
        except (TypeError, KeyError, IndexError, ValueError):
            continue
        if math.isfinite(value) and value >= 0 and isinstance(pod, str) and isinstance(part, str):
            found[pod][part] = value
    return found


def rows_of(metric: Metric, asked: Round, values: Mapping[str, Mapping[str, float]]) -> Iterable[dict[str, Any]]:
    """Yield the rows of `pod_use` for the statistics `values`. Pods without data in Prometheus have no row."""
    for name, parts in values.items():
        uid, seconds = asked.pods.get(name, ("", 0))
        samples = int(parts.get("samples", 0))
        if not uid or samples < 1 or not parts.keys() >= {"mean", "p95", "largest"}:
            continue
        mean = parts["total"] / max(1, seconds) if "total" in parts else parts["mean"]
        numbers = {"mean": mean, "p95": parts["p95"], "largest": parts["largest"]}
        yield {
            "pod": uid,
            "resource": clipped(metric.resource, 253),
            "since": asked.begin,
            "samples": samples,
            **{part: min(LARGEST, round(value)) for part, value in numbers.items()},
        }


def _text(value: str) -> str:
    """Return a PromQL string literal, with the escapes of Go."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


DELAY_SECONDS: Final = 60
"""Seconds between the end of a Job and the query, because Prometheus receives the last samples after the end."""

BACK_SECONDS: Final = 3600
"""The seconds before its start for which the recorder also queries ended Jobs."""

PODS_AT_ONCE: Final = 200
TIMEOUT_SECONDS: Final = 30.0
MOST_BYTES: Final = 8 << 20


class PrometheusMeter:
    """Sends a query for each ended Job and metric, for up to 200 pods at a time, and writes the results."""

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

        Raises BadAnswer: the response of Prometheus cannot be used; aiohttp.ClientError, TimeoutError: Prometheus does not
        respond.
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
    """Yield the pods of each try of a Job, in rounds of at most `PODS_AT_ONCE` pods.

    Prometheus knows pods by name. A pod gets a round of its own if another pod of its Job had the same name within its round.
    """
    by_try: dict[tuple[str, int], list[_Run]] = defaultdict(list)
    by_name: dict[tuple[str, str], list[_Run]] = defaultdict(list)
    for pod in pods:
        time = held(pod)
        if time is not None:
            run = _Run(pod, time.begin, time.end)
            by_try[pod["job"], pod["job_version"] or 0].append(run)
            by_name[pod["job"], pod["name"]].append(run)
    for of_try in by_try.values():
        for first in range(0, len(of_try), PODS_AT_ONCE):
            some = of_try[first : first + PODS_AT_ONCE]
            begin, end = min(run.begin for run in some), max((run.end or 0 for run in some), default=0)
            alone = [run for run in some if _has_namesake(by_name[run.pod["job"], run.pod["name"]], begin, end)]
            together = [run for run in some if run not in alone]
            for part in (together, *([run] for run in alone)):
                yield from _round_of(part)


class _Run(NamedTuple):
    """The row of a pod, and the time in which it held its requests; `end` is None while it holds them."""

    pod: Row
    begin: int
    end: int | None


def _has_namesake(of_name: Sequence[_Run], begin: int, end: int) -> bool:
    """Whether several pods of one name ran between two times."""
    return sum(run.begin <= end and (run.end is None or run.end >= begin) for run in of_name) > 1


def _round_of(runs: Sequence[_Run]) -> Iterator[Round]:
    """Yield the round of pods; nothing when none of them has ended."""
    ends = [run.end for run in runs if run.end is not None]
    if ends:
        named = {run.pod["name"]: (run.pod["uid"], (run.end or max(ends)) - run.begin) for run in runs}
        yield Round(runs[0].pod["namespace"], min(run.begin for run in runs), max(ends), named)
