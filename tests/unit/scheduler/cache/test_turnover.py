"""The scheduler holds no more after weeks in which all names changed than after the first day."""

import subprocess
import sys
from pathlib import Path

import pytest

MOST = 1.1  # of what is held after the first day, in weeks
MOST_MORE = 100_000  # bytes more than after the first day, in a few days: what is held goes up and down by half of it
DAYS, SOAK_DAYS = 3, 30
FEW_STEPS, STEPS = 12, 24  # of a day


def held_by_day(days, steps):
    """Bytes that the scheduler holds after each day, in a process of its own: what other tests leave behind is not counted."""
    command = [sys.executable, "-m", "tests.unit.scheduler.cache.turnover", str(days), str(steps)]
    root = Path(__file__).parents[4]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=root).stdout
    found = [tuple(map(int, line.split())) for line in printed.splitlines()]
    assert len(found) == days
    assert found[-1][1] > 2 * days * steps, "Jobs start"
    return [held for held, _ in found]


@pytest.mark.timeout(600)
def test_scheduler_memory_does_not_grow_over_days_in_which_all_names_change():
    first, *later = held_by_day(DAYS, FEW_STEPS)
    assert max(later) <= first + MOST_MORE


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_scheduler_memory_grows_by_at_most_10_percent_in_thirty_days_of_changing_names():
    first, *later = held_by_day(SOAK_DAYS, STEPS)
    assert max(later) <= MOST * first
