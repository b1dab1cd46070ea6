"""What the scheduler makes of run lengths that the recorder tells."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from pyroclast.api import records
from pyroclast.api.run_lengths import CONFIG_MAP, DATA_KEY, QUANTILES, Known, RunLengths, digest, written_run_lengths
from pyroclast_scheduler.explaining.lengths import GRID, Lengths, keys_of
from pyroclast_scheduler.shell import estimates as estimates_module
from pyroclast_scheduler.shell.estimates import Estimates, take_run_lengths
from tests.unit.logs import captured
from tests.unit.scheduler.explaining.test_estimates import facts_of

GOOD = tuple(float(100 + n) for n in range(QUANTILES))


def config_map(text):
    body = {"metadata": {"name": CONFIG_MAP, "namespace": "pyroclast-system"}, "data": {DATA_KEY: text}}
    return msgspec.convert(body, records.ConfigMap)


def estimates():
    return Estimates(None, None, None, now=lambda: 0.0, least_held=0.6)


def recorded(found):
    return found._estimator.lengths.recorded


def test_run_time_comes_from_the_most_specific_recorded_key_with_enough_samples():
    facts = facts_of()
    name, shape = map(digest, keys_of(facts))
    lengths = Lengths(recorded=RunLengths({name: Known(28, GOOD), shape: Known(214, GOOD)}))
    grid, basis = lengths.of(facts)
    assert (basis.kind, basis.count) == ("history", 214)
    assert (grid[0], grid[-1], grid.size) == (100.0, 115.0, GRID)
    lengths.recorded = RunLengths({name: Known(29, tuple(2 * each for each in GOOD)), shape: Known(214, GOOD)})
    assert lengths.of(facts)[0][0] == 200.0


def test_run_times_observed_by_the_scheduler_precede_recorded_run_times():
    facts = facts_of()
    lengths = Lengths(recorded=RunLengths({digest(keys_of(facts)[0]): Known(214, GOOD)}))
    for _ in range(29):
        lengths.ended(facts, 7.0)
    assert lengths.of(facts)[0] == pytest.approx(np.full(GRID, 7.0))


def test_a_declared_run_time_is_scaled_by_the_recorded_ratio_with_enough_samples():
    facts = facts_of(said="100s")
    lengths = Lengths(
        recorded=RunLengths({}, {digest("t"): Known(19, (3.0,) * QUANTILES), digest(""): Known(20, (2.0,) * QUANTILES)})
    )
    assert lengths.of(facts)[0] == pytest.approx(np.full(GRID, 200.0))
    assert lengths.of(facts)[1].kind == "declared"


def test_an_invalid_run_lengths_configmap_is_ignored_with_one_warning(monkeypatch):
    found, good = estimates(), config_map(written_run_lengths(RunLengths({"k": Known(30, GOOD)})))
    take_run_lengths(found, None, good)
    assert recorded(found).seconds["k"].count == 30
    bad = config_map("{")
    logs = captured(monkeypatch, estimates_module)
    take_run_lengths(found, good, bad)
    take_run_lengths(found, bad, bad)
    assert [(log["event"], log["configmap"]) for log in logs] == [("run_lengths.passed_over", f"pyroclast-system/{CONFIG_MAP}")]
    assert recorded(found).seconds["k"].count == 30, "the last good one holds"
    take_run_lengths(found, bad, None)
    assert recorded(found) == RunLengths()
