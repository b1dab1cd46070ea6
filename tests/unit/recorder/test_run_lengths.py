"""How long Jobs ran: the quantiles, the ConfigMap that tells them, and who writes it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api.run_lengths import (
    CONFIG_MAP,
    DATA_KEY,
    MOST_BYTES,
    MOST_KEYS,
    QUANTILES,
    BadRunLengths,
    Known,
    RunLengths,
    digest,
    read_run_lengths,
    written_run_lengths,
)
from pyroclast.api.types import CONFIG_MAPS, JOBS, POD_GROUPS, Key
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.client import PatchKind
from pyroclast_recorder.database.batches import Batch
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import job_alikes, jobs
from pyroclast_recorder.following.run_lengths import RunLengthsWriter, kaplan_meier, run_lengths
from pyroclast_scheduler.explaining import lengths as scheduler

from .conftest import ON_SQLITE
from .laboratory import Laboratory

NOW = 2_000_000_000
LEVELS = np.linspace(0, 1, QUANTILES)
TRAIN = "name/research/train"

times = st.lists(st.integers(1, 10**6).map(float), max_size=60)


@given(times.filter(bool), times)
def test_kaplan_meier_quantiles_match_those_of_the_scheduler(ends: list[float], cut: list[float]) -> None:
    found = kaplan_meier(ends, cut)
    fine = scheduler.kaplan_meier(ends, cut)
    assert list(found) == sorted(found)
    assert min(ends) <= found[0] <= found[-1] <= max(ends)
    assert (found[0], found[-1]) == pytest.approx((fine[0], fine[-1]))
    levels = np.linspace(0, 1, scheduler.GRID)
    below, above = np.interp(LEVELS - 1 / scheduler.GRID, levels, fine), np.interp(LEVELS + 1 / scheduler.GRID, levels, fine)
    assert all(low - 1e-6 <= each <= high + 1e-6 for low, each, high in zip(below, found, above, strict=True))


def run(length: int, phase: str = "Completed", alike: str = TRAIN, **more: Any) -> dict[str, Any]:
    end = NOW - 100
    row = {"phase": phase, "started": end - length, "ended": end, "removed": None, "estimate": None, "owner": digest("ann")}
    return {**row, "alike": digest(alike), **more}


def test_run_lengths_are_published_only_for_keys_with_at_least_29_ends() -> None:
    few, enough = [run(10 + n) for n in range(28)], [run(10 + n) for n in range(29)]
    assert run_lengths(few, NOW) == RunLengths()
    known = run_lengths(enough, NOW).seconds[digest(TRAIN)]
    assert (known.count, known.quantiles[0], known.quantiles[-1]) == (29, 10.0, 38.0)


def test_running_and_aborted_jobs_raise_the_run_length_quantiles() -> None:
    ends = [run(10 + n) for n in range(40)]
    running = [run(0, "Running", ended=None, started=NOW - 45) for _ in range(40)]
    ended = [run(45, "Aborted") for _ in range(40)]
    alone, beside, cut = (run_lengths(rows, NOW).seconds[digest(TRAIN)] for rows in (ends, ends + running, ends + ended))
    assert alone.count == beside.count == cut.count == 40
    assert beside == cut
    assert alone.quantiles[8] < 31
    assert 45 <= beside.quantiles[8] <= 49
    shorter = run_lengths(ends + [run(20, "Terminated") for _ in range(40)], NOW).seconds[digest(TRAIN)]
    assert shorter.quantiles[10] > alone.quantiles[10] + 2


def test_run_lengths_use_only_the_newest_ends_of_a_key() -> None:
    rows = [run(1000) for _ in range(300)] + [run(10) for _ in range(1000)]
    known = run_lengths(rows, NOW).seconds[digest(TRAIN)]
    assert set(known.quantiles) == {1000.0}


def test_estimate_accuracy_is_published_per_owner_and_overall() -> None:
    rows = [run(200, estimate="100s", owner=digest(f"user-{n % 2}")) for n in range(40)]
    rows += [run(200, estimate=text) for text in ("soon", "", "0s", "-5m")]
    worth = run_lengths(rows, NOW).worth
    assert worth.keys() == {digest(""), digest("user-0"), digest("user-1")}
    assert set(worth[digest("user-0")].quantiles) == {2.0}
    assert worth[digest("")].count == 40


def test_run_lengths_text_is_limited_in_size_and_keeps_recently_used_keys_first() -> None:
    wide = tuple(10.0 ** (n % 7) * 1.234 for n in range(QUANTILES))
    many = RunLengths({digest(str(n)): Known(2**50, tuple(sorted(wide))) for n in range(5000)})
    text = written_run_lengths(many)
    assert len(text) <= MOST_BYTES
    kept = read_run_lengths(text).seconds
    assert 1000 < len(kept) <= MOST_KEYS
    assert kept.keys() == {digest(str(n)) for n in range(len(kept))}
    rows = [run(10 + n, alike="old", ended=NOW - 5000, started=NOW - 6000) for n in range(40)] + [run(10) for _ in range(40)]
    assert list(run_lengths(rows, NOW).seconds) == [digest(TRAIN), digest("old")]


known = st.builds(
    Known,
    st.integers(1, 2**53),
    st.lists(st.floats(0, 1e12), min_size=QUANTILES, max_size=QUANTILES).map(lambda values: tuple(sorted(values))),
)


@given(st.dictionaries(st.text(), known, max_size=5), st.dictionaries(st.text(), known, max_size=5))
def test_run_lengths_text_is_read_back_as_written(seconds: dict[str, Known], worth: dict[str, Known]) -> None:
    found = read_run_lengths(written_run_lengths(RunLengths(seconds, worth)))
    assert found.seconds.keys() == seconds.keys()
    for name, each in worth.items():
        assert found.worth[name].count == each.count
        assert found.worth[name].quantiles == pytest.approx(each.quantiles, rel=0.01)


SIXTEEN = ",".join("1" * QUANTILES)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "run-lengths.json: "),
        ("[]", "run-lengths.json: "),
        ("{}", "version"),
        ('{"version":2}', "version is 2; 1 is read"),
        ('{"version":1,"seconds":{"k":[29,[1,2]]}}', "seconds.k: there must be 16 quantiles, none below the one before"),
        (f'{{"version":1,"seconds":{{"k":[29,[2,{SIXTEEN[2:]}]]}}}}', "none below the one before"),
        (f'{{"version":1,"worth":{{"k":[0,[{SIXTEEN}]]}}}}', ">= 1"),
        (f'{{"version":1,"worth":{{"k":[1,[-{SIXTEEN}]]}}}}', ">= 0"),
        (f'{{"version":1,"worth":{{"k":[1,[{SIXTEEN[:-1]}1e999]]}}}}', "run-lengths.json: "),
        ("[" * 100_000, "run-lengths.json: "),
        (" " * (MOST_BYTES + 1), f"at most {MOST_BYTES} are read"),
    ],
)
def test_invalid_run_lengths_text_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(BadRunLengths, match=r"run-lengths\.json") as refused:
        read_run_lengths(text)
    assert why in str(refused.value)


async def test_runs_query_returns_the_newest_ended_jobs_and_the_running_job(database: Database) -> None:
    batch = Batch(database.cluster)
    for number in range(10):
        job = {"uid": f"j{number}", "phase": "Completed", "started": 100, "ended": 200 + number}
        batch.add(jobs, 1, job if number else {**job, "phase": "Running", "ended": None})
        if number != 5:
            batch.add(job_alikes, 1, {"job": f"j{number}", "alike": f"k{number}", "owner": "o", "at": 100})
    batch.add(jobs, 1, {"uid": "waits", "phase": "Pending"})
    await database.write(batch, 1000)
    found = await database.runs(204, 3)
    assert [row["alike"] for row in found] == ["k9", "k8", "k7", "k0"]
    assert [row["alike"] for row in await database.runs(204, 99)] == ["k9", "k8", "k7", "k6", "k4", "k0"]


JOB = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train-1", "namespace": "default"},
    "spec": {
        "minAvailable": 1,
        "queue": "research",
        "tasks": [{"name": "w", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}],
    },
}


@ON_SQLITE
async def test_recorder_stores_name_key_shape_key_and_owner_of_a_running_job(laboratory: Laboratory) -> None:
    client = laboratory.client
    made = await client.create(JOBS, JOB)
    status = {"state": {"phase": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"}}
    await client.patch(JOBS, Key("default", "train-1"), {"status": status}, PatchKind.MERGE, subresource="status")
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train-1", "uid": made["metadata"]["uid"]}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train-1-g", "namespace": "default", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"minMember": 1, "queue": "research", "minResources": {"cpu": "2"}},
    }
    await client.create(POD_GROUPS, group)
    laboratory.start()
    async with asyncio.timeout(60):
        while not await laboratory.database.runs(0, 10):
            await asyncio.sleep(0.05)
    await laboratory.stop()
    (row,) = await laboratory.database.runs(0, 10)
    assert row["alike"] == f"{digest('name/default/train')},{digest('shape/research/1/cpu=2')}"
    assert row["owner"] == digest("default")


@ON_SQLITE
async def test_run_lengths_configmap_is_created_if_missing_and_updated_only_on_change(laboratory: Laboratory) -> None:
    client, database, key = laboratory.client, laboratory.database, Key("default", CONFIG_MAP)
    laboratory.start()
    batch = Batch(database.cluster)
    now = int(client.now())
    for number in range(40):
        times = {"started": now - 1000, "ended": now - 900 + number}
        batch.add(jobs, 1, {"uid": f"j{number}", "phase": "Completed", **times})
        batch.add(job_alikes, 1, {"job": f"j{number}", "alike": digest(TRAIN), "owner": "o", "at": now})
    await database.write(batch, now)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, key)
    writer = RunLengthsWriter(client, database, "default")
    assert await writer.write()
    assert not await writer.write()
    first = await client.get(CONFIG_MAPS, key)
    known = read_run_lengths(first["data"][DATA_KEY]).seconds[digest(TRAIN)]
    assert (known.count, known.quantiles[0], known.quantiles[-1]) == (40, 100, 139)
    assert not await RunLengthsWriter(client, database, "default").write(), "the next leader knows what is written"
    await client.patch(CONFIG_MAPS, key, {"data": {DATA_KEY: "nonsense"}}, PatchKind.MERGE)
    assert await RunLengthsWriter(client, database, "default").write()
    assert json.loads((await client.get(CONFIG_MAPS, key))["data"][DATA_KEY])["version"] == 1
