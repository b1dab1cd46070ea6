"""Values between the entries of a flow: what Jobs put out, where it is read, and what a value cannot become."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, PodPhase
from pyroclast.api.records import FlowEntry, Job, JobFlow, Pod
from pyroclast.lifecycle.flow.checks import EntryKnowledge
from pyroclast.lifecycle.flow.decide import decide
from pyroclast.lifecycle.flow.facts import CreateJob, DeleteJob, FlowDecision, FlowFacts, build
from pyroclast.lifecycle.flow.jobs import manifest
from pyroclast.lifecycle.flow.outputs import MOST_BYTES, outputs_of, parsed
from pyroclast.lifecycle.flow.patch import PatchError
from pyroclast.lifecycle.flow.references import scripts
from pyroclast.lifecycle.gang.members import ObservedPods
from pyroclast.lifecycle.job import outputs
from pyroclast.lifecycle.job.decide import decide as decide_job
from pyroclast.lifecycle.job.facts import JobFacts
from tests.unit.lifecycle import builders
from tests.unit.lifecycle.builders import NOW, decode
from tests.unit.lifecycle.test_flow_decisions import entry, flow, phase_of, started, told

OWNER = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "name": "f", "uid": "u", "controller": True}
CONTAINER = {"name": "c", "image": "i", "command": ["train"]}


def template(**container: Any) -> dict[str, Any]:
    return {"tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [{**CONTAINER, **container}]}}}]}


def patch(**container: Any) -> dict[str, Any]:
    return {"spec": {"tasks": [{"name": "t", "template": {"spec": {"containers": [{"name": "c", **container}]}}}]}}


def read(*entries: dict[str, Any], values: dict[str, Any], spec: dict[str, Any] | None = None, **more: Any) -> FlowDecision:
    """The decision about a flow in which entries completed, with these outputs as JSON; None for those that put out nothing."""
    rows = [
        {"name": f"f-{name}", "state": "Completed", **({"outputs": given} if given else {})} for name, given in values.items()
    ]
    of = flow(*entries, phase="Running", status={"jobStatusList": rows}, **more)
    return decided(of, spec)


def decided(of: JobFlow, spec: dict[str, Any] | None = None, **more: Any) -> FlowDecision:
    raw = msgspec.Raw(msgspec.json.encode(spec or template()))
    return decide(FlowFacts(of, build(of.spec), NOW, template=lambda _: raw, **more))


def made(decision: FlowDecision, of: JobFlow | None = None) -> list[dict[str, Any]]:
    """The first container of each Job that the decision creates."""
    bodies = [manifest(of or flow(), effect) for effect in decision.effects if isinstance(effect, CreateJob)]
    specs = [msgspec.json.decode(msgspec.json.encode(body["spec"])) for body in bodies]
    return [spec["tasks"][0]["template"]["spec"]["containers"][0] for spec in specs]


# the end of a Job


def pod_with(owner: Job, name: str, phase: PodPhase, message: str, reason: str = "Completed", container: str = "c") -> Pod:
    end = {"terminated": {"exitCode": 0, "reason": reason, "message": message}}
    found = builders.pod(owner, name, phase)
    status = decode({"phase": phase.value, "containerStatuses": [{"name": container, "state": end}]}, type(found.status))
    return msgspec.structs.replace(found, status=status)


MESSAGES: dict[str, tuple[PodPhase, str, str, str, list[str]]] = {
    "the message of a pod that succeeded": (PodPhase.SUCCEEDED, '{"a": 1}\n', "Completed", "c", ['{"a": 1}']),
    "of one that failed": (PodPhase.FAILED, "bad\r\n", "Error", "c", ["bad"]),
    "none of one that runs": (PodPhase.RUNNING, "1", "Completed", "c", []),
    "nor the text of the runtime": (PodPhase.FAILED, "no such file", "StartError", "c", []),
    "nor that of another container": (PodPhase.SUCCEEDED, "1", "Completed", "side", []),
}


@pytest.mark.parametrize(("phase", "message", "reason", "container", "want"), MESSAGES.values(), ids=MESSAGES)
def test_job_of_a_flow_keeps_the_termination_message_of_the_main_container(
    phase: PodPhase, message: str, reason: str, container: str, want: list[str]
) -> None:
    owner = builders.job(builders.task("a", 2), phase=JobPhase.RUNNING, metadata={"ownerReferences": [OWNER]})
    pods = {"j-a-0": pod_with(owner, "a-0", phase, message, reason, container), "j-a-1": builders.pod(owner, "a-1")}
    found = outputs.collected(owner, ObservedPods.of(owner, pods), owner.status)
    assert [each.message for each in found.outputs] == want
    alone = builders.job(builders.task("a", 2), phase=JobPhase.RUNNING)
    assert outputs.collected(alone, ObservedPods.of(alone, pods), alone.status) is alone.status


def test_outputs_are_written_with_the_end_of_the_job_and_stay_when_its_pods_are_gone_but_not_over_a_restart() -> None:
    kept = [{"task": "a", "index": 1, "message": "early"}]
    meta = {"ownerReferences": [OWNER]}
    owner = builders.job(builders.task("a", 2), phase=JobPhase.RUNNING, metadata=meta, status={"outputs": kept}, minSuccess=1)
    pods = ObservedPods.of(owner, {"j-a-0": pod_with(owner, "a-0", PodPhase.SUCCEEDED, "late")})
    ended = decide_job(JobFacts(owner, NOW, pods, group=builders.group(owner))).status
    assert ended is not None
    assert ended.state.phase is JobPhase.COMPLETED
    assert [(each.index, each.message) for each in ended.outputs] == [(0, "late"), (1, "early")]
    again = builders.job(builders.task("a", 2), phase=JobPhase.RESTARTING, metadata=meta, status={"outputs": kept, "version": 1})
    assert outputs.collected(again, pods, again.status).outputs == ()


def test_too_long_outputs_are_left_out_with_the_reason_in_job_and_flow() -> None:
    owner = builders.job(builders.task("a", 20), phase=JobPhase.RUNNING, metadata={"ownerReferences": [OWNER]})
    pods = {f"j-a-{n}": pod_with(owner, f"a-{n}", PodPhase.SUCCEEDED, "x" * 4096) for n in range(20)}
    found = outputs.collected(owner, ObservedPods.of(owner, pods), owner.status)
    assert (found.outputs, "of 20 pods have 8" in found.outputs_omitted, "at most 65536" in found.outputs_omitted) == (
        (),
        True,
        True,
    )
    sources = [entry(f"e{n}") for n in range(20)]
    jobs = {f"f-e{n}": _job(f"f-e{n}", "x" * 4000) for n in range(20)}
    status = decided(flow(*sources, phase="Running"), jobs=jobs).status
    assert status is not None
    assert sum(len(row.outputs) for row in status.job_status_list) <= MOST_BYTES
    assert [bool(row.outputs) for row in status.job_status_list] == [True] * 16 + [False] * 4
    assert "those of the whole flow may have 65536" in status.job_status_list[-1].outputs_omitted


def _job(name: str, *messages: str, tasks: tuple[tuple[str, int], ...] = (("t", 1),), phase: str = "Completed") -> Job:
    """A Job of the flow; the messages are those of the pods of its first task."""
    given = [{"task": tasks[0][0], "index": index, "message": each} for index, each in enumerate(messages)]
    rows = [{"name": task, "replicas": count, "template": {}} for task, count in tasks]
    meta = {"name": name, "namespace": "n", "uid": f"uid-{name}", "ownerReferences": [OWNER]}
    found: Job = decode({"metadata": meta, "spec": {"tasks": rows}, "status": {"state": {"phase": phase}, "outputs": given}}, Job)
    return found


PARSED: dict[str, Any] = {
    '{"score": 0.5, "of": [1, null]}': {"score": 0.5, "of": [1, None]},
    " 7 ": 7,
    "good": "good",
    '"good"': "good",
    "NaN": "NaN",
    '{"cut off': '{"cut off',
    "1" + "0" * 30: "1" + "0" * 30,
    "[" * 2000: "[" * 2000,
    "[" * 40 + "]" * 40: "[" * 40 + "]" * 40,
    '"\\ud800"': '"\\ud800"',
}


@pytest.mark.parametrize(("message", "value"), PARSED.items(), ids=[each[:12] for each in PARSED])
def test_message_is_json_if_it_parses_and_an_expression_can_read_it_else_text(message: str, value: Any) -> None:
    assert parsed(message) == value


def test_outputs_are_a_value_a_list_by_index_or_a_map_by_task() -> None:
    assert outputs_of(_job("j", "1")) == ("1", "")
    assert outputs_of(_job("j", "1", "2", tasks=(("t", 3),))) == ("[1,2,null]", "")
    assert outputs_of(_job("j", "x", tasks=(("b", 2), ("a", 1)))) == ('{"b":["x",null]}', "")
    assert outputs_of(_job("j")) == ("", "")
    assert "65536 bytes" in outputs_of(_job("j", "1", tasks=(("t", 2_000_000_000),)))[1]


# conditions, choices and loops

GRADE = entry("grade")
HIGH = {"if": {"expression": "entries.grade.outputs.score > 0.9"}}


@pytest.mark.parametrize(
    ("value", "want"),
    [('{"score":0.95}', "b"), ('{"score":1}', "b"), ('{"score":0.5}', "c"), ('{"score":"0.95"}', ""), (None, ""), ('"text"', "")],
)
def test_if_reads_the_outputs_of_an_entry_and_fails_with_a_reason_when_there_are_none(value: str | None, want: str) -> None:
    decision = read(GRADE, entry("b", **HIGH, **{"else": ["c"]}), entry("c"), values={"grade": value})
    assert "".join(started(decision)) == want
    if not want:
        assert phase_of(decision) == "Failed"
        assert told(decision, "b") == ("Failed", "ExpressionFailed")
        message = decision.status.conditions["f-b"].message if decision.status else ""
        assert {None: "put out nothing", '"text"': "is a text, not JSON"}.get(value, "no such overload") in message


CASES = [
    {"expression": "entries.grade.outputs > parameters.limit", "entries": ["c"]},
    {"phase": "Completed", "entries": ["d"]},
]


@pytest.mark.parametrize(("value", "want"), [("3", "c"), ("2", "d"), ('"x"', "")])
def test_switch_chooses_by_a_number_that_an_entry_put_out(value: str, want: str) -> None:
    of = [GRADE, entry("s", switch={"on": "grade", "cases": CASES}), entry("c"), entry("d")]
    decision = read(*of, values={"grade": value}, parameters={"limit": 2})
    assert "".join(each for each in started(decision) if each != "s") == want
    assert want or told(decision, "s") == ("Failed", "ExpressionFailed")


LOOPS: dict[str, tuple[str, str, list[str] | str]] = {
    "a list": ("entries.split.outputs", '["a","b$(X)",3,0.5,true,{"k":1}]', ["a", "b$$(X)", "3", "0.5", "true", '{"k":1}']),
    "a part of it": ("entries.split.outputs.filter(each, each > 1)", "[1,2,3]", ["2", "3"]),
    "a number": ("entries.split.outputs", "2", ["0", "1"]),
    "a number too large": ("entries.split.outputs", "100000", "from 0 to 1500 are possible"),
    "a text": ("entries.split.outputs", '"a"', "must be a list or a number"),
    "a null": ("entries.split.outputs", "[1,null]", "item 1 of the list is null"),
    "a list too long": ("entries.split.outputs", json.dumps([1] * 1600), "would make 1600 Jobs"),
}


@pytest.mark.parametrize(("expression", "value", "want"), LOOPS.values(), ids=LOOPS)
def test_loop_makes_a_job_for_each_item_that_an_entry_put_out(expression: str, value: str, want: list[str] | str) -> None:
    loop = entry("each", **{"for": {"itemsFrom": expression, "parallel": 9}})
    decision = read(entry("split"), loop, values={"split": value})
    if isinstance(want, str):
        assert want in (decision.status.conditions["f-each"].message if decision.status else "")
        assert phase_of(decision) == "Failed"
        return
    assert started(decision) == [f"each-{index}" for index in range(len(want))]
    assert [container["env"][0]["value"] for container in made(decision)] == want


def test_loop_over_an_empty_list_is_done_and_its_outputs_are_a_list_by_round() -> None:
    none = entry("each", **{"for": {"itemsFrom": "entries.split.outputs"}})
    assert phase_of(read(entry("split"), none, values={"split": "[]"})) == "Succeed"
    sweep = entry("sweep", **{"for": {"count": 2, "until": "last.outputs.loss < 0.1"}})
    best = entry("best", **{"if": {"expression": "entries.sweep.outputs.exists(each, each.loss < 0.1)"}})
    known = {"sweep-0": '{"loss":0.5}', "sweep-1": '{"loss":0.05}'}
    assert started(read(sweep, best, values=known)) == ["best"]
    assert started(read(sweep, best, values={"sweep-0": '{"loss":0.05}'})) == ["best"]
    assert started(read(sweep, best, values={"sweep-0": '{"loss":0.5}'})) == ["sweep-1"]


def test_what_reads_outputs_waits_until_the_status_of_the_flow_has_them() -> None:
    of = flow(GRADE, entry("b", **HIGH), phase="Running")
    decision = decided(of, jobs={"f-grade": _job("f-grade", '{"score":1}')})
    assert (started(decision), decision.waits_for_status) == ([], True)
    assert decision.status is not None
    assert decision.status.job_status_list[0].outputs == '{"score":1}'
    again = decided(msgspec.structs.replace(of, status=decision.status))
    assert started(again) == ["b"]


def test_failed_entry_skips_what_is_made_from_its_outputs_but_an_if_decides_itself() -> None:
    rows = [{"name": "f-grade", "state": "Failed", "exitCode": 1}]
    use = entry("use", patch=patch(args=["${entries.grade.outputs}"]))
    ask = entry("ask", **{"if": {"expression": "has(entries.grade.outputs) && entries.grade.outputs > 1"}})
    assert told(decided(flow(GRADE, use, phase="Running", status={"jobStatusList": rows})), "use") == ("Skipped", "TargetFailed")
    decision = decided(flow(GRADE, ask, phase="Running", status={"jobStatusList": rows}))
    assert told(decision, "ask") == ("Skipped", "ConditionFalse")


# values in patches

WHOLE, OTHER = "${entries.grade.outputs.model}", "${ parameters.lr }"
PATCHES: dict[str, tuple[dict[str, Any], Any, str, Any]] = {
    "a text": (patch(args=[WHOLE]), "m", "args", ["m"]),
    "a part of a text": (patch(args=[f"/m/{WHOLE}/x"]), "m", "args", ["/m/m/x"]),
    "a number in a place of a text": (patch(args=[WHOLE, OTHER]), 3, "args", ["3", "0.1"]),
    "a boolean in a variable": (patch(env=[{"name": "A", "value": WHOLE}]), True, "env", [{"name": "A", "value": "true"}]),
    "what looks like structure": (patch(args=[WHOLE]), '"], "x": ["', "args", ['"], "x": ["']),
    "what Kubernetes would expand": (patch(args=[WHOLE]), "$(TOKEN) $$", "args", ["$$(TOKEN) $$$$"]),
    "what would be a reference": (patch(args=[WHOLE]), "${parameters.lr}", "args", ["$${parameters.lr}"]),
    "an image": (patch(image=WHOLE), "r/i:1", "image", "r/i:1"),
    "a resource": (patch(resources={"limits": {"nvidia.com/gpu": WHOLE}}), 2, "resources", {"limits": {"nvidia.com/gpu": "2"}}),
    "a variable of a shell": (patch(args=["${HOME}", "${entries[@]}"]), 1, "args", ["${HOME}", "${entries[@]}"]),
    "a doubled dollar": (patch(args=["$${entries.grade.x}"]), 1, "args", ["${entries.grade.x}"]),
    "a default": (patch(args=["${entries.grade.?outputs.?none.orValue('d')}"]), 1, "args", ["d"]),
}


@pytest.mark.parametrize(("given", "value", "field", "want"), PATCHES.values(), ids=PATCHES)
def test_patch_puts_a_value_in_the_place_of_a_reference(given: dict[str, Any], value: Any, field: str, want: Any) -> None:
    decision = read(
        GRADE, entry("b", "grade", patch=given), values={"grade": json.dumps({"model": value})}, parameters={"lr": 0.1}
    )
    assert [container[field] for container in made(decision)] == [want]


@pytest.mark.parametrize(("value", "want"), [(3, 3), (2.0, 2), ("3", None), (2.5, None), (True, None)])
def test_count_takes_a_whole_number_and_nothing_else(value: Any, want: int | None) -> None:
    use = entry("b", patch={"spec": {"tasks": [{"name": "t", "replicas": WHOLE}]}})
    decision = read(GRADE, use, values={"grade": json.dumps({"model": value})})
    found = [manifest(flow(), each)["spec"]["tasks"][0]["replicas"] for each in decision.effects if isinstance(each, CreateJob)]
    assert found == ([] if want is None else [want])
    assert decision.status is not None
    assert want is not None or "must be a whole number" in decision.status.conditions["f-b"].message


@pytest.mark.parametrize(("value", "why"), [({"a": 1}, "is a map"), ([1], "is a list"), (None, "is null")])
def test_value_that_is_no_scalar_fails_the_entry(value: Any, why: str) -> None:
    decision = read(GRADE, entry("b", patch=patch(args=[WHOLE])), values={"grade": json.dumps({"model": value})})
    assert told(decision, "b") == ("Failed", "ExpressionFailed")
    assert decision.status is not None
    assert why in decision.status.conditions["f-b"].message


SCRIPTS: dict[str, tuple[list[str], list[int]]] = {
    "a shell": (["sh", "-c", "x"], [2]),
    "its arguments": (["/bin/bash", "-ec", "x", "--", "y"], [2]),
    "options before the script": (["bash", "-o", "pipefail", "-c", "x"], [4]),
    "options behind -c": (["sh", "-c", "-e", "x", "y"], [2, 3]),
    "env and timeout": (["env", "A=1", "timeout", "9", "sh", "-c", "x"], [6]),
    "python": (["python3.11", "-u", "-c", "x", "y"], [2, 3]),
    "a program of python": (["python", "train.py", "-c", "y"], []),
    "a module of python": (["python", "-m", "pkg", "-c", "y"], []),
    "node": (["node", "--eval", "x"], [1, 2]),
    "awk": (["awk", "-v", "a=1", "x"], [1, 3]),
    "a program": (["train", "-c", "y", "--lr=1"], []),
}


@pytest.mark.parametrize(("argv", "want"), SCRIPTS.values(), ids=SCRIPTS)
def test_scripts_in_a_command_are_found(argv: list[str], want: list[int]) -> None:
    assert list(scripts(argv)) == want


EVIL = "'; rm -rf / #"
INJECTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "a script": ({}, patch(command=["sh", "-c", f"train --model '{WHOLE}'"]), True),
    "a parameter in a script": ({}, patch(command=["sh", "-c", "train ${parameters.lr}"]), True),
    "arguments of the template's shell": ({"command": ["sh", "-c"]}, patch(args=[f"train {WHOLE}"]), True),
    "a variable that Kubernetes expands in the script": (
        {"command": ["sh", "-c", "train $(MODEL)"]},
        patch(env=[{"name": "MODEL", "value": WHOLE}]),
        True,
    ),
    "through another variable": (
        {"command": ["sh", "-c", "train $(B)"]},
        patch(env=[{"name": "A", "value": WHOLE}, {"name": "B", "value": "x$(A)"}]),
        True,
    ),
    "a variable that the shell reads": (
        {"command": ["sh", "-c", 'train "$MODEL"']},
        patch(env=[{"name": "MODEL", "value": WHOLE}]),
        False,
    ),
    "an argument of the script": ({"command": ["sh", "-c", 'train "$1"', "--"]}, patch(args=[WHOLE]), False),
    "a program without a shell": ({}, patch(args=["--model", WHOLE]), False),
}


@pytest.mark.parametrize(("given", "change", "is_refused"), INJECTIONS.values(), ids=INJECTIONS)
def test_value_never_becomes_a_part_of_a_script(given: dict[str, Any], change: dict[str, Any], is_refused: bool) -> None:
    body = {"name": "b", "patch": change}
    known = EntryKnowledge(lambda *_: template(**given))
    decision = read(
        GRADE,
        body,
        values={"grade": json.dumps({"model": EVIL})},
        spec=template(**given),
        parameters={"lr": EVIL},
    )
    if is_refused:
        for refused in (lambda: known.patched("n", body, {"lr": EVIL}), lambda: made(decision)):
            with pytest.raises(PatchError, match="set an environment variable"):
                refused()
    else:
        assert known.patched("n", body, {"lr": EVIL})
        assert len(made(decision)) == 1


FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown parameter": ({"if": {"expression": "parameters.no == 1"}}, "if.expression", "has no no; it has lr"),
    "an entry by a variable": ({"if": {"expression": "entries[parameters.lr].phase == 'x'"}}, "if.expression", "name each entry"),
    "all entries": ({"if": {"expression": "entries.all(e, true)"}}, "if.expression", "name each entry"),
    "a wrong expression in a case": (
        {"switch": {"on": "a", "cases": [{"expression": "1 + 1", "entries": []}]}},
        "switch.cases[0].expression",
        "must be true or false",
    ),
    "items of a wrong type": ({"for": {"itemsFrom": "'a'"}}, "for.itemsFrom", "must be a list or a number"),
    "a reference without an end": ({"patch": {"spec": {"queue": "${parameters.lr"}}}, "patch.spec.queue", "no closing brace"),
    "a name": ({"patch": {"spec": {"${parameters.lr}": 1}}}, "patch.spec", "must not contain a reference"),
    "what no entry has": (
        {"patch": {"spec": {"queue": "${entries.a.outputs}"}}},
        "patch.spec.queue",
        "must not stand here",
    ),
    "and of a pod": (
        {"patch": {"jobSpec": {"tasks": [{"template": {"spec": {"serviceAccountName": "${entries.a.outputs}"}}}]}}},
        "patch.jobSpec.tasks[0].template.spec.serviceAccountName",
        "must not stand here",
    ),
    "no scalar": ({"patch": {"spec": {"queue": "${parameters.lr.split(',')}"}}}, "patch.spec.queue", "must be a string"),
    "too many": (
        {"patch": patch(args=[f"${{parameters.lr + {n}}}" for n in range(101)])},
        "patch.spec.tasks[0].template.spec.containers[0].args[100]",
        "more than 100 different references",
    ),
}


@pytest.mark.parametrize(("given", "field", "fault"), FAULTS.values(), ids=FAULTS)
def test_faulty_expression_is_refused_with_its_field(given: dict[str, Any], field: str, fault: str) -> None:
    known = EntryKnowledge(lambda *_: None)
    [(where, said)] = known.expression_faults({"name": "b", **given}, {"lr": 0.1})
    assert where == field
    assert fault in said


def test_parameter_may_stand_in_any_string_and_is_checked_as_if_it_stood_there() -> None:
    change = {"spec": {"queue": "${parameters.queue}", "maxRetry": "${parameters.n}", "minAvailable": "${entries.a.outputs}"}}
    known = EntryKnowledge(lambda *_: template())
    spec = known.patched("n", {"name": "b", "patch": change}, {"queue": "gold", "n": 5})
    assert spec is not None
    assert {name: spec[name] for name in change["spec"]} == {"queue": "gold", "maxRetry": 5, "minAvailable": 1}


def test_entries_that_an_expression_reads_come_before_it() -> None:
    reads = EntryKnowledge(lambda *_: None).reads
    body = {
        "name": "b",
        "patch": patch(args=["${entries['x-y'].outputs}"]),
        "if": {"expression": "entries.a__dash__b.exitCode == 1"},
    }
    assert list(reads(body)) == [("if.expression", "a-b"), ("patch", "x-y")]
    graph = build(flow(body, entry("a-b"), entry("x-y")).spec)
    assert graph.order[-1] == "b"
    assert graph.tolerated == {"a-b"}
    assert isinstance(graph.nodes["b"].entry, FlowEntry)


# resumption


def resumed(of: JobFlow, *jobs: Job) -> FlowDecision:
    return decided(of, jobs={each.metadata.name: each for each in jobs})


def failed_flow(*entries: dict[str, Any], token: str = "1", **more: Any) -> JobFlow:
    rows = [
        {"name": "f-prep", "state": "Completed", "outputs": "[1,2]"},
        {"name": "f-bad", "state": "Failed", "exitCode": 1},
        {"name": "f-repair", "state": "Completed"},
        {"name": "f-other", "state": "Completed"},
    ]
    conditions = {"f-late": {"phase": "Skipped", "reason": "TargetFailed"}, "f-other": {"phase": "Completed"}}
    status = {"jobStatusList": rows, "conditions": conditions, "failedJobs": ["f-bad"], "completionTime": builders.CREATED}
    given = entries or (
        entry("prep"),
        entry("bad", "prep"),
        entry("late", "bad"),
        entry("repair", **{"if": {"target": "bad", "phase": ["Failed"]}}),
        entry("other", "prep"),
    )
    return flow(*given, phase="Failed", status=status, metadata={"annotations": {keys.FLOW_RESUME: token}}, **more)


def test_resumed_flow_deletes_what_runs_again_first_and_then_forgets_it_in_one_write() -> None:
    of = failed_flow()
    jobs = [_job("f-bad", phase="Failed"), _job("f-repair"), _job("f-prep"), _job("f-other")]
    first = resumed(of, *jobs)
    assert {each.name for each in first.effects if isinstance(each, DeleteJob)} == {"f-bad", "f-repair"}
    assert len(first.effects) == 2
    second = resumed(of, *jobs[2:])
    assert (second.effects, [each.message for each in second.notices]) == ((), ["run bad, late, repair again"])
    status = second.status
    assert status is not None
    assert (status.state.phase, status.resumed, status.completion_time) == ("Running", "1", None)
    assert [(row.name, row.outputs) for row in status.job_status_list] == [("f-prep", "[1,2]"), ("f-other", "")]
    third = resumed(msgspec.structs.replace(of, status=status), *jobs[2:])
    assert started(third) == ["bad"]


def test_flow_is_resumed_once_for_one_value_of_the_annotation() -> None:
    of = failed_flow()
    once = msgspec.structs.replace(of, status=msgspec.structs.replace(of.status, resumed="1"))
    assert resumed(once).effects == ()
    assert phase_of(resumed(once)) == "Failed"
    running = flow(entry("a"), phase="Running", metadata={"annotations": {keys.FLOW_RESUME: "1"}})
    status = resumed(running, _job("f-a", phase="Running")).status
    assert status is not None
    assert status.resumed == "1"  # so that the flow is not resumed when it fails later


def test_resumed_loop_keeps_the_rounds_that_completed() -> None:
    rows = [{"name": "f-l-0", "state": "Completed"}, {"name": "f-l-1", "state": "Failed"}]
    of = flow(
        entry("l", **{"for": {"count": 3}}),
        phase="Failed",
        status={"jobStatusList": rows},
        metadata={"annotations": {keys.FLOW_RESUME: "x"}},
    )
    status = resumed(of).status
    assert status is not None
    assert [row.name for row in status.job_status_list] == ["f-l-0"]
    assert started(resumed(msgspec.structs.replace(of, status=status))) == ["l-1"]
