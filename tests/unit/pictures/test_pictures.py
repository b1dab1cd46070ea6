from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from pyroclast.pictures.bars import QueueBar, ResourceBar, queue_bars, resource_bars
from pyroclast.pictures.flow_graph import MOST_NODES, FlowNode, critical_path, flow_graph, in_layers
from pyroclast.pictures.heat_map import Cell, heat_map
from pyroclast.pictures.svg import Picture
from pyroclast.pictures.timeline import Lane, Span, timeline

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


SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ["<script>alert(1)</script>", '"onload="alert(1)', "a & b", "x\x00\x1b[31m\ud800"]


def drawn(picture: Picture) -> ET.Element:
    return ET.fromstring(picture.document())


def titled(picture: Picture) -> dict[str, dict[str, str]]:
    """The attributes of each shape by its title."""
    found = {}
    for each in drawn(picture).iter():
        title = each.find(f"{SVG}title")
        if title is not None and each.tag != f"{SVG}svg":
            found[title.text] = dict(each.attrib)
    return found


def resources(name: str, written: str) -> ResourceBar:
    amounts = {"total": 8.0, "allocated": 4.0, "reserved": 2.0, "away": 0.0}
    return ResourceBar(name, amounts, dict.fromkeys(amounts, written))


def texts(picture: Picture) -> list[str]:
    return [each.text or "" for each in drawn(picture).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    "draw",
    [
        lambda name: timeline(name, [Lane(name, (Span("waiting", 0, 1),))]),
        lambda name: queue_bars(name, [QueueBar(name, name, 1, written={"allocated": name})]),
        lambda name: flow_graph(name, [FlowNode(name, name, (name,), note=name)], {name: name}),
        lambda name: heat_map(name, {name: [Cell(name, 0.5, name)]}),
        lambda name: resource_bars(name, [resources(name, name)]),
    ],
    ids=["timeline", "queues", "flow", "nodes", "resources"],
)
@pytest.mark.parametrize("form", ["document", "inline"])
def test_hostile_names_stay_text(draw, name, form):
    root = ET.fromstring(getattr(draw(name), form)())
    allowed = {"svg", "title", "text", "rect", "line", "path"} | ({"style"} if form == "document" else set())
    assert {each.tag for each in root.iter()} <= {f"{SVG}{tag}" for tag in allowed}
    assert not [key for each in root.iter() for key in each.attrib if key.startswith("on")]
    assert root.find(f"{SVG}title").text == name.replace("\x00", "\ufffd").replace("\x1b", "\ufffd").replace("\ud800", "\ufffd")


def test_queue_bar_shows_deserved_share_then_borrowed_resources():
    bar = QueueBar("batch", "cpu", allocated=6, guarantee=1, deserved=4, limit=8, written={"borrowed": "2"})
    found = titled(queue_bars("queues", [bar]))
    own, borrowed, limit = found["batch cpu: allocated 6"], found["batch cpu: borrowed 2"], found["batch cpu: limit 8"]
    unit = float(limit["width"]) / 8
    assert float(own["width"]) == pytest.approx(4 * unit, abs=0.2)
    assert float(borrowed["width"]) == pytest.approx(2 * unit, abs=0.2)
    assert float(borrowed["x"]) == pytest.approx(float(own["x"]) + 4 * unit, abs=0.2)
    assert float(found["batch cpu: guarantee 1"]["x1"]) == pytest.approx(float(limit["x"]) + unit, abs=0.2)
    assert float(found["batch cpu: deserved 4"]["x1"]) == pytest.approx(float(limit["x"]) + 4 * unit, abs=0.2)


def test_queues_of_one_resource_share_a_scale():
    found = titled(queue_bars("queues", [QueueBar("a", "cpu", 2, limit=4), QueueBar("b", "cpu", 1), QueueBar("b", "gpu", 1)]))
    assert float(found["a cpu: allocated 2"]["width"]) == pytest.approx(2 * float(found["b cpu: allocated 1"]["width"]))
    assert float(found["b gpu: allocated 1"]["width"]) > float(found["a cpu: allocated 2"]["width"])


def test_queue_picture_without_queues_shows_its_title():
    assert texts(queue_bars("nothing", []))[0] == "nothing"


DIAMOND = [
    FlowNode("fetch", "Completed", (), 10),
    FlowNode("left", "Completed", ("fetch",), 5),
    FlowNode("right", "Running", ("fetch",), 50),
    FlowNode("join", "Waiting", ("left", "right")),
]


def test_a_flow_is_laid_out_by_the_longest_path():
    longer = [*DIAMOND, FlowNode("late", "Waiting", ("fetch", "join", "gone"))]
    assert [{each.name for each in layer} for layer in in_layers(longer)] == [{"fetch"}, {"left", "right"}, {"join"}, {"late"}]


def test_flow_entries_are_ordered_without_crossing_lines():
    nodes = [FlowNode("a", ""), FlowNode("b", ""), FlowNode("of-b", "", ("b",)), FlowNode("of-a", "", ("a",))]
    first, second = in_layers(nodes)
    assert [each.name.removeprefix("of-") for each in second] == [each.name for each in first]


def test_the_critical_path_is_the_chain_that_took_longest():
    assert critical_path(DIAMOND) == ("fetch", "right")
    assert critical_path([FlowNode("a", "Waiting")]) == ()


def test_flow_picture_marks_entries_on_the_critical_path():
    found = titled(flow_graph("flow", DIAMOND, {"fetch": "10s"}))
    assert "fetch: Completed 10s, on the critical path" in found
    assert "left: Completed" in found
    assert "critical" in found["right: Running, on the critical path"]["class"]


@pytest.mark.parametrize("wants", [("a",), ("b",)])
def test_flow_with_a_dependency_cycle_is_drawn(wants):
    nodes = [FlowNode("a", "Running", wants, 1), FlowNode("b", "Running", ("a",), 1)]
    assert {each.name for layer in in_layers(nodes) for each in layer} == {"a", "b"}
    assert critical_path(nodes)
    assert "a" in texts(flow_graph("circle", nodes, {}))


def test_a_large_flow_is_one_box_per_depth():
    chain = [FlowNode("0", "Completed", (), 1)] + [FlowNode(str(i), "Completed", (str(i - 1),), 1) for i in range(1, 5000)]
    assert len(critical_path(chain)) == 5000
    wide = [
        FlowNode("first", "Completed"),
        *(FlowNode(f"n{i}", "Failed" if i % 3 else "Running", ("first",)) for i in range(MOST_NODES)),
    ]
    shown = texts(flow_graph("wide", wide, {}))
    assert "depth 0: 1 entries" in shown
    assert any("133 Failed, 67 Running" in each for each in shown)
    assert len(drawn(flow_graph("wide", wide, {})).findall(f"{SVG}rect")) == 4


def test_heat_map_colours_nodes_by_their_free_share():
    found = titled(
        heat_map("cpu", {"rack-1": [Cell("n1", 0.0, "0 of 8 cpu free"), Cell("n2", 1.0)], "rack-2": [Cell("n3", None)]})
    )
    assert len({found[name]["fill"] for name in ("n1: 0 of 8 cpu free", "n2", "n3")}) == 3
    assert {"0", "100", "–", "rack-1", "rack-2"} <= set(
        texts(heat_map("cpu", {"rack-1": [Cell("n1", 0.0), Cell("n2", 1.0)], "rack-2": [Cell("n3", None)]}))
    )


def test_nodes_of_a_job_are_outlined():
    found = titled(heat_map("cpu", {"": [Cell("n1", 0.5, is_outlined=True), Cell("n2", 0.5)]}))
    assert "critical" in found["n1"]["class"]
    assert "class" not in found["n2"]


def test_resource_bar_shows_its_nonzero_parts_side_by_side():
    found = titled(resource_bars("resources", [resources("cpu", "x")]))
    whole, allocated, reserved = found["cpu: x in all"], found["cpu: x allocated"], found["cpu: x reserved"]
    assert float(allocated["width"]) == pytest.approx(float(whole["width"]) / 2)
    assert float(reserved["x"]) == pytest.approx(float(allocated["x"]) + float(allocated["width"]))
    assert float(reserved["width"]) == pytest.approx(float(whole["width"]) / 4)
    assert "cpu: x away" not in found


def test_groups_of_nodes_are_side_by_side_until_the_row_is_full():
    found = titled(heat_map("cpu", {f"rack-{rack}": [Cell(f"n{rack}-{n}", 1.0) for n in range(8)] for rack in range(3)}))
    first, second, third = (found[f"n{rack}-0"] for rack in range(3))
    assert first["y"] == second["y"]
    assert float(second["x"]) > float(found["n0-7"]["x"])
    assert float(third["y"]) > float(first["y"])
    assert third["x"] == first["x"]


def test_nodes_that_are_kept_have_a_frame():
    found = titled(heat_map("cpu", {"": [Cell("n1", 0.5, is_kept=True), Cell("n2", 0.5)]}))
    assert found["n1"]["class"] == "kept"
    assert "class" not in found["n2"]


def test_inline_picture_has_its_title_above_the_view_box():
    inline = ET.fromstring(queue_bars("queues", [QueueBar("a", "cpu", 1)]).inline())
    top = float(inline.attrib["viewBox"].split()[1])
    assert [each.text for each in inline.iter(f"{SVG}text") if float(each.attrib["y"]) < top] == ["queues"]


def test_picture_document_sets_a_background_for_light_and_dark_schemes():
    style = drawn(flow_graph("one", [], {})).find(f"{SVG}style").text
    _, light, dark = style.split("@media(prefers-color-scheme:dark)")
    assert light.rstrip().endswith("svg.picture{background:#fff}")
    assert dark.rstrip() == "{svg.picture{background:#1a202c}}"
    assert "background" not in flow_graph("one", [], {}).inline()
