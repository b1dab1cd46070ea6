"""When some nodes have room at once: by free amounts and the ends of pods."""

from __future__ import annotations

import pytest

from pyroclast.resources.quantity import ZERO, parse
from pyroclast.views.nodes import first_hole, free_steps, read_hole

NOW = 1000.0


def test_free_steps_add_what_ends_in_order_and_ignore_unknown_ends() -> None:
    eight, four = parse("8"), parse("4")
    steps = free_steps(ZERO, [(1300.0, four), (None, eight), (1100.0, eight), (1300.0, four)], NOW)
    assert steps == [(0.0, ZERO), (100.0, eight), (300.0, parse("16"))]
    assert free_steps(ZERO, [(500.0, four)], NOW)[-1] == (1.0, four), "an end that is past is expected at once"


@pytest.mark.parametrize(
    ("count", "amount", "want"), [(1, "8", 0.0), (2, "8", 60.0), (3, "8", None), (2, "9", None), (1, "4", 0.0)]
)
def test_first_hole_is_when_the_last_of_the_needed_nodes_has_room(count: int, amount: str, want: float | None) -> None:
    nodes = [[(0.0, parse("8"))], [(0.0, ZERO), (60.0, parse("8"))], [(0.0, parse("2"))]]
    assert first_hole(nodes, count, parse(amount)) == want


@pytest.mark.parametrize("text", ["", "4", "x8", "0x8", "4x0", "4x8x2", "4xe9", f"{'9' * 50}x1"])
def test_other_texts_name_no_hole(text: str) -> None:
    assert read_hole(text) is None
    assert read_hole("4x8") == (4, parse("8"))
