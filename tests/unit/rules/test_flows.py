"""JobFlows and JobTemplates: the graph, what has started, what is in use."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from pyroclast.rules import jobflows, jobtemplates
from pyroclast.rules.lookups import FlowView
from tests.unit.rules.builders import QUEUES, job, task

UNDEFINED = "jobflow Flow is not DAG: vertex is not defined: "
FORCE = {"flow.volcano.sh/force-delete": "true"}


def entry(name: str, *targets: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **({"dependsOn": {"targets": list(targets)}} if targets else {}), **more}


def flow(*entries: dict[str, Any], status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "f", **metadata}, "spec": {"flows": list(entries)}, "status": status or {}}


GRAPHS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": (flow(), ""),
    "a diamond": (flow(entry("a"), entry("b", "a"), entry("c", "a"), entry("d", "b", "c")), ""),
    "undefined": (flow(entry("1", "2"), entry("2", "1", "3")), f"{UNDEFINED}3; jobflow Flow is not DAG"),
    "a ring": (flow(entry("1", "2"), entry("2", "3"), entry("3", "1")), "jobflow Flow is not DAG"),
    "itself": (flow(entry("1", "1")), "jobflow Flow is not DAG"),
    "the same twice": (flow(entry("a"), entry("a")), ""),
    "one name for two": (flow(entry("a"), entry("b"), entry("a", "b")), "flows[0] and flows[2] are both named a, but differ;"),
    "one name for two, the last of them in a ring": (
        flow(entry("a"), entry("b", "a"), entry("a", "b")),
        "jobflow Flow is not DAG; flows[0] and flows[2] are both named a, but differ;",
    ),
    "a choice of nothing": (
        flow(entry("a"), entry("b", switch={"on": "a", "cases": [{"phase": "Failed", "entries": ["x"]}]})),
        f"{UNDEFINED}x",
    ),
    "a choice": (flow(entry("a"), entry("b", switch={"on": "a", "default": ["c"]}), entry("c")), ""),
    "a choice of what comes before": (flow(entry("a", "b"), entry("b", **{"if": {"target": "a"}})), "jobflow Flow is not DAG"),
    "an else": (flow(entry("a"), entry("b", **{"if": {"target": "a"}, "else": ["c"]}), entry("c")), ""),
    "a round with the name of an entry": (
        flow(entry("a", **{"for": {"count": 2}}), entry("a-1")),
        "round 1 of the loop a would be named a-1, which is an entry already;",
    ),
    "names that no round has": (flow(entry("a", **{"for": {"count": 2}}), *map(entry, ("a-2", "a-00", "a-٠", "a-1x"))), ""),
}


@pytest.mark.parametrize(("given", "message"), GRAPHS.values(), ids=GRAPHS.keys())
def test_flow_creation_refuses_cycles_undefined_targets_and_conflicting_names(given: dict[str, Any], message: str) -> None:
    assert jobflows.validate_create(given).message == message


class Known:
    """One template with a task, for `a` alone; expressions with a question mark are wrong."""

    def patched(self, _: str, given: dict[str, Any], __: object) -> dict[str, Any] | None:
        if given["name"] != "a":
            return None
        if given.get("patch", {}).get("spec") == {"tasks": 1}:
            raise ValueError("patch.spec.tasks: must be a list, not a number")
        return {**job(task("t"))["spec"], **given.get("patch", {}).get("spec", {})}

    def expression_faults(self, given: dict[str, Any], _: object) -> Iterator[tuple[str, str]]:
        fields = {"if.expression": given.get("if", {}).get("expression"), "for.until": given.get("for", {}).get("until")}
        return ((field, "no such thing") for field, source in fields.items() if "?" in str(source))

    def reads(self, _: object) -> Iterator[tuple[str, str]]:
        return iter(())


def test_flow_with_more_references_than_admission_can_compile_is_refused() -> None:
    many = [entry(f"e{n}", patch={"spec": {"queue": "${parameters.q}" * 100}}) for n in range(21)]
    assert "have 2100 references to values, at most 2000" in jobflows.validate_create(flow(*many)).message
    assert jobflows.validate_create(flow(*many[:20])).allowed


PARAMETERS = {"a b": (1, "a name has letters"), "a": (None, "must be a string"), "b": ("x" * 5000, "has 5000 characters")}


@pytest.mark.parametrize(("name", "value", "why"), [(name, *rest) for name, rest in PARAMETERS.items()])
def test_parameter_is_a_short_scalar_with_a_plain_name_and_stays_once_an_entry_has_started(
    name: str, value: Any, why: str
) -> None:
    body = flow(entry("a"))
    assert why in jobflows.validate_create({**body, "spec": {**body["spec"], "parameters": {name: value}}}).message
    old = {**flow(entry("a"), status={"runningJobs": ["f-a"], "state": {"phase": "Running"}})}
    new = {**old, "spec": {**old["spec"], "parameters": {"lr": 1}}}
    assert "may not change parameters" in jobflows.validate_update(new, old).message
    assert jobflows.validate_update({**new, "status": {}}, {**old, "status": {}}).allowed


def probe(task_name: str) -> dict[str, Any]:
    return {"dependsOn": {"targets": ["a"], "probe": {"tcpSocketList": [{"taskName": task_name, "port": 1}]}}}


ENTRIES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a target and an expression": (entry("b", **{"if": {"target": "a", "expression": "true"}}), "if", "either target"),
    "an if of nothing": (entry("b", **{"if": {}}), "if", "either target"),
    "else without if": (entry("b", **{"else": ["a"]}), "if", "else is what runs when if does not hold"),
    "a case of nothing": (
        entry("b", switch={"on": "a", "cases": [{"entries": []}]}),
        "switch.cases[0]",
        "one of phase, exitCode and expression",
    ),
    "a switch on nothing": (entry("b", switch={"on": "", "default": ["a"]}), "switch.on", "whose outcome is asked for"),
    "a loop of both": (entry("b", **{"for": {"count": 1, "items": ["x"]}}), "for", "one of count, items and itemsFrom"),
    "a long loop": (entry("b", **{"for": {"count": 9999}}), "", "would make 9999 Jobs, at most 1500"),
    "a backoff": (entry("b", retry={"limit": 1, "backoff": "soon"}), "retry.backoff", "a duration such as 30s"),
    "a backoff into the past": (entry("b", retry={"limit": 1, "backoff": "-1s"}), "retry.backoff", "must not be negative"),
    "an expression": (entry("b", **{"if": {"expression": "what?"}}), "if.expression", "no such thing"),
    "an end of a loop": (entry("b", **{"for": {"count": 1, "until": "?"}}), "for.until", "no such thing"),
    "a probe of a task that no target has": (
        entry("b", **probe("x")),
        "dependsOn.probe.tcpSocketList[0].taskName",
        "no target of b",
    ),
}


@pytest.mark.parametrize(("given", "where", "words"), ENTRIES.values(), ids=ENTRIES.keys())
def test_invalid_flow_entry_is_refused_with_reason_and_field_path(given: dict[str, Any], where: str, words: str) -> None:
    verdict = jobflows.validate_create(flow(entry("a"), given), Known())
    assert words in verdict.message
    assert [cause.path for cause in verdict.causes] == [f"spec.flows[1].{where}" if where else "spec.flows"]


def test_entry_patch_that_makes_an_invalid_job_is_refused_if_the_template_exists() -> None:
    given = flow(entry("a", patch={"spec": {"maxRetry": -1}}))
    verdict = jobflows.validate_create(given, Known())
    assert "entry a: the patch makes an invalid Job: " in verdict.message
    assert verdict.causes[0].path == "spec.flows[0].patch.spec.maxRetry"
    verdict = jobflows.validate_create(flow(entry("a", patch={"spec": {"tasks": 1}})), Known())
    assert "entry a: the patch does not fit: patch.spec.tasks: must be a list" in verdict.message
    assert jobflows.validate_create(flow(entry("unknown", patch={"spec": {"maxRetry": -1}})), Known()).allowed


def test_task_of_a_probe_is_validated_only_if_all_target_templates_exist() -> None:
    given = entry("b", **probe("x"))
    given["dependsOn"]["targets"].append("c")
    assert jobflows.validate_create(flow(entry("a"), entry("c"), given), Known()).allowed
    assert jobflows.validate_create(flow(entry("a"), entry("b", **probe("t"))), Known()).allowed


def test_cycle_refusal_lists_the_entries_of_the_cycle() -> None:
    verdict = jobflows.validate_create(flow(entry("a", "b"), entry("b", "c"), entry("c", "a")))
    assert verdict.causes[0].detail == "jobflow Flow is not DAG; a → b → c → a"


def test_the_field_that_closes_a_cycle_is_named() -> None:
    by_if = flow(entry("a", **{"if": {"target": "b"}}), entry("b", "a"))
    by_else = flow(entry("b", **{"if": {"target": "a"}, "else": ["a"]}), entry("a"))
    by_switch = flow(entry("a", "c"), entry("b", switch={"on": "a", "default": ["c"]}), entry("c"))
    causes = [jobflows.validate_create(each).causes[0] for each in (by_if, by_else, by_switch)]
    assert [(cause.path, cause.value, cause.detail.rpartition("; ")[2]) for cause in causes] == [
        ("spec.flows[0].if.target", "b", "a → b → a"),
        ("spec.flows[0].if.target", "a", "b → a → b"),
        ("spec.flows[0].dependsOn.targets[0]", "c", "a → c → b → a"),
    ]
    backwards = flow(entry("a"), entry("b", **{"if": {"target": "a"}, "else": ["a"]}))
    assert jobflows.validate_create(backwards).causes[0].path == "spec.flows[1].else[0]"


@pytest.mark.parametrize("phase", ["Succeed", "Failed"])
def test_entries_of_an_ended_flow_cannot_be_changed_but_its_retain_policy_can(phase: str) -> None:
    ended = {**OLD, "status": {"state": {"phase": phase}, **STARTED}}
    more = flow(entry("a"), entry("b", "a"), entry("c"))
    assert f"that is {phase} can not be changed" in jobflows.validate_update(more, ended).message
    retained = {**ended, "spec": {**ended["spec"], "jobRetainPolicy": "delete"}}
    assert jobflows.validate_update(retained, ended).allowed


def chain(length: int) -> dict[str, Any]:
    names = [str(n) for n in range(length)]
    return flow(entry("0"), *(entry(b, a) for a, b in itertools.pairwise(names)))


def test_flow_of_5000_entries_is_allowed() -> None:
    assert jobflows.validate_create(chain(5_000)).allowed


def test_flow_too_large_to_store_its_status_is_refused() -> None:
    verdict = jobflows.validate_create(chain(10_000))
    assert "at most 1450000 can be stored" in verdict.message
    assert [cause.path for cause in verdict.causes] == ["spec.flows"]
    assert jobflows.validate_update(chain(10_000), chain(10_000) | {"metadata": {"name": "f", "labels": {"a": "b"}}}).allowed


def test_flow_creation_warns_of_equal_entries_long_names_and_ignored_job_spec() -> None:
    given = flow(entry("a", patch={"spec": {}, "jobSpec": {}}), entry("a", patch={"spec": {}, "jobSpec": {}}), name="f" * 63)
    warnings = jobflows.validate_create(given).warnings
    assert any("both are one entry" in warning for warning in warnings)
    assert any("name part must be no more than 63 bytes" in warning for warning in warnings)
    assert any("spec is taken" in warning for warning in warnings)


def test_name_warning_of_a_loop_is_about_the_job_with_the_longest_name() -> None:
    loop = {"for": {"count": 11}}
    fits = flow(entry("b" * 59, **{"for": {"count": 10}}), entry("b" * 61), entry("c"), entry("c", "b" * 61), name="f")
    assert jobflows.validate_create(fits).warnings == ()
    too_long = jobflows.validate_create(flow(entry("b" * 59, **loop), name="f")).warnings
    assert [warning.partition(": ")[0] for warning in too_long] == ["spec.flows[0].name"]
    assert f"f-{'b' * 59}-10: name part" in too_long[0]


STARTED = {"completedJobs": ["f-a"], "conditions": {"f-b": {"phase": "Waiting"}}}
OLD = flow(entry("a"), entry("b", "a"), status=STARTED)
FIXED = "jobflow updates may not change entries that have started: "
UPDATES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": (OLD, ""),
    "one more": (flow(entry("a"), entry("b", "a"), entry("c", "b")), ""),
    "one that waits is changed": (flow(entry("a"), entry("b", "a", patch={"spec": {}})), ""),
    "one that waits is removed": (flow(entry("a")), ""),
    "one that has started is changed": (
        flow(entry("a", patch={"spec": {"maxRetry": 1}}), entry("b", "a")),
        f"{FIXED}a (changed)",
    ),
    "one that has started is removed": (flow(entry("b")), f"{FIXED}a (removed)"),
    "a ring": (flow(entry("a"), entry("b", "b")), "jobflow Flow is not DAG"),
}


@pytest.mark.parametrize(("given", "words"), UPDATES.values(), ids=UPDATES.keys())
def test_flow_update_refuses_changes_of_started_entries_and_cycles(given: dict[str, Any], words: str) -> None:
    message = jobflows.validate_update(given, OLD).message
    assert words in message
    assert bool(message) == bool(words)


def test_a_loop_has_not_started_because_an_entry_is_named_like_a_round() -> None:
    loop = entry("b", "a", **{"for": {"count": 2}})
    old = flow(entry("a"), loop, entry("b-7"), status={**STARTED, "runningJobs": ["f-b-7"]})
    changed = flow(entry("a"), loop | {"retry": {"limit": 1}}, entry("b-7"))
    assert jobflows.validate_update(changed, old).allowed
    begun = {**old, "status": {"runningJobs": ["f-b-1"]}}
    assert "b (changed)" in jobflows.validate_update(changed, begun).message


@pytest.mark.parametrize(
    ("status", "metadata", "may_go"),
    [
        ({}, {}, True),
        ({"state": {"phase": "Running"}, **STARTED}, {}, False),
        ({"state": {"phase": "Running"}, "conditions": {"f-a": {"phase": "Completed", "reason": "Loop"}}}, {}, True),
        ({"state": {"phase": "Succeed"}, **STARTED}, {}, True),
        ({"state": {"phase": "Failed"}, **STARTED}, {}, True),
        ({"state": {"phase": "Running"}, **STARTED}, {"annotations": FORCE}, True),
        ({"state": {"phase": "Running"}, **STARTED}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
    ],
)
def test_deletion_of_a_running_flow_with_started_entries_is_refused_without_force_delete(
    status: dict[str, Any], metadata: dict[str, Any], may_go: bool
) -> None:
    verdict = jobflows.validate_delete(flow(entry("a"), status=status, **metadata), "f")
    assert verdict.allowed is may_go
    assert may_go or 'annotate it with flow.volcano.sh/force-delete: "true" first' in verdict.message


def test_job_template_is_validated_like_a_job_and_queue_problems_are_only_warnings() -> None:
    good = {"metadata": {"name": "t"}, "spec": {"tasks": [{"replicas": 1, "template": task()["template"]}] * 2}}
    assert jobtemplates.validate(good, QUEUES).allowed
    bad = {"metadata": {"name": "t"}, "spec": job(task("a"), task("a", template={}), policies=[{"exitCode": 3}])["spec"]}
    verdict = jobtemplates.validate(bad, QUEUES)
    assert {cause.path for cause in verdict.causes} == {
        "spec.tasks[1].name",
        "spec.tasks[1].template.spec.containers",
        "spec.policies[0].action",
    }
    for queue, words in (("nowhere", "not found; jobs will be refused until it is there"), ("closed", "queue closed is Closed")):
        verdict = jobtemplates.validate({"metadata": {"name": "t"}, "spec": job(queue=queue)["spec"]}, QUEUES)
        assert verdict.allowed
        assert words in " ".join(verdict.warnings)


def test_deletion_of_a_template_used_by_incomplete_flows_is_refused_without_force_delete() -> None:
    users = [FlowView("one", "Running"), FlowView("two", "Succeed"), FlowView("three", "")]
    verdict = jobtemplates.validate_delete({}, "t", users)
    assert verdict.message.startswith(
        "jobtemplate t can not be deleted because JobFlows that are not complete use it: one, three; "
    )
    assert jobtemplates.validate_delete({}, "t", users[1:2]).allowed
    assert jobtemplates.validate_delete({"metadata": {"annotations": FORCE}}, "t", users).allowed
