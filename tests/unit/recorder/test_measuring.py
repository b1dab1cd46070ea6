"""What pods use of what they asked for."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from sqlalchemy import select

from pyroclast.api.types import CRDS, PODS, Key
from pyroclast.views.usage import advice_of, efficiency_rows
from pyroclast_recorder.app import Recorder, RecorderMetrics
from pyroclast_recorder.database.tables import pod_use
from pyroclast_recorder.following.measuring import MOST, POD_METRICS, Fold
from pyroclast_recorder.reading.outcomes import measured_of, use_of
from pyroclast_recorder.settings import RecorderSettings
from tests.pod_metrics import POD_METRICS_CRD

from .conftest import ON_SQLITE
from .laboratory import Laboratory, ended, pod


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=2000))
def test_folded_samples_keep_count_mean_maximum_and_p95(values: list[int]) -> None:
    fold = Fold(0)
    for value in values:
        fold.add(value)
    row = fold.row()
    assert (row["samples"], row["mean"], row["largest"]) == (len(values), sum(values) // len(values), max(values))
    assert min(values) <= row["p95"] <= max(values)
    if len(values) <= MOST:
        assert row["p95"] == sorted(values)[min(len(values) - 1, len(values) * 95 // 100)]


def used(pod_: str, mean: int, samples: int, *, since: int = 0, resource: str = "cpu") -> dict[str, Any]:
    numbers = {"mean": mean, "p95": mean, "largest": 2 * mean, "samples": samples}
    return {"pod": pod_, "resource": resource, "since": since, **numbers}


def held_pod(uid: str, seconds: int = 100) -> dict[str, Any]:
    times = {"bound": 1000, "released_high": 1000 + seconds, "released_low": None, "finished": 1000 + seconds}
    return {"uid": uid, "name": uid, "requests": '{"cpu":2000,"memory":1024}', **times}


def test_samples_of_two_replicas_are_merged_per_pod_and_too_few_are_ignored() -> None:
    found = measured_of([used("a", 100, 10), used("a", 400, 20, since=5), used("b", 100, 2)])
    assert (found["a"]["cpu"].mean, found["a"]["cpu"].samples, found["a"]["cpu"].largest) == (300, 30, 800)
    assert "b" not in found, "two samples say nothing"


def test_resource_use_counts_only_measured_pods() -> None:
    measured = measured_of([used("a", 500, 10), used("b", 1500, 10)])
    found = use_of([held_pod("a"), held_pod("b", 300), held_pod("c")], measured, 9999)
    sums = {"used": 500 * 100 + 1500 * 300, "of": 2000 * 400, "samples": 20}
    assert found == {"cpu": {**sums, "peak": 3000, "peakPod": "b", "peakOf": 2000}}


USE = {"used": 3600 * 1024, "of": 3600 * 4096, "peak": 1024, "peakPod": "w-1", "peakOf": 4096, "samples": 20}


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        ({"memory": USE}, "memory: at most 1Gi of 4Gi used; 1.25Gi would do"),
        ({"memory": {**USE, "samples": 19}}, ""),
        ({"memory": {**USE, "peak": 3500}}, ""),
        ({"memory": USE, "cpu": {**USE, "peak": 100}}, "cpu: at most 100m of 4096m used; 125m would do"),
        ({}, ""),
        (None, ""),
    ],
)
def test_efficiency_advice_names_the_largest_saving_or_is_empty(use: Any, advice: str) -> None:
    assert advice_of({"use": use}) == advice


def test_efficiency_of_an_unmeasured_resource_is_none() -> None:
    job = {"asked": {"cpu": 7_200_000, "memory": 3600 * 4096}, "tasks": [], "use": {"memory": USE}}
    cpu, memory = efficiency_rows(job)
    assert (cpu["usedHours"], cpu["peak"], cpu["efficiency"]) == (None, None, None)
    assert (memory["usedHours"], memory["peak"], memory["efficiency"], memory["peakPod"]) == (1.0, "1Gi", "25%", "w-1")


@ON_SQLITE
async def test_pod_usage_is_sampled_repeatedly_from_the_metrics_api(laboratory: Laboratory) -> None:
    await laboratory.client.create(CRDS, POD_METRICS_CRD)
    await laboratory.server.settle()
    await laboratory.put(pod("a"))
    await laboratory.put(pod("b"))
    for name, cpu in (("a", "1500m"), ("gone", "9")):
        metadata = {"name": name, "namespace": "default"}
        body = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": metadata}
        usage = {"cpu": cpu, "memory": "512Mi"}
        await laboratory.client.create(POD_METRICS, {**body, "containers": [{"name": "c", "usage": usage}]})
    settings = RecorderSettings(metrics_period=timedelta(seconds=0.1))
    recorder = Recorder(laboratory.client, laboratory.database, settings, RecorderMetrics(CollectorRegistry()))
    laboratory.running.append(asyncio.create_task(recorder.record(0)))
    await laboratory.until(lambda rows: "a" in rows and rows["a"]["phase"] == "Running")
    await asyncio.sleep(2.0)
    await laboratory.end("a", **ended("2026-01-01T00:10:00Z"))
    await laboratory.client.delete(PODS, Key("default", "a"))

    async def rows() -> dict[str, Any]:
        async with laboratory.database.reading() as connection:
            found = (await connection.execute(select(pod_use))).mappings()
            return {row["resource"]: dict(row) for row in found}

    async with asyncio.timeout(60):
        while not (found := await rows()) or found["cpu"]["samples"] < 3:
            await asyncio.sleep(0.1)
    assert set(found) == {"cpu", "memory"}
    assert (found["cpu"]["mean"], found["cpu"]["largest"], found["memory"]["mean"]) == (1500, 1500, 512)
    assert found["cpu"]["source"] == "metrics-server"
