"""Fair shares over time: who used much in the past goes later, where that is asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api.past_usage import PastUsage, written_past_usage
from pyroclast_scheduler.model.demand import weighed
from pyroclast_scheduler.model.queues import QueueFacts
from tests.bench.past_usage import HOURS, WEIGHTS, draw, live
from tests.scenarios import objects
from tests.unit.docs.pages import DOCS, ROOT
from tests.unit.scheduler.session.test_causes import decide

PLOT = DOCS / "how-to" / "share-fairly-over-time.svg"
KEY = "scheduling.volcano.sh/past-usage"
PLUGINS = """
actions: "enqueue, allocate"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}]
- plugins: [{{name: drf, arguments: {{pastUsageWeight: {drf}}}}}, {{name: predicates}}, {{name: proportion, arguments: {{pastUsageWeight: {proportion}}}}}]
"""  # noqa: E501


def past(held=None, **users):
    return {"annotations": {KEY: written_past_usage(PastUsage(half_life="24h0m0s", held=held or {}, users=users))}}


def test_a_queue_without_past_usage_gets_a_larger_share_until_usage_is_even():
    """The plot of the documentation is of these courses."""
    courses = [live(weight, HOURS) for weight in WEIGHTS]
    without, *weighted = courses
    assert set(without.parts) == {0.5}
    for course, least in zip(weighted, (0.65, 0.85), strict=True):
        assert course.parts[0] > 0.9
        assert sum(course.parts[:12]) / 12 > least
        assert sum(course.parts[-12:]) / 12 == pytest.approx(0.5, abs=0.05)
    assert draw(courses) == PLOT.read_text(), f"python -m tests.bench.past_usage --plot {PLOT.relative_to(ROOT)}"


def placed_of(queues, plugins, users=("ann", "bob")):
    groups = [
        [
            user,
            f"q{at}" if len(queues) > 1 else "q0",
            1,
            {"minRes": {"cpu": 1}, "annotations": {"pyroclast.dev/submitted-by": user}},
        ]
        for at, user in enumerate(users)
    ]
    pods = [[f"{user}-0", user, "-", 1, 0] for user in users]
    case = {"nodes": [["n1", 1, "9Gi"]], "queues": queues, "podgroups": groups, "pods": pods}
    outcome, _ = decide(case, PLUGINS.format(**plugins))
    return {"t/ann", "t/bob"} - outcome.records.keys()


def test_drf_with_a_past_usage_weight_places_the_user_with_less_past_usage_first():
    heavy = past({"cpu": "900m"}, ann={"cpu": "800m"}, bob={"cpu": "100m"})
    assert placed_of([["q0", heavy]], {"drf": 0, "proportion": 0}) == {"t/ann"}
    assert placed_of([["q0", heavy]], {"drf": 1, "proportion": 0}) == {"t/bob"}
    assert placed_of([["q0", past({"cpu": "100m"})]], {"drf": 1, "proportion": 0}) == {"t/ann"}


weights = st.lists(st.integers(0, 2**31), min_size=1, max_size=6)


@given(weights, st.lists(st.floats(0, 1e3), min_size=6, max_size=6), st.floats(0, 100))
def test_weights_stay_positive_and_do_not_fall_for_queues_with_past_usage_below_their_share(own, past_shares, factor):
    before, used = np.array(own, dtype=np.float64), np.array(past_shares[: len(own)])
    after = weighed(before, used, factor)
    assert (after[before > 0] > 0).all()
    if before.any() and used.any():
        gains = before / before.sum() > used / used.sum()
        assert (after[gains] >= (before / before.sum())[gains]).all()


def test_queue_weights_change_by_the_difference_between_weight_and_past_usage():
    assert weighed(np.array([1.0, 1.0]), np.array([0.5, 0.5]), 1.0).tolist() == [0.5, 0.5]
    assert weighed(np.array([1.0, 1.0]), np.array([0.9, 0.0]), 1.0).tolist() == [0.005, 1.0]
    assert weighed(np.array([3.0, 1.0]), np.array([0.75, 0.25]), 2.0).tolist() == [0.75, 0.25]
    assert weighed(np.array([3.0, 1.0]), np.zeros(2), 2.0).tolist() == [3.0, 1.0]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"held":{}}', '{"halfLife":"1h","held":{"cpu":"much"}}', '{"halfLife":"1h","held":{"cpu":"-1"}}']
)
def test_a_malformed_past_usage_annotation_is_ignored_and_reported_as_a_fault(text):
    facts = QueueFacts(objects.queue(["q", {"annotations": {KEY: text}}]))
    assert not facts.past.held
    assert f"annotation {KEY}: " in facts.faults[0]
    assert "is passed over" in facts.faults[0]
