"""Flows in Python: what they compile to, what cannot be compiled, and how they run here."""

import base64
import os
import subprocess
import sys

import pytest
import yaml

import pyroclast.client as pc
from pyroclast.lifecycle.flow import expressions
from pyroclast_client import errors
from pyroclast_client.compilation import Surroundings
from pyroclast_client.flow_handles import remaining_flow
from pyroclast_client.results import decoded
from pyroclast_client.runner import sealing

AROUND = Surroundings("default", image="py", store="file:///shared")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No module that the tests have loaded is one of the project's own."""
    monkeypatch.chdir(tmp_path)


@pc.task
def extract(day: str) -> list[int]:
    return [int(each) for each in day.split("-")]


@pc.task
def clean(part: int) -> int:
    return part * 2


@pc.task(retries=3, backoff="1s", gang=2)
def train(parts: list[int]) -> int:
    return sum(parts)


@pc.task
def alarm() -> None:
    raise RuntimeError("alarm")


@pc.task
def report() -> str:
    return "done"


@pc.flow(keep=False)
def nightly(day: str):
    raw = extract(day)
    parts = clean.each(raw, count=3, parallel=2)
    with pc.when(parts):
        fit = train(parts)
    with pc.otherwise():
        bell = alarm()
    report.after(fit, bell, any=True)()
    return fit


def entries_of(flow, *arguments):
    made = flow.call(*arguments).compiled(AROUND)
    suffix = "-" + made.flow["metadata"]["name"].rpartition("-")[2]
    text = yaml.safe_dump(made.flow["spec"]["flows"]).replace(suffix, "")
    return {entry.pop("name"): entry for entry in yaml.safe_load(text)}


def test_flow_compiles_to_entries_with_dependencies_conditions_loops_and_retries():
    assert entries_of(nightly, "2026-11-24") == {
        "extract": {},
        "clean": {"dependsOn": {"targets": ["extract"]}, "for": {"count": 3, "parallel": 2}},
        "train": {
            "dependsOn": {"targets": ["clean"]},
            "if": {"target": "clean", "phase": ["Completed"]},
            "else": ["alarm"],
            "retry": {"limit": 3, "backoff": "1s"},
        },
        "alarm": {},
        "report": {"dependsOn": {"targets": ["train", "alarm"], "strategy": "any"}},
    }


def test_flow_entries_each_have_a_jobtemplate_and_share_one_secret():
    made = nightly.call("2026-11-24").compiled(AROUND)
    assert [each["metadata"]["name"] for each in made.templates] == [each["name"] for each in made.flow["spec"]["flows"]]
    assert {name for name in made.secret["data"] if name.startswith("payload")} == {f"payload-{name}" for name in made.names}
    fitting = made.templates[2]["spec"]
    assert fitting["minAvailable"] == fitting["tasks"][0]["replicas"] == 2
    assert made.flow["spec"]["jobRetainPolicy"] == "delete"


def test_project_modules_are_stored_once_for_all_flow_entries(tmp_path, monkeypatch):
    (tmp_path / "own_steps.py").write_text(f"BLOB = {os.urandom(40 << 10)!r}\n\n\ndef size():\n    return len(BLOB)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_steps  # the tests' project

    @pc.flow
    def many():
        for _ in range(40):  # 1.6 MiB, if each carried them
            pc.task(own_steps.size)()

    data = many.call().compiled(Surroundings("default", image="py")).secret["data"]
    assert len([name for name in data if name.startswith("modules-")]) == 1
    assert len([name for name in data if name.startswith("payload-")]) == 40
    for name, text in data.items():
        (tmp_path / name).write_bytes(base64.b64decode(text))
    told = tmp_path / "message"
    environment = {"PYROCLAST_PAYLOAD": "payload-size-40", "PYROCLAST_POD_UID": "uid", "PYROCLAST_TERMINATION_LOG": str(told)}
    monkeypatch.delitem(sys.modules, "own_steps")
    (tmp_path / "own_steps.py").unlink()
    subprocess.run([sys.executable, str(tmp_path / "runner.pyz")], env=environment, cwd=tmp_path, check=True)
    found = sealing.opened((tmp_path / "key").read_bytes(), told.read_text(), 0, "uid")
    assert decoded(found, sealing.inline(found), what="w", name="size").value == 40 << 10


def test_equal_flow_calls_compile_equally_and_other_arguments_change_the_name():
    made, again, other = (nightly.call(day).compiled(AROUND) for day in ("2026-11-24", "2026-11-24", "2026-11-25"))
    assert made == again
    assert made.flow["metadata"]["name"] != other.flow["metadata"]["name"]


def test_combined_when_conditions_become_an_if_expression():
    @pc.flow
    def choosing():
        first, second = report(), report()
        with pc.when(first.failed & ~(second.exit_code == 3)), pc.when(second.failed):
            alarm()

    entry = entries_of(choosing)["alarm"]
    assert entry["dependsOn"]["targets"] == ["report", "report-2"]
    assert entry["if"]["expression"] == (
        '((targets["report"].phase == "Failed") && (!(targets["report-2"].exitCode == 3)))'
        ' && (targets["report-2"].phase == "Failed")'
    )


def test_when_listening_becomes_a_tcp_socket_probe():
    @pc.flow
    def serving():
        server = report()
        alarm.after(server.when_listening(8080))()

    assert entries_of(serving)["alarm"]["dependsOn"] == {
        "targets": ["report"],
        "probe": {"tcpSocketList": [{"taskName": "main", "port": 8080}]},
    }


@pc.flow
def switching():
    loaded = extract("1")
    with loaded.switch() as case:
        with case(exit_code=3):
            alarm()
        with case(phase="Failed"):
            repaired = report()
            clean.after(repaired)(1)
        with pc.otherwise():
            report()


def test_switch_compiles_to_an_entry_with_cases_and_a_default():
    entries = entries_of(switching)
    assert entries["switch-extract"] == {
        "switch": {
            "on": "extract",
            "cases": [{"exitCode": 3, "entries": ["alarm"]}, {"phase": "Failed", "entries": ["report", "clean"]}],
            "default": ["report-2"],
        }
    }
    assert entries["alarm"] == entries["report-2"] == {}
    made = switching.call().compiled(AROUND)
    assert len(made.templates) == 5  # the choice has none
    assert switching.call().compiled(AROUND) == made


def test_switch_is_evaluated_when_a_flow_runs_locally():
    seen = []

    @pc.task
    def ended(fails: bool) -> None:
        if fails:
            raise OSError("no")

    @pc.task
    def note(what: str) -> None:
        seen.append(what)

    @pc.flow
    def choosing(fails: bool):
        with ended(fails).switch() as case:
            with case(phase="Terminated"):
                note("terminated")
            with case(phase="Failed"):
                note("failed")
            with pc.otherwise():
                note("else")

    choosing.local(True)
    choosing.local(False)
    assert seen == ["failed", "else"]


def test_patch_option_becomes_the_patch_of_the_flow_entry_and_is_validated():
    @pc.flow
    def patched():
        report.using(patch={"tasks": [{"name": "main", "replicas": 2}], "ttlSecondsAfterFinished": 60})()

    made = patched.call().compiled(AROUND)
    (entry,) = made.flow["spec"]["flows"]
    assert entry["patch"] == {"spec": {"tasks": [{"name": "main", "replicas": 2}], "ttlSecondsAfterFinished": 60}}
    assert made.templates[0]["spec"]["tasks"][0]["replicas"] == 1

    @pc.flow
    def wrong():
        report.using(patch={"tasks": [{"name": "main", "replicas": -1}]})()

    with pytest.raises(errors.Rejected, match="replicas"):
        wrong.call().compiled(AROUND)


def retried(flow, **phases):
    """The entries that are left, without the letters of the submission."""
    made = flow.call("2026-11-24") if flow is nightly else flow.call()
    document = made.compiled(AROUND).flow
    suffix = "-" + document["metadata"]["name"].rpartition("-")[2]
    document["metadata"]["uid"] = "u"
    names = {name.replace("_", "-") + suffix: phase for name, phase in phases.items()}
    text = yaml.safe_dump(remaining_flow(document, names)["spec"]["flows"]).replace(suffix, "")
    return {entry.pop("name"): entry for entry in yaml.safe_load(text)}


def test_entries_skipped_by_a_settled_choice_are_not_retried():
    left = retried(nightly, extract="Completed", clean="Completed", train="Failed", alarm="Skipped", report="Waiting")
    assert left == {"train": {"retry": {"limit": 3, "backoff": "1s"}}, "report": {}}
    done = {"extract": "Failed", "switch_extract": "Completed", "report_2": "Skipped", "alarm": "Skipped"}
    again = retried(switching, **done, report="Completed", clean="Failed")
    assert again["switch-extract"]["switch"] == {
        "on": "extract",
        "cases": [{"exitCode": 3, "entries": ["alarm"]}, {"phase": "Failed", "entries": ["clean"]}],
        "default": ["report-2"],
    }
    chosen = {"extract": "Completed", "switch_extract": "Completed", "report_2": "Failed"}
    assert retried(switching, **chosen, alarm="Skipped", report="Skipped", clean="Skipped") == {"report-2": {}}


def a_call_beside_the_cases():
    with report().switch():
        alarm()


def a_case_of_nothing():
    with report().switch() as case, case():
        alarm()


def a_case_of_a_phase_that_is_no_end():
    with report().switch() as case, case(phase="Running"):
        alarm()


def an_empty_switch():
    with report().switch():
        pass


def a_switch_in_a_choice():
    node = report()
    with pc.when(node), node.switch() as case, case(exit_code=1):
        alarm()


def a_when_in_a_case():
    node = report()
    with node.switch() as case, case(exit_code=1), pc.when(node):
        alarm()


def a_truth():
    if report():
        alarm()


def a_length():
    len(extract("1"))


def a_loop():
    for _ in extract("1"):
        alarm()


def an_unknown_length():
    clean.each(extract("1"))


def an_item():
    clean(extract("1")[0])


def a_block_as_a_condition():
    if pc.when(report()):
        alarm()


def a_case_as_a_condition():
    with report().switch() as case:
        if case(exit_code=3):
            alarm()


def a_lonely_otherwise():
    with pc.otherwise():
        alarm()


def a_value_of_no_node():
    alarm()
    return 3


def no_task():
    pass


@pytest.mark.parametrize(
    ("function", "instead"),
    [
        (a_truth, "with pc.when(node.succeeded):"),
        (a_length, "node.items(COUNT)"),
        (a_loop, "task.each(node.items(COUNT))"),
        (an_unknown_length, "each(extract, count=COUNT)"),
        (an_item, "a task that takes it out of its argument"),
        (a_block_as_a_condition, "with pc.when(...):"),
        (a_case_as_a_condition, "with pc.when(...):"),
        (a_lonely_otherwise, "with pc.when"),
        (a_call_beside_the_cases, "with case(exit_code=3):"),
        (a_case_of_nothing, "case(exit_code=3)"),
        (a_case_of_a_phase_that_is_no_end, "Completed, Failed, Terminated, Aborted"),
        (an_empty_switch, "with case(exit_code=3):"),
        (a_switch_in_a_choice, "node.switch() at the top of the flow"),
        (a_when_in_a_case, "with pc.when(~condition & other):"),
        (a_value_of_no_node, "return what a task gave"),
        (no_task, "call functions with @pc.task"),
    ],
)
def test_uncompilable_flow_raises_flow_error_with_file_line_and_alternative(function, instead):
    with pytest.raises(errors.FlowError) as caught:
        pc.flow(function).call().compiled(AROUND)
    line = function.__code__.co_firstlineno
    assert any(str(caught.value).startswith(f"{__file__}:{line + more}: ") for more in range(4)), caught.value
    assert instead in str(caught.value)


OPERATIONS = {
    "equal": lambda value: value == "good",
    "equal-reflected": lambda value: value == 3,
    "in": lambda value: value in ["good", "bad"],
    "match": lambda value: [1 for each in [value] if each != "good"],
    "less": lambda value: value < 3,
    "greater-reflected": lambda value: sorted([value, 3]),
    "plus": lambda value: value + 1,
    "plus-reflected": lambda value: "model of " + value,
    "sum": lambda value: sum([value]),
    "percent": lambda value: "%s" % value,  # noqa: UP031 - what users write
    "f-string": lambda value: f"model of {value}",
    "format": lambda value: format(value, ">3"),
    "str": str,
    "int": int,
    "float": float,
    "round": round,
    "negative": lambda value: -value,
    "index": lambda value: [1, 2][value],
    "truth": bool,
    "and": lambda value: value and 3,
    "not": lambda value: not value,
}
OF_NODES = {
    **OPERATIONS,
    "attribute": lambda value: value.mean,
    "call-of-an-attribute": lambda value: value.lower(),
    "array": lambda value: value.__array__(),
}
COMPARED = {"less", "greater-reflected", "equal-reflected"}  # conditions, if the exit code is compared with a number
OF_VALUES = {"equal", "equal-reflected", "less"}  # conditions, if the value is compared with a constant


@pytest.mark.parametrize("use", [use for name, use in OF_NODES.items() if name not in OF_VALUES])
def test_operation_on_a_value_that_does_not_exist_yet_raises_flow_error(use):
    @pc.flow
    def using():
        use(extract("1"))

    with pytest.raises(errors.FlowError, match=r"(has no value yet|is not known yet), cannot be compiled; use `"):
        using.call().compiled(AROUND)
    with pytest.raises(errors.FlowError, match=r"(has no value yet|is not known yet)"):
        using.local()


COMPARISONS = {
    "good": (lambda value: value == "good", '== "good"'),
    "a quote": (lambda value: value != 'a"\n\u00e9', '!= "a\\"\\n\u00e9"'),
    "3": (lambda value: value >= 3, ">= 3"),
    "from the left": (lambda value: value < 0.5, "< 0.5"),
    "a boolean": (lambda value: value == True, "== true"),  # noqa: E712 - what users write
}


@pytest.mark.parametrize(("compared", "want"), COMPARISONS.values(), ids=COMPARISONS)
def test_comparison_of_a_value_with_a_constant_becomes_a_condition_on_its_outputs(compared, want):
    @pc.flow
    def choosing():
        with pc.when(compared(report()) & compared(report())):
            alarm()

    entry = entries_of(choosing)["alarm"]
    one, other = (f'targets["{name}"].outputs.value {want}' for name in ("report", "report-2"))
    assert entry["if"]["expression"] == f"({one}) && ({other})"
    assert expressions.check(entry["if"]["expression"], expressions.CONDITION) == ""


@pytest.mark.parametrize("other", [None, [1], float("nan"), {}], ids=str)
def test_comparison_with_what_a_flow_cannot_compare_raises_flow_error(other):
    @pc.flow
    def choosing():
        with pc.when(report() == other):
            alarm()

    with pytest.raises(errors.FlowError, match="with a string, a number or a boolean"):
        choosing.call().compiled(AROUND)


@pytest.mark.parametrize(("value", "ran"), [(0.95, ["high"]), (0.5, ["low"])])
def test_comparison_of_a_value_chooses_in_a_flow_that_runs_here(value, ran):
    seen = []

    @pc.task
    def grade() -> float:
        return value

    @pc.task
    def note(what: str) -> None:
        seen.append(what)

    @pc.flow
    def choosing():
        with pc.when(grade() > 0.9):
            note("high")
        with pc.otherwise():
            note("low")

    choosing.local()
    assert seen == ran


def test_runner_shows_short_scalars_beside_the_sealed_result():
    values = [0.5, "x", True, 7, None, [1], "x" * 300, float("inf")]
    assert [sealing.shown(value) for value in values] == [*({"value": value} for value in values[:4]), {}, {}, {}, {}]


@pytest.mark.parametrize("use", [use for name, use in OPERATIONS.items() if name not in COMPARED])
@pytest.mark.parametrize("part", ["exit_code", "failed"])
def test_operation_on_an_outcome_that_is_not_known_yet_raises_flow_error(part, use):
    @pc.flow
    def using():
        use(getattr(report(), part))

    with pytest.raises(errors.FlowError, match=r"does not exist yet|not known yet"):
        using.call().compiled(AROUND)


@pytest.mark.parametrize(
    "use", [list, bool, len, lambda value: value == [], lambda value: value[0]], ids=["loop", "if", "len", "equal", "item"]
)
def test_operation_on_items_that_do_not_exist_yet_raises_flow_error(use):
    @pc.flow
    def using():
        use(extract("1").items(3))

    with pytest.raises(errors.FlowError, match="on the items of extract"):
        using.call().compiled(AROUND)


def test_exit_codes_are_compared_with_numbers_when_the_flow_runs():
    @pc.flow
    def choosing():
        code = report().exit_code
        with pc.when((code > 2) & (code <= 9) & (code != 5)):
            alarm()

    text = entries_of(choosing)["alarm"]["if"]["expression"]
    assert text == (
        '((targets["report"].exitCode > 2) && (targets["report"].exitCode <= 9)) && (targets["report"].exitCode != 5)'
    )


def test_nodes_are_still_keys_and_have_a_representation_for_a_debugger():
    @pc.flow
    def keeping():
        node = report()
        assert {node: 1}[node] == 1
        assert node in [node, 3]
        assert repr(node) == "<node report>"

    keeping.call().compiled(AROUND)


def test_flow_that_passes_a_value_requires_a_store_and_mere_ordering_does_not():
    @pc.flow
    def handing():
        train(extract("1-2"))

    @pc.flow
    def ordering():
        report.after(alarm())()

    with pytest.raises(errors.Usage, match="the value of extract is handed to another task, which needs a store"):
        handing.call().compiled(Surroundings("default", image="py"))
    ordering.call().compiled(Surroundings("default", image="py"))


@pytest.mark.parametrize("block", [lambda: pc.when("a"), pc.otherwise], ids=["when", "otherwise"])
def test_when_and_otherwise_outside_a_flow_raise_flow_error(block):
    with pytest.raises(errors.FlowError, match="outside a flow"), block():
        pass


def test_flow_runs_locally_and_raises_unhandled_task_errors():
    assert nightly.local("2026-11-24") == 2 * (2026 + 11 + 24)

    @pc.task
    def broken() -> None:
        raise OSError("no")

    @pc.flow
    def tolerant():
        bad = broken()
        with pc.when(bad.failed):
            return report()

    @pc.flow
    def intolerant():
        return report.after(broken())()

    assert tolerant.local() == "done"
    with pytest.raises(OSError, match="no"):
        intolerant.local()
