"""Estimates of starts: how long jobs run, when there is room, and how well that was foretold."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from pyroclast_scheduler.explaining import estimates
from pyroclast_scheduler.explaining.annotations import Start
from pyroclast_scheduler.explaining.book import WaitingBook
from pyroclast_scheduler.explaining.calibration import Calibration, Interval, Score
from pyroclast_scheduler.explaining.estimates import Estimator, PassInput, begin
from pyroclast_scheduler.explaining.lengths import GRID, UNKNOWN, Basis, Lengths, kaplan_meier, keys_of, remaining
from pyroclast_scheduler.explaining.simulation import HORIZON, World, scenario, seeds
from pyroclast_scheduler.model.reservations import Lock, Reservation
from tests.bench.estimates import Day, live, read_trace, told_over
from tests.scenarios import objects
from tests.unit.scheduler.session.test_causes import CAPACITY, decide

LEVELS = np.linspace(0, 1, GRID)
EVEN = np.linspace(0, 100, GRID)[None, :]
ESTIMATE = "scheduling.volcano.sh/running-estimate"


def fixed(seconds):
    return np.full(GRID, float(seconds))


def world(held, ends, asked, lengths, *, free=0.0, limits=None, queues=None):
    """One resource; queues by number, the last one without limit."""
    limits = np.array([[each] for each in limits or []] + [[np.inf]])
    last = len(limits) - 1
    chains = np.array([[queue, last] for queue in queues or [last] * len(asked)])
    used = np.zeros_like(limits)
    return World(
        np.array([float(free)]),
        used,
        limits,
        np.array([fixed(each) for each in ends]).reshape(-1, GRID),
        np.array(held, dtype=float).reshape(-1, 1),
        np.full((len(held), 2), last),
        np.array(asked, dtype=float).reshape(-1, 1),
        np.array([fixed(each) for each in lengths]).reshape(-1, GRID),
        chains,
        [f"j{i}" for i in range(len(asked))],
        seeds(f"r{i}" for i in range(len(held))),
        seeds(f"j{i}" for i in range(len(asked))),
    )


def starts(given, number=1):
    return scenario(given, number).tolist()


def test_a_waiting_job_starts_when_enough_running_jobs_have_ended():
    assert starts(world([4, 4], [100, 50], [8], [10])) == [100.0]


def test_waiting_jobs_start_in_order_unless_only_a_later_small_job_fits():
    assert starts(world([8], [60], [8, 4, 4], [30, 10, 10])) == [60.0, 90.0, 90.0]
    assert starts(world([4, 4], [60, 100], [8, 4], [30, 10])) == [100.0, 60.0], "a small one passes a large one, as it does here"


def test_a_queue_limit_delays_the_start_of_its_next_job():
    assert starts(world([8], [60], [4, 4], [30, 10], limits=[4], queues=[0, 0])) == [60.0, 90.0]


def test_a_job_that_waits_for_a_job_without_an_end_never_starts():
    given = dataclasses.replace(world([8], [60], [8], [10]), ends=UNKNOWN[None, :])
    assert starts(given) == [np.inf]
    assert starts(world([8], [HORIZON + 1], [8], [10])) == [np.inf]


def test_a_repeated_simulation_gives_the_same_starts():
    chance = np.random.default_rng(3)
    held, asked = chance.integers(1, 9, 50), chance.integers(1, 30, 200)
    given = world(held, chance.integers(1, 900, 50), asked, chance.integers(1, 900, 200))
    assert starts(given) == starts(given)


def test_the_random_end_of_a_job_is_uniform_and_independent_of_other_jobs():
    keys = [f"n/j-{i}" for i in range(2000)]
    alone = [starts(dataclasses.replace(world([4], [1], [4], [1]), ends=EVEN, running=seeds([key])))[0] for key in keys]
    both = dataclasses.replace(
        world([4, 4], [1, 1], [8], [1]), ends=np.concatenate([EVEN, EVEN]), running=seeds(["n/j-0", "n/j-1"])
    )
    assert starts(both) == [max(alone[:2])]
    assert np.quantile(alone, [0.1, 0.5, 0.9]) == pytest.approx([10, 50, 90], abs=4), "all values are as likely"


def test_kaplan_meier_estimate_counts_jobs_that_still_run():
    assert np.interp([0.0, 0.5, 1.0], LEVELS, kaplan_meier([10, 20, 30, 40], [])) == pytest.approx([10, 20, 40], abs=2)
    longer = kaplan_meier([10, 20, 30, 40], [35, 35, 35, 35])
    assert np.interp(0.5, LEVELS, longer) > 29


def test_remaining_run_time_depends_on_the_elapsed_time():
    assert np.interp([0.0, 0.5, 1.0], LEVELS, remaining(EVEN[0], 60.0)) == pytest.approx([0, 20, 40], abs=1)
    outlived = remaining(EVEN[0], 200.0)
    assert outlived[0] > 0
    assert outlived[-1] < 2 * 200 * 2
    assert not np.isfinite(remaining(UNKNOWN, 5.0)).any()


def facts_of(name="train-12", *, said="", queue="q", cpu=4):
    options = {"phase": "Running", "minRes": {"cpu": cpu}, "annotations": {ESTIMATE: said} if said else {}}
    rows = {"podgroups": [[name, queue, 1, options]], "pods": [[f"{name}-0", name, "n1", cpu, 0]]}
    _, cache = decide({"nodes": [["n1", 64, "99Gi"]], **rows}, CAPACITY)
    return cache.jobs.all_facts()[f"t/{name}"]


def test_run_time_is_learned_from_ended_jobs_with_similar_names():
    lengths, facts = Lengths(), facts_of()
    assert lengths.of(facts)[1].kind == "unknown"
    for i in range(29):
        lengths.ended(facts_of(f"train-{i}"), 100.0 + i)
    grid, basis = lengths.of(facts)
    assert (basis.kind, basis.count) == ("history", 29)
    assert (grid[0], grid[-1]) == (100.0, 128.0)
    assert keys_of(facts)[0] == "name/t/train"


def test_a_declared_run_time_is_corrected_by_earlier_jobs_of_its_owner():
    lengths, facts = Lengths(), facts_of(said="100s")
    grid, basis = lengths.of(facts)
    assert (basis.kind, grid[0], grid[-1]) == ("declared", 50.0, 200.0)
    for _ in range(20):
        lengths.ended(facts, 300.0)
    assert lengths.of(facts)[0] == pytest.approx(fixed(300))


def test_calibration_stretches_intervals_until_about_80_percent_hold():
    chance, calibration, held = random.Random(2), Calibration(), []
    for _ in range(1500):
        raw = Interval(90.0, 100.0, 110.0)
        told = calibration.stretched("q", raw)
        score = Score(raw, told, chance.lognormvariate(np.log(150), 0.5))
        held.append(score.held)
        calibration.add("q", score)
    assert 0.78 <= np.mean(held[500:]) <= 0.90


def test_a_queue_with_wrong_estimates_gets_a_reason_instead_of_estimates():
    calibration, interval = Calibration(), Interval(90.0, 100.0, 110.0)
    for _ in range(200):
        calibration.add("q", Score(interval, interval, 5000.0))
    assert not calibration.is_trusted("q", 0.6)
    assert calibration.is_trusted("q", 0.0)
    assert calibration.is_trusted("r", 0.6)
    estimator = Estimator(calibration=calibration)
    done = pass_of(estimator)
    estimator.take(done)
    assert estimator.start("t/mine", objects.NOW) == "only 0 of the last 200 estimates of queue q held, and the least is 60%"
    shown = Estimator(0.0, calibration=calibration)
    shown.take(done)
    start = shown.start("t/mine", objects.NOW)
    assert start.basis.endswith("; 0 of the last 200 estimates of queue q held")
    assert shown.start("t/mine", start.likely + 1).earliest >= start.likely + 1
    assert "was to start by" in shown.start("t/mine", start.latest)


@pytest.mark.parametrize(
    "interval", [Interval(30, 4000, 604800), Interval(30, 600, 36000), Interval(0, 0, 0.5), Interval(1, 9, 9)]
)
def test_no_estimate_names_a_time_in_the_past(interval):
    for minute in range(500):
        now = objects.NOW + 60.25 * minute
        start = estimates._rounded(now, interval, "")
        assert now <= start.earliest <= start.likely <= start.latest
        assert abs(start.likely - now - interval.likely) <= max(1.0, interval.likely / 4)


def test_five_wrong_estimates_of_a_queue_are_enough_for_none_to_be_shown():
    calibration, interval = Calibration(), Interval(90.0, 100.0, 110.0)
    for count in range(5):
        assert calibration.is_trusted("q", 0.6), count
        calibration.add("q", Score(interval, interval, 5000.0))
    assert not calibration.is_trusted("q", 0.6)


def test_overdue_predictions_widen_later_estimates_before_their_jobs_start():
    calibration, interval = Calibration(), Interval(90.0, 100.0, 110.0)
    for i in range(200):
        calibration.add("q", Score(interval, interval, 91.0 + i / 11))
    before = calibration.stretched("q", interval)
    late = [Score(interval, interval, 1000.0)] * 40
    calibration.wait_for({"q": late})
    after = calibration.stretched("q", interval)
    assert after.latest > 5 * before.latest, "a fifth is late: what is told next is wider"
    assert calibration.is_trusted("q", 0.6)
    calibration.wait_for({"q": late * 3})
    assert not calibration.is_trusted("q", 0.6)
    calibration.wait_for({})
    assert calibration.stretched("q", interval) == before


def test_an_estimation_pass_finds_overdue_predictions():
    many = [[f"mine-{i}", "q", 1, {"phase": "Pending", "minRes": {"cpu": 8}}] for i in range(25)]
    estimator, tables = Estimator(), {**TABLES, "podgroups": [TABLES["podgroups"][0], *many]}
    estimator.lengths = Known()
    estimator.take(pass_of(estimator, tables=tables))
    assert estimator.calibration.held("q") is None
    late = begin(estimator, dataclasses.replace(scene_of(tables), now=objects.NOW + 10**7))
    while not late.is_done:
        late.step()
    estimator.take(late)
    assert estimator.calibration.held("q") == 0.0
    assert estimator.calibration.count("q") == 0, "they are scored when their jobs start"


class Known(Lengths):
    """Every job runs for a minute."""

    def of(self, facts, elapsed=()):
        return np.full(GRID, 60.0), Basis("declared", 0)


TABLES = {
    "nodes": [["n1", 8, "99Gi"]],
    "podgroups": [
        ["big", "q", 1, {"phase": "Running", "minRes": {"cpu": 8}, "annotations": {ESTIMATE: "1h"}}],
        ["mine", "q", 1, {"phase": "Pending", "minRes": {"cpu": 8}}],
        ["never", "q", 1, {"phase": "Pending", "minRes": {"cpu": 80}}],
        ["closed", "shut", 1, {"phase": "Pending", "minRes": {"cpu": 1}}],
    ],
    "queues": [["q", {}], ["shut", {"state": "Closed"}]],
    "pods": [["big-0", "big", "n1", 8, 0]],
}


def scene_of(tables=TABLES, reservations=None):
    outcome, cache = decide(tables, CAPACITY)
    book = WaitingBook()
    book.take(outcome.records, outcome.seen, objects.NOW, since={})
    return PassInput(book, cache.view(), reservations or {}, objects.NOW)


def pass_of(estimator, *, after=0.0, **more):
    given = scene_of(**more)
    made = begin(estimator, dataclasses.replace(given, now=given.now + after))
    while not made.is_done:
        made.step()
    return made


def test_an_estimate_is_an_interval_or_a_reason():
    estimator = Estimator()
    estimator.take(pass_of(estimator))
    start = estimator.start("t/mine", objects.NOW)
    assert isinstance(start, Start)
    assert 1000 < start.earliest - objects.NOW < start.likely - objects.NOW < start.latest - objects.NOW < 11000
    assert start.basis == "1 declared run time; not yet measured in queue q"
    assert estimator.start("t/never", objects.NOW) == "waiting alone does not help"
    assert estimator.start("t/closed", objects.NOW) == "nobody knows when QueueClosed passes"
    assert estimator.start("t/other", objects.NOW) == "no estimate has been made yet"


def test_an_estimate_stays_stable_while_nothing_changes():
    found = []
    for after in range(0, 600, 60):
        estimator = Estimator()
        estimator.take(pass_of(estimator, after=float(after)))
        found.append(estimator.start("t/mine", objects.NOW))
    step = (found[0].latest - found[0].earliest) / 10
    assert all(abs(each.likely - found[0].likely) <= step for each in found), found


def test_a_start_is_not_estimated_if_the_run_time_of_a_blocking_job_is_unknown():
    groups = [["big", "q", 1, {"phase": "Running", "minRes": {"cpu": 8}}], TABLES["podgroups"][1]]
    estimator = Estimator()
    estimator.take(pass_of(estimator, tables={**TABLES, "podgroups": groups}))
    assert estimator.start("t/mine", objects.NOW) == "the run time of a Job that holds what is short is not known"


def test_the_latest_start_of_a_job_with_a_reservation_is_the_promised_time():
    promise = Reservation(
        job="t/mine", uid="mine", scheduler="volcano", promise=objects.NOW + 5000, locks=(Lock("n1", objects.NOW),)
    )
    estimator = Estimator()
    estimator.take(pass_of(estimator, reservations={"t/mine": promise}))
    start = estimator.start("t/mine", objects.NOW)
    assert isinstance(start, Start)
    step = (start.latest - start.earliest) / 10
    assert start.latest == pytest.approx(objects.NOW + 5000, abs=step)


def test_a_prediction_is_scored_when_its_job_starts():
    estimator = Estimator()
    estimator.take(pass_of(estimator))
    running = facts_of("mine", cpu=8)
    estimator.saw("t/mine", running, objects.NOW + 3000)
    assert estimator.calibration.count("q") == 1
    assert estimator.start("t/mine", objects.NOW) == "no estimate has been made yet"
    estimator.saw("t/mine", None, objects.NOW + 4000)
    assert estimator.calibration.held("q") is None


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_about_80_percent_of_simulated_starts_fall_into_the_estimated_interval():
    queues = live(Day(0.95, seconds=86400.0))
    judged = {queue: held for queue, held in queues.items() if len(held.scores) >= 200}
    assert judged
    for queue, held in judged.items():
        assert 0.72 <= held.held <= 0.88, (queue, str(held))
        assert max(held.early, held.late) <= 0.16, (queue, str(held))


SWF = """; Version: 2.2
; MaxProcs: 64
"""


def test_a_recorded_trace_is_played_and_scored():
    lines = [f"{n} {1000 + 60 * n} -1 600 32 -1 -1 32 {900 if n % 2 else -1} -1 1 1 1 -1 2 -1 -1 -1" for n in range(60)]
    trace = read_trace([*SWF.splitlines(), *lines, "61 9 -1 -1 8 -1 -1 8 -1 -1 0 1 1 -1 2 -1 -1 -1"])
    assert (trace.processors, len(trace.jobs), trace.jobs[0].at, trace.jobs[1].said) == (64, 60, 0.0, 900.0)
    held = live(Day(0.0, seconds=4 * 3600.0, pause=300.0, trace=trace))
    assert set(held) == {"queue-2"}
    assert len(held["queue-2"].scores) > 20
    with pytest.raises(ValueError, match="line 1 has 2 fields"):
        read_trace(["1 2"])


@pytest.mark.timeout(600)
def test_when_run_times_grow_tenfold_estimates_are_wider_or_withheld_before_200_further_jobs():
    noon = 2.5 * 3600.0
    by_queue = told_over(Day(1.1, seconds=noon + 3.2 * 3600.0, slower=(noon, 10.0), pause=600.0))
    assert by_queue
    for queue, told in by_queue.items():
        submitted = max(each.submitted for each in told if each.at < noon)
        before = [each.width for each in told if each.at < noon and each.starts]
        last = [each for each in told if each.at >= noon and each.submitted <= submitted + 200][-1]
        assert not last.starts or last.width > 2 * np.median(before), queue
        assert last.held is not None
        assert last.held < 0.6, "what the alert EstimatesAreWrong watches"
