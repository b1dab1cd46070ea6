"""What queues held in the past: the average, and who writes it to the queues."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api.keys import QUEUE_PAST_USAGE
from pyroclast.api.past_usage import MOST_BYTES, MOST_USERS, BadPastUsage, PastUsage, read_past_usage, written_past_usage
from pyroclast.api.types import QUEUES, Key
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import jobs, pods
from pyroclast_recorder.following.past_usage import PastUsageWriter, Used, bin_seconds, past_usage
from pyroclast_recorder.settings import RecorderSettings

from .conftest import ON_SQLITE, write
from .laboratory import Laboratory

HOUR = 3600
DAY = 24 * HOUR
NOW = 2_000_000_000 // DAY * DAY


def used(
    back: int, amount: int, *, queue: str = "q", user: str = "ann", resource: str = "nvidia.com/gpu", width: int = HOUR
) -> Used:
    """A time that began so many widths ago, in which so much was held."""
    return Used(NOW - back * width, queue, user, resource, amount * width)


@pytest.mark.parametrize(("half_life", "width"), [(DAY, HOUR), (7 * DAY, DAY)])
def test_average_usage_equals_a_constant_use_and_halves_one_half_life_after_it_ends(half_life: int, width: int) -> None:
    assert bin_seconds(half_life) == width
    count = 12 * half_life // width
    always = past_usage((used(back, 8000, width=width) for back in range(1, count)), NOW, half_life)["q"]
    assert always.held == {"nvidia.com/gpu": "8000m"}
    until = (used(back, 8000, width=width) for back in range(half_life // width + 1, count))
    assert past_usage(until, NOW, half_life)["q"].held == {"nvidia.com/gpu": "4000m"}


def test_past_usage_is_in_kubernetes_quantities_and_lists_users_by_descending_share() -> None:
    rows = [used(back, 3000, user="bob", resource="cpu") for back in range(1, 300)]
    rows += [used(back, 1000, user="ann", resource="cpu") for back in range(1, 300)]
    rows += [used(back, 2048, user="ann", resource="memory") for back in range(1, 300)]
    rows += [used(1, 1, user="eve", resource="cpu")]
    found = past_usage(rows, NOW, DAY)["q"]
    assert found.held == {"cpu": "4000m", "memory": "2000Mi"}
    assert list(found.users) == ["ann", "bob"], "ann had all of the memory, bob three quarters of the cpu"
    assert found.half_life == "24h0m0s"


amounts = st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=4)


@given(st.builds(PastUsage, half_life=st.text(max_size=9), held=amounts, users=st.dictionaries(st.text(), amounts, max_size=4)))
def test_past_usage_annotation_is_read_back_as_written(found: PastUsage) -> None:
    assert read_past_usage(written_past_usage(found)) == found


def test_past_usage_annotation_is_limited_in_bytes_and_users_and_bad_text_is_refused() -> None:
    users = {f"user-{n}-{'x' * 200}": {"cpu": "1m"} for n in range(1000)}
    text = written_past_usage(PastUsage(half_life="1h", held={"cpu": "1m"}, users=users))
    assert len(text) <= MOST_BYTES
    assert 10 < len(read_past_usage(text).users) <= MOST_USERS
    for bad in ("", "{}", "[", "x" * 40_000):
        with pytest.raises(BadPastUsage):
            read_past_usage(bad)


async def write_usage(database: Database, queue: str, begin: int, end: int, now: int) -> None:
    job = {"uid": "j", "namespace": "ns", "name": "a", "queue": queue, "submitted_by": "ann"}
    pod = {"uid": "p", "job": "j", "namespace": "ns", "requests": '{"cpu":1000}', "bound": begin}
    await write(database, [(jobs, 1, job), (pods, 1, {**pod, "finished": end, "released_high": end})], now)


async def test_used_since_returns_usage_in_bins_of_an_hour_or_a_day(database: Database) -> None:
    await write_usage(database, "q", NOW, NOW + 3 * HOUR, NOW + 3 * HOUR)
    await database.settle(NOW + 3 * HOUR)
    by_hour = await database.used_since(NOW, HOUR)
    assert sorted(by_hour) == [(NOW + at * HOUR, "q", "ann", "cpu", 1000 * HOUR) for at in range(3)]
    assert await database.used_since(NOW, DAY) == [(NOW, "q", "ann", "cpu", 3000 * HOUR)]
    assert len(await database.used_since(NOW + HOUR, HOUR)) == 2


def queue(name: str) -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}}


@ON_SQLITE
async def test_past_usage_annotation_is_written_to_queues_only_when_it_changed(laboratory: Laboratory) -> None:
    client, database = laboratory.client, laboratory.database
    laboratory.start()
    for name in ("busy", "fresh"):
        await client.create(QUEUES, queue(name))
    now = int(client.now())
    await write_usage(database, "busy", now - 30 * HOUR, now - HOUR, now)

    async def settle() -> None:
        await database.settle(now)

    writer = PastUsageWriter(client, database, settle, float(DAY))
    assert await writer.write() >= 2
    assert await writer.write() == 0
    said = {}
    for name in ("busy", "fresh"):
        annotations = (await client.get(QUEUES, Key("", name)))["metadata"]["annotations"]
        said[name] = read_past_usage(annotations[QUEUE_PAST_USAGE])
    assert said["busy"].users == {"ann": said["busy"].held}
    assert said["busy"].held["cpu"] in {"540m", "550m", "560m"}
    assert not said["fresh"].held


def test_past_usage_half_life_defaults_to_off_and_is_refused_below_one_hour() -> None:
    assert not RecorderSettings().past_usage_half_life
    with pytest.raises(ValueError, match="must be 0 or at least 1h"):
        RecorderSettings(past_usage_half_life="5m")  # type: ignore[arg-type]
