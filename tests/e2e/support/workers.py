"""Several processes that share the end-to-end tests: which modules begin first, and how one judges what all of them did.

Each worker has control planes of its own, and runs the tests of a module from the first to the last.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.audit import Audit
from tests.e2e.support.cluster import wait_until

LONGEST = (
    "queues/test_reservation",
    "install/test_installation",
    "volcano/test_recorded",
    "install/test_images",
    "faults/test_outage",
    "flows/test_flows",
    "faults/test_faults",
    "queues/test_reservation_promise",
    "newcomers/test_half_hour",
    "newcomers/test_examples",
    "faults/test_two_replicas",
    "scheduling/test_waiting",
    "cli/test_kubectl",
    "jobs/test_frameworks",
    "gangs/test_exact_gangs",
)
"""Modules that keep a worker busy for long, which therefore begin first."""

OTHERS_SECONDS = 1800.0
"""How long others may still be at work when a worker has nothing else to do."""


def module_of(item: pytest.Item) -> str:
    """The module of a test, as the Makefile names it."""
    return f"{item.path.parent.name}/{item.path.stem}"


def rank_of(item: pytest.Item) -> tuple[bool, int]:
    """Where a test stands in the order: the longest modules first, what judges the whole run last."""
    module = module_of(item)
    return item.get_closest_marker("last") is not None, LONGEST.index(module) if module in LONGEST else len(LONGEST)


def leave(config: pytest.Config, audit: Audit | None) -> None:
    """Tell the others where the audit log of this worker is, now that it is whole; None where its tests made none."""
    if hasattr(config, "workerinput"):
        file = _left_by(config, config.workerinput["workerid"])
        part = file.with_suffix(".part")
        part.write_text(json.dumps({"log": str(audit.log), "starts": audit.starts} if audit else None))
        part.rename(file)


def audits_of_others(config: pytest.Config) -> list[Audit]:
    """The audit logs of all other workers, once these have ended; none where one process runs everything."""
    here: dict[str, Any] = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 1})
    others = {f"gw{number}" for number in range(here["workercount"])} - {here["workerid"]}
    files = [_left_by(config, worker) for worker in sorted(others)]
    wait_until(lambda: all(file.exists() for file in files), "the other workers to end", seconds=OTHERS_SECONDS)
    return [Audit(Path(left["log"]), left["starts"]) for left in (json.loads(file.read_text()) for file in files) if left]


def _left_by(config: pytest.Config, worker: str) -> Path:
    return Path(config.getoption("basetemp")).parent / f"audit-of-{worker}.json"
