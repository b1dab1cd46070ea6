from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from pyroclast.pictures.timeline import Lane, Span, timeline

SVG = "{http://www.w3.org/2000/svg}"
LANES = [
    Lane("gang-worker-0", (Span("waiting", 0, 2), Span("starting", 2, 3), Span("running", 3, 10))),
    Lane("gang-worker-1", (Span("waiting", 0, 5),)),
]


def bars(text: str) -> dict[str, tuple[float, float]]:
    """Left edge and width of each bar, by its title."""
    found = {}
    for each in ET.fromstring(text).iter(f"{SVG}rect"):
        title = each.find(f"{SVG}title")
        if title is not None:
            found[title.text] = (float(each.attrib["x"]), float(each.attrib["width"]))
    return found


def test_bars_are_as_long_as_their_stages():
    found = bars(timeline("default/gang", LANES).document())
    begin, whole = found["gang-worker-0: waiting from 0 s to 2 s"][0], found["gang-worker-0: running from 3 s to 10 s"]
    scale = whole[1] / 7
    assert found["gang-worker-1: waiting from 0 s to 5 s"] == pytest.approx((begin, 5 * scale), abs=0.2)
    assert whole[0] == pytest.approx(begin + 3 * scale, abs=0.2)


def test_timeline_without_pods_has_no_bars():
    assert bars(timeline("default/empty", []).document()) == {}


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (10, ["0 s", "2 s", "10 s"]),
        (600, ["0 s", "2 min", "10 min"]),
        (36_000, ["0 s", "2 h", "10 h"]),
        (864_000, ["2 d", "10 d"]),
    ],
)
def test_ticks_have_the_unit_that_fits(seconds, want):
    root = ET.fromstring(timeline("default/gang", [Lane("gang-worker-0", (Span("running", 0, seconds),))]).document())
    assert set(want) <= {each.text for each in root.iter(f"{SVG}text")}
