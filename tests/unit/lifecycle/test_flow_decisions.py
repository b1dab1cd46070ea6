"""Decisions about flows, fact by fact: when entries start, phases, lists, conditions, histories, retention, deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from pyroclast.api import keys
from pyroclast.api.enums import FlowPhase, FlowReason
from pyroclast.api.records import Array, FlowStatus, Job, JobFlow, JobSpec, JobTemplate
from pyroclast.lifecycle.flow.decide import decide
from pyroclast.lifecycle.flow.facts import (
    CancelJob,
    CreateJob,
    DeleteJob,
    FlowDecision,
    FlowFacts,
    ProbeAnswer,
    Refused,
    ReleaseFlow,
    SuspendJob,
    build,
)
from pyroclast.lifecycle.flow.jobs import manifest
from pyroclast.lifecycle.flow.next_starts import HELP
from pyroclast.lifecycle.flow.patch import PatchError
from pyroclast.lifecycle.flow.status import difference
from pyroclast.lifecycle.times import format_time
from pyroclast_jobflow_controller.templates import made_from
from tests.unit.lifecycle.builders import NOW, decode

SPEC = msgspec.Raw(b'{"tasks":[{"name":"t","template":{"spec":{"containers":[{"name":"c"}]}}}]}')
CREATED = format_time(NOW - 60)


def entry(name: str, *targets: str, **more: Any) -> dict[str, Any]:
    depends = {**({"targets": list(targets)} if targets else {}), **more.pop("dependsOn", {})}
    return {"name": name, **({"dependsOn": depends} if depends else {}), **more}


def flow(*entries: dict[str, Any], phase: str = "", status: dict[str, Any] | None = None, **more: Any) -> JobFlow:
    meta = {"name": "f", "namespace": "n", "uid": "u", "resourceVersion": "1", "finalizers": [keys.FLOW_FINALIZER]}
    body = {
        "metadata": meta | more.pop("metadata", {}),
        "spec": {"flows": list(entries), **more},
        "status": {**({"state": {"phase": phase}} if phase else {}), **(status or {})},
    }
    found: JobFlow = decode(body, JobFlow)
    return found


def job(name: str, phase: str, *, uid: str = "", owner: str = "u", **status: Any) -> Job:
    tasks = [{"name": "t", "replicas": 2, "minAvailable": 2, "template": {}}]
    owners = [{"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "name": "f", "uid": owner, "controller": True}]
    meta = {"name": name, "namespace": "n", "uid": uid or f"uid-{name}", "creationTimestamp": CREATED, "ownerReferences": owners}
    at = format_time(NOW - 10)
    state = {"phase": phase, "lastTransitionTime": at} if phase else {}
    conditions = [{"status": phase, "lastTransitionTime": at}] if phase else []
    found: Job = decode(
        {"metadata": meta, "spec": {"tasks": tasks}, "status": {"state": state, "conditions": conditions, **status}}, Job
    )
    return found


def decided(of: JobFlow, jobs: Mapping[str, str | Job] | None = None, **more: Any) -> FlowDecision:
    """The decision about a flow whose Jobs are in these phases."""
    there = {f"f-{name}": each if isinstance(each, Job) else job(f"f-{name}", each) for name, each in (jobs or {}).items()}
    missing = more.pop("without_template", ())
    facts = FlowFacts(
        of,
        build(of.spec),
        more.pop("now", NOW),
        jobs=there,
        template=lambda name: None if name in missing else SPEC,
        **more,
    )
    return decide(facts)


def started(decision: FlowDecision) -> list[str]:
    return [effect.name.removeprefix("f-") for effect in decision.effects if isinstance(effect, CreateJob)]


def phase_of(decision: FlowDecision) -> str:
    assert decision.status is not None
    return decision.status.state.phase.value


def told(decision: FlowDecision, name: str) -> tuple[str, str]:
    """Phase and reason of a condition."""
    assert decision.status is not None
    condition = decision.status.conditions[f"f-{name}"]
    return condition.phase, condition.reason


A, B = entry("a"), entry("b", "a")
STARTS: dict[str, tuple[list[dict[str, Any]], dict[str, str], list[str]]] = {
    "all entries without targets at once": ([A, entry("c"), B], {}, ["a", "c"]),
    "an empty list of targets is satisfied": ([entry("a", dependsOn={"targets": []})], {}, ["a"]),
    "a target that runs does not satisfy": ([A, B], {"a": "Running"}, []),
    "nor one that completes": ([A, B], {"a": "Completing"}, []),
    "nor one that is suspended": ([A, B], {"a": "Aborted"}, []),
    "one that has completed does": ([A, B], {"a": "Completed"}, ["b"]),
    "all targets are needed": ([A, entry("c"), entry("d", "a", "c")], {"a": "Completed", "c": "Running"}, []),
    "any is enough": (
        [A, entry("c"), entry("d", dependsOn={"targets": ["a", "c"], "strategy": "any"})],
        {"a": "Completed", "c": "Running"},
        ["d"],
    ),
    "an unknown target is never satisfied": ([entry("a", "x")], {}, []),
    "a cycle starts nothing": ([entry("a", "b"), entry("b", "a"), entry("c")], {}, ["c"]),
    "equal duplicates are one entry": ([A, A], {}, ["a"]),
    "an if that holds": ([A, entry("b", **{"if": {"target": "a", "phase": ["Failed"]}})], {"a": "Failed"}, ["b"]),
    "an if that holds meanwhile": (
        [A, entry("b", **{"if": {"target": "a", "phase": ["Running"]}})],
        {"a": "Running"},
        ["b"],
    ),
    "an if that does not, with else": (
        [A, entry("b", **{"if": {"target": "a", "phase": ["Failed"]}, "else": ["c"]}), entry("c")],
        {"a": "Completed"},
        ["c"],
    ),
    "a switch by phase": (
        [
            A,
            entry("s", switch={"on": "a", "cases": [{"phase": "Completed", "entries": ["c"]}], "default": ["d"]}),
            entry("c"),
            entry("d"),
        ],
        {"a": "Completed"},
        ["c", "s"],
    ),
    "a switch waits for the end of its target, also where any target is enough": (
        [
            A,
            entry("c"),
            entry("s", dependsOn={"targets": ["a", "c"], "strategy": "any"}, switch={"on": "a", "default": ["d"]}),
            entry("d"),
        ],
        {"a": "Running", "c": "Completed"},
        [],
    ),
    "a loop, one round at a time": ([entry("a", **{"for": {"count": 3}})], {"a-0": "Running"}, []),
    "the next round": ([entry("a", **{"for": {"count": 3}})], {"a-0": "Completed"}, ["a-1"]),
    "rounds in parallel": ([entry("a", **{"for": {"items": ["x", "y", "z"], "parallel": 2}})], {}, ["a-0", "a-1"]),
    "a loop that ends early": ([entry("a", **{"for": {"count": 3, "until": "last.index == 0"}}), B], {"a-0": "Completed"}, ["b"]),
    "a loop of nothing": ([entry("a", **{"for": {"count": 0}}), B], {}, ["b"]),
    "an expression over the targets": (
        [A, entry("b", "a", **{"if": {"expression": "targets.a.phase == 'Failed'"}})],
        {"a": "Failed"},
        ["b"],
    ),
}


@pytest.mark.parametrize(("entries", "jobs", "want"), STARTS.values(), ids=STARTS.keys())
def test_flow_starts_exactly_the_entries_whose_dependencies_and_conditions_are_met(
    entries: list[dict[str, Any]], jobs: dict[str, str], want: list[str]
) -> None:
    assert sorted(started(decided(flow(*entries, phase="Running"), jobs))) == sorted(want)


PHASES: dict[str, tuple[str, list[dict[str, Any]], dict[str, str], str]] = {
    "no entries": ("", [], {}, "Pending"),
    "nothing made": ("", [A], {}, ""),
    "made": ("", [A], {"a": ""}, "Pending"),
    "pending": ("Pending", [A], {"a": "Pending"}, "Pending"),
    "the first runs": ("Pending", [A], {"a": "Running"}, "Running"),
    "the first completed": ("Pending", [A], {"a": "Completed"}, "Running"),
    "the first failed": ("Pending", [A], {"a": "Failed"}, "Failed"),
    "the first was terminated": ("Pending", [A], {"a": "Terminated"}, "Failed"),
    "one was terminated while another runs: first Running": (
        "Pending",
        [A, entry("c")],
        {"a": "Running", "c": "Terminated"},
        "Running",
    ),
    "one failed while another runs": ("Pending", [A, entry("c")], {"a": "Running", "c": "Failed"}, "Failed"),
    "one failed, one was terminated": (
        "Pending",
        [A, entry("c"), entry("d")],
        {"a": "Failed", "c": "Terminated", "d": "Completed"},
        "Failed",
    ),
    "it is sticky": ("Running", [A, B], {"a": "Completed", "b": "Pending"}, "Running"),
    "all completed": ("Running", [A, B], {"a": "Completed", "b": "Completed"}, "Succeed"),
    "one of two": ("Running", [A, B], {"a": "Completed"}, "Running"),
    "one failed": ("Running", [A, entry("c")], {"a": "Completed", "c": "Failed"}, "Failed"),
    "one was terminated": ("Running", [A, entry("c")], {"a": "Running", "c": "Terminated"}, "Failed"),
    "a suspended one changes nothing": ("Running", [A], {"a": "Aborted"}, "Running"),
    "success stays": ("Succeed", [A], {}, "Succeed"),
    "failure stays": ("Failed", [A], {"a": "Completed"}, "Failed"),
    "a failure that is asked for": (
        "Running",
        [A, entry("b", **{"if": {"target": "a", "phase": ["Failed"]}})],
        {"a": "Failed", "b": "Completed"},
        "Succeed",
    ),
    "a failure that will be tried again": ("Pending", [entry("a", retry={"limit": 1})], {"a": "Failed"}, "Running"),
    "equal duplicates": ("Running", [A, A], {"a": "Completed"}, "Succeed"),
    "an entry that was removed": ("Running", [A], {"a": "Completed", "gone": "Completed"}, "Succeed"),
}


@pytest.mark.parametrize(("phase", "entries", "jobs", "want"), PHASES.values(), ids=PHASES.keys())
def test_flow_phase_follows_the_phases_of_its_jobs(
    phase: str, entries: list[dict[str, Any]], jobs: dict[str, str], want: str
) -> None:
    assert phase_of(decided(flow(*entries, phase=phase), jobs)) == want


def test_status_lists_jobs_by_phase_in_the_order_of_the_flow_entries() -> None:
    phases = ["Pending", "Running", "Failed", "Completing", "Completed", "Terminating", "Terminated", "Aborted", "Restarting", ""]
    entries = [entry(f"e{number}") for number in reversed(range(len(phases)))]
    status = decided(flow(*entries, phase="Failed"), {f"e{number}": phase for number, phase in enumerate(phases)}).status
    assert status is not None
    assert status.pending_jobs == ("f-e0",)
    assert status.running_jobs == ("f-e1",)
    assert status.failed_jobs == ("f-e2",)
    assert status.completed_jobs == ("f-e4", "f-e3")
    assert status.terminated_jobs == ("f-e6", "f-e5")
    assert status.unknown_jobs == ("f-e9", "f-e8", "f-e7")


WAITS: dict[str, tuple[list[dict[str, Any]], dict[str, str], str, tuple[str, str]]] = {
    "for its targets": ([A, B], {"a": "Running"}, "b", ("Waiting", "DependenciesNotMet")),
    "for a choice": (
        [A, entry("b", "a", **{"if": {"target": "a", "phase": ["Failed"]}, "else": ["c"]}), entry("c")],
        {"a": "Running"},
        "c",
        ("Waiting", "ChoiceNotMade"),
    ),
    "for a target that nobody is": ([entry("a", "x")], {}, "a", ("Waiting", "UnknownTarget")),
    "in a cycle": ([entry("a", "a")], {}, "a", ("Waiting", "Cycle")),
    "no more": ([A, B], {"a": "Failed"}, "b", ("Skipped", "TargetFailed")),
    "for nothing, as it was not chosen": (
        [A, entry("b", **{"if": {"target": "a", "phase": ["Completed"]}, "else": ["c"]}), entry("c")],
        {"a": "Completed"},
        "c",
        ("Skipped", "NotChosen"),
    ),
    "for a loop of so many rounds": ([entry("a", **{"for": {"count": 2**31 - 1}})], {}, "a", ("Waiting", "LoopTooLong")),
    "no more, for a wrong expression": (
        [A, entry("b", "a", **{"if": {"expression": "targets.a.phase"}})],
        {"a": "Completed"},
        "b",
        ("Failed", "ExpressionFailed"),
    ),
}


@pytest.mark.parametrize(("entries", "jobs", "name", "want"), WAITS.values(), ids=WAITS.keys())
def test_condition_of_an_entry_that_cannot_start_gives_the_reason(
    entries: list[dict[str, Any]], jobs: dict[str, str], name: str, want: tuple[str, str]
) -> None:
    assert told(decided(flow(*entries, phase="Running"), jobs), name) == want


def test_message_of_a_waiting_entry_names_its_incomplete_targets() -> None:
    entries = [A, entry("b"), entry("c", "a", "b")]
    status = decided(flow(*entries, phase="Running"), {"a": "Completed", "b": "Running"}).status
    assert status is not None
    assert status.conditions["f-c"].message == "waits for b to complete"


def test_entry_with_only_skipped_targets_is_skipped_and_the_flow_can_still_succeed() -> None:
    entries = [
        A,
        entry("b", **{"if": {"target": "a", "phase": ["Failed"]}}),
        entry("c", "b"),
        entry("d", "b", "a"),
    ]
    decision = decided(flow(*entries, phase="Running"), {"a": "Completed"})
    assert told(decision, "c") == ("Skipped", "TargetsSkipped")
    assert started(decision) == ["d"]
    assert phase_of(decided(flow(*entries, phase="Running"), {"a": "Completed", "d": "Completed"})) == "Succeed"


def test_skipped_entry_gets_an_event_unless_it_is_skipped_because_its_target_failed() -> None:
    chosen = [A, entry("b", **{"if": {"target": "a", "phase": ["Failed"]}})]
    assert [notice.reason for notice in decided(flow(*chosen, phase="Running"), {"a": "Completed"}).notices] == ["Skipped"]
    assert not decided(flow(A, B, phase="Running"), {"a": "Failed"}).notices


def test_skipped_entry_stays_skipped_when_its_condition_holds_later() -> None:
    status = {"conditions": {"f-b": {"phase": "Skipped", "reason": "ConditionFalse"}}}
    entries = [A, entry("b", **{"if": {"target": "a", "phase": ["Running"]}, "else": ["c"]}), entry("c")]
    assert started(decided(flow(*entries, phase="Running", status=status), {"a": "Running"})) == ["c"]


PROBE = {"httpGetList": [{"port": 80}]}


def test_passed_probe_counts_as_completion_of_a_running_target() -> None:
    of = flow(A, entry("b", "a", dependsOn={"targets": ["a"], "probe": PROBE}), phase="Running")
    assert decided(of, {"a": "Pending"}).probes == ()
    waiting = decided(of, {"a": "Running"})
    assert [(request.entry, request.target, request.jobs) for request in waiting.probes] == [("b", "a", (("f-a", "uid-f-a", 0),))]
    assert started(waiting) == []
    assert started(decided(of, {"a": "Running"}, answers={waiting.probes[0]: ProbeAnswer(passed=True)})) == ["b"]
    assert started(decided(of, {"a": "Completed"})) == ["b"]


def test_probe_answer_is_ignored_after_the_job_was_replaced_or_restarted_or_the_probe_changed() -> None:
    of = flow(A, entry("b", "a", dependsOn={"targets": ["a"], "probe": PROBE}), phase="Running")
    passed = {decided(of, {"a": "Running"}).probes[0]: ProbeAnswer(passed=True)}
    assert started(decided(of, {"a": "Running"}, answers=passed)) == ["b"]
    made_anew = {"a": job("f-a", "Running", uid="another")}
    restarted = {"a": job("f-a", "Running", version=1)}
    for jobs in (made_anew, restarted):
        decision = decided(of, jobs, answers=passed)
        assert (started(decision), len(decision.probes)) == ([], 1)
    changed = flow(A, entry("b", "a", dependsOn={"targets": ["a"], "probe": {"httpGetList": [{"port": 81}]}}), phase="Running")
    assert started(decided(changed, {"a": "Running"}, answers=passed)) == []


@pytest.mark.parametrize(
    ("probe", "counts", "passes"),
    [
        ({"taskName": "t", "phase": "Running"}, {"Running": 2}, True),
        ({"taskName": "t", "phase": "rUnNiNg"}, {"Running": 2}, True),
        ({"phase": "Succeeded"}, {"Succeeded": 2, "Running": 9}, True),
        ({"taskName": "t", "phase": "Running"}, {"Running": 1}, False),
        ({"taskName": "other", "phase": "Running"}, {"Running": 2}, False),
    ],
)
def test_task_status_probe_passes_when_enough_pods_of_the_task_are_in_the_phase(
    probe: dict[str, Any], counts: dict[str, int], passes: bool
) -> None:
    of = flow(A, entry("b", "a", dependsOn={"targets": ["a"], "probe": {"taskStatusList": [probe]}}), phase="Running")
    there = job("f-a", "Running", taskStatusCount={"t": {"phase": counts}})
    assert started(decided(of, {"a": there})) == (["b"] if passes else [])


def test_task_status_probe_of_an_array_needs_one_pod_as_its_gang_does() -> None:
    probe = {"taskName": "t", "phase": "Running"}
    of = flow(A, entry("b", "a", dependsOn={"targets": ["a"], "probe": {"taskStatusList": [probe]}}), phase="Running")
    for running, passes in ((0, False), (1, True)):
        there = job("f-a", "Running", taskStatusCount={"t": {"phase": {"Running": running}}})
        task = msgspec.structs.replace(there.spec.tasks[0], replicas=0, min_available=None, array=Array(indexes="0-9"))
        there = msgspec.structs.replace(there, spec=msgspec.structs.replace(there.spec, tasks=(task,)))
        assert started(decided(of, {"a": there})) == (["b"] if passes else [])


def test_entry_waits_and_the_flow_phase_stays_empty_while_its_template_is_missing() -> None:
    decision = decided(flow(A), without_template=["a"])
    assert (phase_of(decision), told(decision, "a"), started(decision)) == ("", ("Waiting", "TemplateNotFound"), [])
    assert decision.status is not None
    assert decision.status.next_jobs == ("f-a",)


def test_a_switch_without_a_template_only_chooses() -> None:
    switch = {"on": "a", "cases": [{"exitCode": 3, "entries": ["c"]}], "default": ["d"]}
    of = flow(A, entry("s", switch=switch), entry("c"), entry("d"), phase="Running")
    asking = decided(of, {"a": "Failed"}, without_template=["s"])
    assert (asking.exit_codes, started(asking)) == (("f-a",), [])
    decision = decided(of, {"a": "Failed"}, without_template=["s"], exit_codes={"f-a": 3})
    assert (told(decision, "s"), started(decision)) == (("Completed", "ChoiceMade"), ["c"])
    assert started(decided(of, {"a": "Failed"}, without_template=["s"], exit_codes={"f-a": None})) == ["d"]


@pytest.mark.parametrize(
    ("code", "want"), [(3, ("Skipped", "ConditionFalse")), (0, None), (None, ("Failed", "ExpressionFailed"))]
)
def test_expression_with_an_unknown_exit_code_fails_its_entry_instead_of_starting_it(
    code: int | None, want: tuple[str, str] | None
) -> None:
    condition = {"target": "a", "phase": ["Failed"], "expression": "targets.a.exitCode == 0"}
    of = flow(A, entry("b", **{"if": condition}), phase="Running")
    decision = decided(of, {"a": "Failed"}, exit_codes={"f-a": code})
    assert started(decision) == (["b"] if want is None else [])
    if want is not None:
        assert told(decision, "b") == want
    if code is None:
        assert "the exit code of f-a is not known" in decision.status.conditions["f-b"].message


def test_if_expression_without_a_boolean_result_fails_its_entry_and_the_flow() -> None:
    entries = [A, entry("b", "a", **{"if": {"expression": "targets.a.phase"}}), entry("c", "b")]
    decision = decided(flow(*entries, phase="Running"), {"a": "Completed"})
    assert told(decision, "b") == ("Failed", "ExpressionFailed")
    assert phase_of(decision) == "Failed"
    assert started(decision) == []


def test_until_without_a_boolean_result_fails_its_loop_once_no_round_is_running() -> None:
    entries = [entry("a", **{"for": {"count": 3, "parallel": 2, "until": "last.phase"}})]
    assert phase_of(decided(flow(*entries, phase="Running"), {"a-0": "Completed", "a-1": "Running"})) == "Running"
    decision = decided(flow(*entries, phase="Running"), {"a-0": "Completed", "a-1": "Completed"})
    assert (phase_of(decision), told(decision, "a")) == ("Failed", ("Failed", "ExpressionFailed"))


def test_entry_waits_while_a_job_of_another_owner_has_its_name() -> None:
    decision = decided(flow(A, entry("c")), job_named=lambda name: job(name, "Completed", owner="x") if name == "f-a" else None)
    assert (started(decision), told(decision, "a")) == (["c"], ("Waiting", "JobNameTaken"))


@pytest.mark.parametrize("name", ["f-a", "f-b-1"])
def test_job_of_another_owner_is_not_adopted_because_of_its_flow_label(name: str) -> None:
    entries = [A, entry("b", **{"for": {"count": 2, "parallel": 2}}), entry("c", "a", "b")]
    stranger = job(name, "Completed", owner="")
    there = {"labelled": {name: stranger, "f-other": job("f-other", "Completed")}, "job_named": {name: stranger}.get}
    jobs = {short: "Completed" for short in ("a", "b-0", "b-1") if f"f-{short}" != name}
    first = decided(flow(*entries, phase="Running"), jobs, **there).status
    assert first is not None
    assert name not in first.completed_jobs
    assert "f-other" in first.completed_jobs
    again = decided(msgspec.structs.replace(flow(*entries, phase="Running"), status=first), jobs, **there)
    assert (started(again), phase_of(again)) == ([], FlowPhase.PENDING)
    assert again.status == first


def test_refused_job_creation_is_retried_later_and_blocks_no_other_entry() -> None:
    refused = {"f-a": Refused(FlowReason.JOB_REFUSED, "queue is Closed", NOW + 7)}
    decision = decided(flow(A, entry("c")), refused=refused)
    assert (started(decision), told(decision, "a"), decision.recheck_at) == (["c"], ("Waiting", "JobRefused"), NOW + 7)


BLOCKED: dict[str, tuple[JobFlow, dict[str, str], dict[str, Any], str]] = {
    "the first Job": (flow(A), {}, {"f-a": FlowReason.JOB_REFUSED}, "Pending"),
    "a patch": (flow(A), {}, {"f-a": FlowReason.PATCH_INVALID}, "Pending"),
    "a later Job": (flow(A, B, phase="Running"), {"a": "Completed"}, {"f-b": FlowReason.JOB_REFUSED}, "Pending"),
    "a later Job, and the flow is Pending": (
        flow(A, B, phase="Pending"),
        {"a": "Completed"},
        {"f-b": FlowReason.JOB_REFUSED},
        "Pending",
    ),
    "a Job beside one that runs": (
        flow(A, entry("c"), phase="Running"),
        {"a": "Running"},
        {"f-c": FlowReason.JOB_REFUSED},
        "Running",
    ),
    "a Job after a failure": (flow(A, entry("c"), phase="Running"), {"a": "Failed"}, {"f-c": FlowReason.JOB_REFUSED}, "Failed"),
}


@pytest.mark.parametrize(("of", "jobs", "refused", "want"), BLOCKED.values(), ids=BLOCKED.keys())
def test_flow_is_pending_when_only_refused_jobs_are_left_and_an_event_says_what_helps(of, jobs, refused, want) -> None:
    decision = decided(of, jobs, refused={name: Refused(reason, "no", NOW + 7) for name, reason in refused.items()})
    assert (decision.effects, phase_of(decision)) == ((), want)
    (name,), (reason,) = refused, refused.values()
    told = [] if want == "Failed" else [(reason.value, f"Job {name} cannot be created: no; {HELP[reason]}")]
    assert [(notice.reason, notice.message) for notice in decision.notices] == told
    again = decided(flow(*([A, B] if name == "f-b" else [A]), status=msgspec.to_builtins(decision.status)), jobs, refused={})
    assert want == "Failed" or name not in ("f-a", "f-b") or started(again) == [name[2:]]


def test_flow_records_one_event_for_a_job_whose_name_is_taken() -> None:
    there = {"job_named": {"f-b": job("f-b", "Running", owner="")}.get}
    decision = decided(flow(A, B, phase="Running"), {"a": "Completed"}, **there)
    assert (phase_of(decision), [notice.reason for notice in decision.notices]) == ("Pending", ["JobNameTaken"])
    written = flow(A, B, phase="Pending", status=msgspec.to_builtins(decision.status))
    assert decided(written, {"a": "Completed"}, **there).notices == ()


def test_failed_job_is_recreated_after_a_doubling_backoff_until_the_retry_limit() -> None:
    of = flow(entry("a", retry={"limit": 2, "backoff": "30s"}), phase="Running")
    decision = decided(of, {"a": "Failed"})
    assert (decision.effects, decision.recheck_at, told(decision, "a")) == ((), NOW + 20, ("Retrying", "Backoff"))
    assert decided(of, {"a": "Failed"}, now=NOW + 21).waits_for_status
    status = {"jobStatusList": [{"name": "f-a", "state": "Failed"}]}
    recorded = flow(entry("a", retry={"limit": 2, "backoff": "30s"}), phase="Running", status=status)
    assert decided(recorded, {"a": "Failed"}, now=NOW + 21).effects == (DeleteJob("f-a", "uid-f-a"),)
    status = {"jobStatusList": [{"name": "f-a", "state": "Failed", "endTimestamp": format_time(NOW - 10), "retries": 1}]}
    gone = flow(entry("a", retry={"limit": 2, "backoff": "30s"}), phase="Running", status=status)
    assert decided(gone, now=NOW + 49).effects == ()  # doubled
    again = decided(gone, now=NOW + 51).effects
    assert isinstance(again[0], CreateJob)
    assert manifest(gone, again[0])["metadata"]["annotations"][keys.FLOW_RETRY] == "2"
    status["jobStatusList"][0]["retries"] = 2
    assert phase_of(decided(flow(entry("a", retry={"limit": 2}), phase="Running", status=status))) == "Failed"


@pytest.mark.parametrize(("state", "want"), [("Completed", []), ("Running", ["a"]), ("Pending", ["a"])])
def test_deleted_job_is_recreated_unless_it_had_completed(state: str, want: list[str]) -> None:
    status = {"jobStatusList": [{"name": "f-a", "state": state}]}
    assert started(decided(flow(A, phase="Running", status=status))) == want


def test_running_histories_contain_every_phase_that_the_job_passed_through() -> None:
    times = [
        {"status": phase, "lastTransitionTime": format_time(NOW - 9 + at)} for at, phase in enumerate(["Pending", "Running"])
    ]
    first = decided(flow(A), {"a": job("f-a", "Running", conditions=times)}).status
    assert first is not None
    assert [each.state for each in first.job_status_list[0].running_histories] == ["Pending", "Running"]
    of = msgspec.structs.replace(flow(A), status=first)
    times += [{"status": phase, "lastTransitionTime": format_time(NOW)} for phase in ("Aborting", "Aborted")]
    then = decided(of, {"a": job("f-a", "Aborted", conditions=times)}).status
    assert then is not None
    histories = then.job_status_list[0].running_histories
    assert [each.state for each in histories] == ["Pending", "Running", "Aborting", "Aborted"]
    assert [bool(each.end_timestamp) for each in histories] == [True, True, True, False]


def test_retry_that_fails_between_two_reconciles_is_recorded_in_the_histories() -> None:
    of = flow(entry("a", retry={"limit": 2}), phase="Running")
    first = decided(of, {"a": "Failed"}).status
    again = job("f-a", "Failed", uid="2")
    meta = msgspec.structs.replace(again.metadata, annotations={keys.FLOW_RETRY: "1"})
    then = decided(msgspec.structs.replace(of, status=first), {"a": msgspec.structs.replace(again, metadata=meta)}).status
    assert then is not None
    assert then.job_status_list[0].retries == 1
    assert [each.state for each in then.job_status_list[0].running_histories] == ["Failed", "Failed"]
    made = decided(
        msgspec.structs.replace(of, status=first), {"a": msgspec.structs.replace(job("f-a", ""), metadata=meta)}
    ).status
    then = decided(msgspec.structs.replace(of, status=made), {"a": msgspec.structs.replace(again, metadata=meta)}).status
    assert then is not None
    assert [each.state for each in then.job_status_list[0].running_histories] == ["Failed", "Failed"]


def test_status_patch_contains_only_changed_fields() -> None:
    one = decided(flow(A, B), {"a": "Running"}).status
    two = decided(msgspec.structs.replace(flow(A, B), status=one), {"a": "Completed"}).status
    assert one is not None
    assert two is not None
    assert difference(one, one) == {}
    patch = difference(one, two)
    assert patch["runningJobs"] is None
    assert patch["completedJobs"] == ("f-a",)
    assert set(patch["conditions"]) == {"f-a", "f-b"}
    assert difference(FlowStatus(), FlowStatus()) == {}


def test_jobs_of_a_succeeded_flow_are_deleted_only_with_retain_policy_delete() -> None:
    done = {"a": "Completed"}
    assert decided(flow(A, phase="Succeed"), done).effects == ()
    assert decided(flow(A, phase="Succeed", jobRetainPolicy="delete"), done).effects == (DeleteJob("f-a", "uid-f-a"),)
    assert decided(flow(A, phase="Failed", jobRetainPolicy="delete"), {"a": "Failed"}).effects == ()
    before = flow(A, phase="Succeed", jobRetainPolicy="delete", status={"completedJobs": ["f-a"]})
    assert decided(before).status == before.status


def test_deleted_flow_deletes_its_running_jobs_before_it_releases_its_finalizer() -> None:
    going = {"deletionTimestamp": CREATED}
    decision = decided(flow(A, phase="Running", metadata=going), {"a": "Running"})
    assert (decision.effects, phase_of(decision)) == ((DeleteJob("f-a", "uid-f-a"),), FlowPhase.TERMINATING)
    assert decided(flow(A, phase="Terminating", metadata=going)).effects == (ReleaseFlow(),)
    assert decided(flow(A, phase="Succeed", metadata=going), {"a": "Completed"}).effects == (ReleaseFlow(),)
    orphaning = going | {"finalizers": [keys.FLOW_FINALIZER, "orphan"]}
    assert decided(flow(A, phase="Running", metadata=orphaning), {"a": "Running"}).effects == (ReleaseFlow(),)
    assert decided(flow(A, phase="Running", metadata=going | {"finalizers": ["x"]}), {"a": "Running"}).effects == ()


def test_created_job_names_its_flow_and_template_in_labels_and_annotations() -> None:
    body = manifest(flow(A), CreateJob("f-a", flow(A).spec.flows[0], SPEC))
    marks = {"volcano.sh/createdByJobFlow": "n.f", "volcano.sh/createdByJobTemplate": "n.a"}
    assert body["metadata"]["labels"] == marks
    assert body["metadata"]["annotations"] == marks
    assert body["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] is True
    assert body["spec"] is SPEC
    long = flow(A, metadata={"name": "x" * 80})
    body = manifest(long, CreateJob("f-a", long.spec.flows[0], SPEC))
    assert list(body["metadata"]["labels"]) == ["volcano.sh/createdByJobTemplate"]
    assert body["metadata"]["annotations"]["volcano.sh/createdByJobFlow"] == f"n.{'x' * 80}"


NO_TEMPLATES: dict[str, tuple[bytes, object]] = {
    "without a spec": (b"", {}),
    "of nothing": (b"null", {}),
    "with tasks of nothing": (b'{"tasks":[null,1,{"template":{"spec":{"containers":[null]}}}]}', None),
    "with tasks that are none": (b'{"tasks":{"t":1}}', None),
}


@pytest.mark.parametrize("entry", [entry("a"), entry("a", patch={"spec": {}}), entry("a", **{"for": {"count": 1}})])
@pytest.mark.parametrize(("template", "want"), NO_TEMPLATES.values(), ids=NO_TEMPLATES.keys())
def test_job_manifest_keeps_an_invalid_template_so_that_the_api_server_refuses_it(
    template: bytes, want: object, entry: dict[str, Any]
) -> None:
    of = flow(entry).spec.flows[0]
    body = manifest(flow(entry), CreateJob("f-a", of, msgspec.Raw(template), item="0" if of.loop is not None else None))
    assert msgspec.json.decode(msgspec.json.encode(body["spec"])) == (msgspec.json.decode(template) if want is None else want)


def test_a_patch_that_is_nested_too_deeply_is_refused_in_words() -> None:
    of = msgspec.structs.replace(flow(A).spec.flows[0], patch=msgspec.Raw(b'{"spec":' * 2000 + b"{}" + b"}" * 2000))
    with pytest.raises(PatchError, match="nested"):
        manifest(flow(A), CreateJob("f-a", of, SPEC))


def test_template_status_lists_its_jobs_and_keeps_the_last_list_when_there_are_none() -> None:
    template = decode({"metadata": {"name": "t"}, "status": {"jobDependsOnList": ["old"]}}, JobTemplate)
    assert made_from(template, []) == ("old",)
    assert made_from(template, [job("b", ""), job("a", "")]) == ("a", "b")


WORKING = {"a": "Failed", "b": "Running", "c": "Pending", "d": "", "e": "Restarting"}
RESTING = {"g": "Completed", "h": "Terminating", "i": "Aborted", "k": "Completing"}


def cancelled(decision: FlowDecision) -> list[str]:
    return [effect.name.removeprefix("f-") for effect in decision.effects if isinstance(effect, CancelJob)]


def test_failed_flow_cancels_its_active_jobs_only_with_failure_policy_cancel() -> None:
    entries = [entry(name) for name in (*WORKING, *RESTING)]
    jobs = {**WORKING, **RESTING}
    assert decided(flow(*entries, phase="Failed"), jobs).effects == ()
    assert cancelled(decided(flow(*entries, phase="Failed", failurePolicy="Cancel"), jobs)) == ["b", "c", "d", "e"]
    assert cancelled(decided(flow(*entries, phase="Running", failurePolicy="Cancel"), jobs)) == []  # it has not failed yet


def test_a_job_is_cancelled_once() -> None:
    of = flow(entry("a"), entry("b"), phase="Failed", failurePolicy="Cancel")
    assert decided(of, {"a": "Failed", "b": "Running"}, cancelled=frozenset({"uid-f-b"})).effects == ()


def test_job_failure_selected_by_an_if_condition_cancels_no_job() -> None:
    asks = entry("b", **{"if": {"target": "a", "phase": ["Failed"]}})
    decision = decided(
        flow(entry("a"), asks, entry("c"), phase="Running", failurePolicy="Cancel"), {"a": "Failed", "c": "Running"}
    )
    assert (phase_of(decision), cancelled(decision)) == ("Running", [])


def test_a_suspended_flow_starts_nothing_and_suspends_its_jobs() -> None:
    own = msgspec.structs.replace(job("f-d", "Running"), spec=decode({"suspend": True}, JobSpec))  # by a user
    jobs: dict[str, str | Job] = {"a": "Completed", "c": "Running", "d": own}
    decision = decided(flow(A, B, entry("c"), entry("d"), phase="Running", suspend=True), jobs)
    assert decision.effects == (SuspendJob("f-c", "uid-f-c", suspended=True),)
    assert told(decision, "b") == ("Waiting", FlowReason.SUSPENDED)


def test_a_resumed_flow_resumes_only_the_jobs_that_were_suspended_with_it() -> None:
    def suspended(name: str, **annotations: str) -> Job:
        found = job(name, "Pending")
        meta = msgspec.structs.replace(found.metadata, annotations=annotations)
        return msgspec.structs.replace(found, metadata=meta, spec=decode({"suspend": True}, JobSpec))

    jobs: dict[str, str | Job] = {"a": suspended("f-a", **{keys.FLOW_SUSPENDED: "true"}), "c": suspended("f-c")}
    assert decided(flow(A, entry("c"), phase="Running"), jobs).effects == (SuspendJob("f-a", "uid-f-a", suspended=False),)
