"""Arguments of plugins and actions: what is of the wrong type or out of range keeps its default, and says so."""

import pytest

from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.configuration import Configuration, PluginEntry
from tests.scenarios import runner
from tests.unit.scheduler import deciding


def minute(given):
    return given.seconds("a", "1m")


NO_DURATION = "is not a duration of 0s or more; using '1m'"
READINGS = {
    "an integer": (lambda given: given.integer("a", 3, least=0), 7, 7, ""),
    "the least that is allowed": (lambda given: given.integer("a", 3, least=0), 0, 0, ""),
    "one below it": (lambda given: given.integer("a", 3, least=0), -1, 3, "-1 is not 0 or more; using 3"),
    "one above the most": (lambda given: given.integer("a", 3, least=0, most=5), 6, 3, "6 is not from 0 to 5; using 3"),
    "a quoted integer": (lambda given: given.integer("a", 3), "7", 3, "'7' is not an integer; using 3"),
    "the largest integer": (lambda given: given.integer("a", 3), 2**63 - 1, 2**63 - 1, ""),
    "one above it": (lambda given: given.integer("a", 3), 2**63, 3, f"{2**63} is not an integer of 64 bits; using 3"),
    "one below the smallest": (
        lambda given: given.integer("a", 3),
        -(2**63) - 1,
        3,
        f"{-(2**63) - 1} is not an integer of 64 bits; using 3",
    ),
    "an integer that no float holds": (
        lambda given: given.number("a", 0.5),
        10**309,
        0.5,
        f"{10**309} is not a finite number; using 0.5",
    ),
    "an endless number": (lambda given: given.number("a", 0.5), float("-inf"), 0.5, "-inf is not a finite number; using 0.5"),
    "an integer for a number": (lambda given: given.number("a", 0.5, least=0), 2, 2.0, ""),
    "no number": (lambda given: given.number("a", 0.5, least=0), float("nan"), 0.5, "nan is not 0 or more; using 0.5"),
    "a bool as text": (lambda given: given.boolean("a", default=False), "T", True, ""),
    "a text": (lambda given: given.text("a", "d"), "e", "e", ""),
    "a number for a text": (lambda given: given.text("a", "d"), 4, "d", "4 is not a string; using 'd'"),
    "a duration": (minute, "90s", 90.0, ""),
    "a duration without unit": (minute, "90", 60.0, f"'90' {NO_DURATION}"),
    "a negative duration": (minute, "-1s", 60.0, f"'-1s' {NO_DURATION}"),
    "a number for a duration": (minute, 90, 60.0, f"90 {NO_DURATION}"),
    "a duration that is too short": (
        lambda given: given.seconds("a", "1s", least="1ms"),
        "0s",
        1.0,
        "'0s' is not a duration of 1ms or more; using '1s'",
    ),
}


@pytest.mark.parametrize(("read", "value", "want", "want_warning"), READINGS.values(), ids=READINGS.keys())
def test_a_valid_argument_is_read_and_an_invalid_argument_keeps_its_default_with_a_warning(read, value, want, want_warning):
    arguments = Arguments({"a": value})
    assert read(arguments) == want
    assert arguments.warnings == ([f"argument a: {want_warning}"] if want_warning else [])


def test_an_absent_argument_has_its_default_and_one_that_nobody_reads_is_unknown():
    arguments = Arguments({"left": 1})
    assert (arguments.integer("absent", 3), arguments.problems()) == (3, ["argument left is unknown"])


def test_a_nested_section_reports_invalid_and_unknown_arguments_with_their_path():
    arguments = Arguments({"outer": {"inner": {"wrong": -1, "odd": 1}, "strange": 1}})
    inner = arguments.section("outer").section("inner")
    assert inner.integer("wrong", 2, least=0) == 2
    assert arguments.problems() == [
        "argument outer.inner.wrong: -1 is not 0 or more; using 2",
        "argument outer.strange is unknown",
        "argument outer.inner.odd is unknown",
    ]


def test_an_unknown_argument_with_a_typo_is_reported_with_the_nearest_key_of_its_section():
    arguments = Arguments({"wieght": 1, "odd": 2, "outer": {"laest": 3, "kept": 4}})
    arguments.integer("weight", 1)
    arguments.section("outer").integer("least", 1)
    assert arguments.problems({"outer.kept"}) == [
        "argument odd is unknown",
        "argument wieght is unknown; did you mean weight?",
        "argument outer.laest is unknown; did you mean least?",
    ]


def test_a_section_that_is_not_a_mapping_is_empty_with_a_warning():
    arguments = Arguments({"outer": [1]})
    assert dict(arguments.section("outer")) == {}
    assert arguments.warnings == ["argument outer: [1] is not a mapping; using {}"]


INNER = ("resources", "resourceWeight", "resourceProportion", "cpu", "enable")
ODD_SHAPES = (None, True, -1, 1.5, "x", [], [1], {}, {"a": 1}, [{"name": "lowNodeUtilization", "params": [1]}])


@pytest.mark.parametrize("name", registry.plugins())
def test_every_plugin_is_constructed_with_arguments_of_any_shape(name):
    factory = registry.plugins()[name]
    arguments = Arguments()
    factory(arguments)
    for key in arguments.known:
        for value in ODD_SHAPES:
            factory(Arguments({key: value}))
            factory(Arguments({key: dict.fromkeys(INNER, value)}))


HUGE = (2**63 - 1, -(2**63), 10**400, 1e308)
NODES = [["n0", 4, "8Gi"], ["n1", 8, "8Gi"]]


def decided(name, arguments):
    """Where a pod is bound beside plugin `name` with these arguments, and what is warned of."""
    cache = Cache()
    tables = {"nodes": NODES, "queues": [["q"]], "podgroups": [["g", "q", 1]], "pods": [["p", "g", "-", 1, "1Gi"]]}
    runner.feed(cache, tables)
    entries = (PluginEntry("gang"), PluginEntry("predicates"), PluginEntry("nodeorder"), PluginEntry(name, arguments=arguments))
    outcome, placed = deciding.decided(cache, Configuration(("allocate",), (entries,)))
    return list(placed.items()), [text for text in outcome.warnings if text.startswith(f"plugin {name}")]


@pytest.mark.parametrize("name", sorted(registry.plugins().keys() - {"extender"}))
def test_a_session_completes_with_huge_numbers_as_plugin_arguments(name):
    arguments = Arguments()
    registry.plugins()[name](arguments)
    for key in arguments.known:
        for value in HUGE:
            decided(name, {key: value})


def test_a_weight_beyond_64_bits_is_defaulted_with_a_warning_and_the_largest_int64_is_accepted():
    assert decided("binpack", {"binpack.weight": 10, "binpack.cpu": 2**70}) == (
        [("t-p", "n0")],
        [f"plugin binpack: argument binpack.cpu: {2**70} is not an integer of 64 bits; using 1"],
    )
    full = decided("binpack", {"binpack.weight": 2**63 - 1, "binpack.cpu": 2**63 - 1})
    assert full == ([("t-p", "n0")], [])
