from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import cast

import pytest

from pyroclast.api import keys
from pyroclast.kube.http.client import Client
from pyroclast.runtime.leadership import Reports, identity, lead, shard_leases
from pyroclast.runtime.settings import LeaderElectionSettings, load

NO_CLIENT = cast("Client", None)


def test_generated_identities_are_unique() -> None:
    assert identity() != identity()


def test_shard_leases_have_the_configured_name_and_shard_number() -> None:
    settings = load(LeaderElectionSettings, {"leader-elect-resource-name": "lock", "leader-elect-shards": "2"})
    leases = shard_leases(NO_CLIENT, settings)
    assert leases.shards == 2
    assert [str(lease.key) for lease in leases._leases] == ["volcano-system/lock-0", "volcano-system/lock-1"]


def test_leader_elect_identity_replaces_the_generated_identity() -> None:
    named = load(LeaderElectionSettings, {"leader-elect-resource-name": "lock", "leader-elect-identity": "me"})
    plain = load(LeaderElectionSettings, {"leader-elect-resource-name": "lock"})
    assert shard_leases(NO_CLIENT, named).identity == "me"
    assert shard_leases(NO_CLIENT, plain).identity != shard_leases(NO_CLIENT, plain).identity


@pytest.mark.looptime
def test_lease_reports_the_version_and_a_problem_since_it_began() -> None:
    problem: tuple[str, str] | None = None
    now = 1_800_000_000.0
    reports = Reports({"a": "b"}, lambda: problem, lambda: now)
    assert dict(reports) == {"a": "b", keys.SERVICE_VERSION: version("pyroclast"), keys.SERVICE_PROBLEM: ""}
    problem = ("database", "disk\nfull")
    assert reports[keys.SERVICE_PROBLEM] == "database 2027-01-15T08:00:00Z disk full"
    now, problem = now + 60, ("database", "x" * 5000)
    assert reports[keys.SERVICE_PROBLEM].startswith("database 2027-01-15T08:00:00Z xxx")
    assert len(reports[keys.SERVICE_PROBLEM]) == 1024
    problem = None
    assert reports[keys.SERVICE_PROBLEM] == "", "the problem of a holder before is cleared too"


async def test_without_election_all_shards_are_led_at_once() -> None:
    settings = load(LeaderElectionSettings, {"leader-elect": "false", "leader-elect-shards": "3"})
    led: list[int] = []

    async def work(shard: int) -> None:
        led.append(shard)
        await asyncio.sleep(5)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await lead(NO_CLIENT, settings, work)
    assert led == [0, 1, 2]
