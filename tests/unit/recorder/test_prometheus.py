"""Prometheus as the source of what pods used, a real one; and what is made of its answers."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from sqlalchemy import select

from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import jobs, pod_use, pods, usage_hours
from pyroclast_recorder.following.prometheus import (
    METRICS,
    BadAnswer,
    PrometheusMeter,
    Round,
    query_of,
    read_answer,
    rounds_of,
    rows_of,
)
from pyroclast_recorder.following.writer import Writer
from pyroclast_recorder.hourly_usage import HOUR
from pyroclast_recorder.settings import RecorderSettings
from tests.e2e.observability.test_prometheus import ask, prometheus
from tests.e2e.support.cluster import wait_until

from .conftest import ON_SQLITE, NewDatabase, write

BEGIN = 1_795_521_600
SECONDS = 600
END = BEGIN + SECONDS
NOW = END + 120
SERIES = ("container_cpu_usage_seconds", "container_memory_working_set_bytes", "DCGM_FI_DEV_GPU_UTIL")


def samples() -> str:
    """What a kubelet and an exporter of GPUs tell each 15 s: of a pod, the cgroup around it, and a pod with a longer name."""
    lines: dict[str, list[str]] = {name: [] for name in SERIES}
    for at in range(BEGIN, END + 1, 15):
        passed = at - BEGIN
        labels = 'namespace="team",pod="train-w-0"'
        cpu = lines["container_cpu_usage_seconds"]
        cpu.append(f'container_cpu_usage_seconds_total{{{labels},container="main",id="a"}} {1.5 * passed} {at}')
        cpu.append(f'container_cpu_usage_seconds_total{{{labels},container="",id="pod"}} {9 * passed} {at}')
        cpu.append(
            f'container_cpu_usage_seconds_total{{namespace="team",pod="train-w-00",container="main",id="x"}} {7 * passed} {at}'
        )
        memory = lines["container_memory_working_set_bytes"]
        memory.append(f'container_memory_working_set_bytes{{{labels},container="main"}} {(2 if passed < 300 else 4) << 30} {at}')
        lines["DCGM_FI_DEV_GPU_UTIL"].append(f'DCGM_FI_DEV_GPU_UTIL{{{labels},gpu="0"}} 80 {at}')
        lines["DCGM_FI_DEV_GPU_UTIL"].append(f'DCGM_FI_DEV_GPU_UTIL{{{labels},gpu="1"}} 40 {at}')
    kinds = {"container_cpu_usage_seconds": "counter"}
    text = [f"# TYPE {name} {kinds.get(name, 'gauge')}\n" + "\n".join(sorted(found)) for name, found in lines.items()]
    return "\n".join(text) + "\n# EOF\n"


def ended_pod(uid: str, name: str, **columns: Any) -> dict[str, Any]:
    times = {"bound": BEGIN, "finished": END, "released_high": END}
    requests = '{"cpu":2000,"memory":8192,"nvidia.com/gpu":2000}'
    columns = {"released_low": None, "job_version": None, **columns}
    return {"uid": uid, "job": "j", "namespace": "team", "name": name, "requests": requests, **times, **columns}


async def fill(database: Database) -> None:
    job = {"uid": "j", "namespace": "team", "name": "train", "queue": "red", "submitted_by": "ann", "created": BEGIN - 9}
    rows = [(pods, 1, ended_pod(f"p{number}", f"train-w-{number}")) for number in (0, 1)]
    await write(database, [(jobs, 1, {**job, "started": BEGIN, "ended": END, "phase": "Completed"}), *rows], NOW)


async def settled(database: Database) -> dict[str, tuple[int, int, int]]:
    await database.settle(NOW)
    async with database.reading() as connection:
        found = (await connection.execute(select(usage_hours).where(usage_hours.c.cluster == database.cluster))).mappings()
        return {row["resource"]: (row["asked"], row["measured"], row["used"]) for row in found}


async def test_pod_usage_is_measured_from_a_real_prometheus(new_database: NewDatabase, tmp_path: Path) -> None:
    (tmp_path / "samples").write_text(samples())
    if shutil.which("promtool") is None:
        pytest.skip("there is no Prometheus; on Debian: apt-get install prometheus")
    made = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(tmp_path / "samples"), str(tmp_path / "data")]
    await asyncio.to_thread(subprocess.run, made, check=True, capture_output=True)
    with prometheus(tmp_path, {}) as url:
        await asyncio.to_thread(wait_until, lambda: ask(url, "vector(1)"), "Prometheus to be ready", seconds=60)
        async with new_database() as database:
            await fill(database)
            before = await settled(database)
            assert before["cpu"] == (2 * 2000 * SECONDS, 0, 0)
            writer = Writer(database, lambda: float(NOW), lambda _rows, _seconds: None)
            writing = asyncio.create_task(writer.run())
            async with ClientSession() as session:
                await PrometheusMeter(url, database, writer, lambda: float(NOW), 60.0).measure(session)
            await writer.flushed()
            writing.cancel()
            asked, measured, used = (await settled(database))["cpu"]
            assert (asked, measured) == (2 * 2000 * SECONDS, 2000 * SECONDS), "one of two pods was measured"
            assert used == pytest.approx(1500 * SECONDS, rel=0.02)
            assert (await settled(database))["memory"][2] == pytest.approx(3072 * SECONDS, rel=0.06)
            assert (await settled(database))["nvidia.com/gpu"][2] == pytest.approx(1200 * SECONDS, rel=0.02)
            async with database.reading() as connection:
                rows = [dict(row) for row in (await connection.execute(select(pod_use))).mappings()]
            rows = [row for row in rows if row["cluster"] == database.cluster]
            assert {row["pod"] for row in rows} == {"p0"}
            memory = next(row for row in rows if row["resource"] == "memory")
            assert (memory["largest"], memory["source"], memory["since"]) == (4096, "prometheus", BEGIN)


def test_prometheus_queries_are_split_by_job_version_and_by_200_pods() -> None:
    first = [ended_pod(f"a{n}", f"w-{n}", job_version=0) for n in range(250)]
    second = [ended_pod("b", "w-0", job_version=1, bound=END + 5, finished=END + 50, released_high=END + 50)]
    found = list(rounds_of([*first, *second]))
    assert [(len(each.pods), each.begin, each.end) for each in found] == [
        (200, BEGIN, END),
        (50, BEGIN, END),
        (1, END + 5, END + 50),
    ]
    assert found[2].pods == {"w-0": ("b", 45)}


def test_each_of_two_pods_of_one_name_is_queried_for_its_own_time() -> None:
    times = {"first": (BEGIN, END), "second": (END + 10, END + 60)}
    named = [ended_pod(uid, "w-0", bound=begin, finished=end, released_high=end) for uid, (begin, end) in times.items()]
    other = ended_pod("other", "w-1", finished=END + 60, released_high=END + 60)
    found = [(dict(each.pods), each.begin, each.end) for each in rounds_of([*named, other])]
    assert found == [
        ({"w-1": ("other", SECONDS + 60)}, BEGIN, END + 60),
        ({"w-0": ("first", SECONDS)}, BEGIN, END),
        ({"w-0": ("second", 50)}, END + 10, END + 60),
    ]


def test_namespace_and_pod_names_are_escaped_in_prometheus_queries() -> None:
    asked = Round('a"} or vector(1) #', 0, 100_000, {"x.y": ("u", 1), 'b\\"\n': ("v", 1)})
    query = query_of(METRICS[0], asked)
    assert 'namespace="a\\"} or vector(1) #"' in query
    assert "x\\\\.y" in query
    assert "\n" not in query
    assert "[100000s:200s]" in query


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([], "the answer is no object"),
        ({"status": "error", "error": "too many samples"}, "too many samples"),
        ({"status": "success"}, "no vector"),
        ({"status": "success", "data": {"result": "x"}}, "no vector"),
    ],
)
def test_failed_prometheus_answer_raises_bad_answer_with_the_reason(answer: Any, why: str) -> None:
    with pytest.raises(BadAnswer, match=why):
        read_answer(answer)


def test_malformed_prometheus_series_are_ignored() -> None:
    good = [("mean", "5"), ("p95", "6"), ("largest", "7"), ("samples", "20")]
    rows: list[Any] = [{"metric": {"pod": "w", "part": part}, "value": [0, value]} for part, value in good]
    bad: list[Any] = [1, {}, {"metric": {"pod": "w"}}, {"metric": {"pod": "w", "part": "mean"}, "value": [0, "NaN"]}, None]
    values = read_answer({"status": "success", "data": {"result": [*rows, *bad]}})
    asked = Round("team", 0, 100, {"w": ("u", 50), "x": ("v", 50)})
    (row,) = rows_of(METRICS[1], asked, values)
    assert (row["pod"], row["mean"], row["p95"], row["largest"], row["samples"]) == ("u", 5, 6, 7, 20)
    assert not list(rows_of(METRICS[1], asked, {"x": {"mean": 1.0}, "stranger": values["w"]}))


@ON_SQLITE
async def test_prometheus_queries_are_repeated_after_a_failure_and_not_after_success(database: Database) -> None:
    answers: list[web.Response] = []
    forms: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        forms.append(str((await request.post())["query"]))
        empty = web.json_response({"status": "success", "data": {"result": []}})
        return answers.pop() if answers else empty

    application = web.Application()
    application.router.add_post("/api/v1/query", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with ClientSession() as session:
        await fill(database)
        meter = PrometheusMeter(
            url, database, Writer(database, lambda: float(NOW), lambda _r, _s: None), lambda: float(NOW), 60.0
        )
        for bad in (web.Response(text="<html>", status=502), web.json_response({"status": "error", "error": "x"}, status=422)):
            answers.append(bad)
            with pytest.raises(BadAnswer):
                await meter.measure(session)
        answers.append(web.Response(body=b" " * (9 << 20)))
        with pytest.raises(BadAnswer, match="more than 8 MiB"):
            await meter.measure(session)
        forms.clear()
        await meter.measure(session)
        assert len(forms) == len(METRICS), "one question per Job and metric"
        await meter.measure(session)
        assert len(forms) == len(METRICS), "and no more"
    await runner.cleanup()


@ON_SQLITE
async def test_hourly_usage_follows_metrics_api_samples_once_there_are_enough(database: Database) -> None:
    hour = BEGIN // HOUR * HOUR
    await write(database, [(pods, 1, ended_pod("p", "w", job=None, finished=None, released_high=None, bound=hour))], hour + 10)
    now = hour + HOUR + 600

    async def sample(mean: int, samples: int) -> None:
        row = {"pod": "p", "resource": "cpu", "since": hour, "mean": mean, "p95": 1, "largest": 1, "source": "metrics-server"}
        await write(database, [(pod_use, samples, {**row, "samples": samples})], now)

    async def used() -> list[tuple[int, int]]:
        await database.settle(now)
        async with database.reading() as connection:
            chosen = select(usage_hours).where(usage_hours.c.resource == "cpu").order_by(usage_hours.c.hour)
            return [(row["measured"], row["used"]) for row in (await connection.execute(chosen)).mappings()]

    await sample(500, 2)
    assert await used() == [(0, 0), (0, 0)], "two samples say nothing"
    await sample(500, 10)
    assert (await used())[1] == (2000 * 600, 500 * 600)
    await write(database, [(pods, 2, ended_pod("p", "w", job=None, bound=hour, finished=now, released_high=now))], now)
    await sample(700, 20)
    assert await used() == [(2000 * HOUR, 700 * HOUR), (2000 * 600, 700 * 600)]


def test_invalid_prometheus_url_is_refused() -> None:
    for url in ("prometheus:9090", "ftp://a", "http://"):
        with pytest.raises(ValueError, match="must be a URL like"):
            RecorderSettings(prometheus_url=url)
