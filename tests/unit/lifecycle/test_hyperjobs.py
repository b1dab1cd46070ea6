"""HyperJobs: their parts, where these go, and how they are together."""

import msgspec
import pytest

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase
from pyroclast.api.records import HyperJob, Job, Namespace
from pyroclast.lifecycle import hyperjobs
from pyroclast.lifecycle.hyperjobs import HyperFacts, Problem, decide
from tests.unit.lifecycle.builders import decode

NOW = 1_741_687_200.0


def entry(name="a", replicas=1, *clusters, **more):
    return {"name": name, "replicas": replicas, "clusterNames": list(clusters), "templateSpec": {"tasks": []}, **more}


def hyper_job(*entries, status=None, **spec):
    meta = {"name": "h", "namespace": "n", "uid": "hu", "generation": 2, "resourceVersion": "7"}
    return decode({"metadata": meta, "spec": {"replicatedJobs": list(entries), **spec}, "status": status or {}}, HyperJob)


def job(name, phase=JobPhase.RUNNING, **status):
    return decode({"metadata": {"name": name, "namespace": "n"}, "status": {"state": {"phase": phase.value}} | status}, Job)


def places(each):
    parts = hyperjobs.split(each)
    assert not isinstance(parts, Problem)
    return {part.name: part.domain for part in parts}


def test_jobs_of_a_hyperjob_are_spread_round_robin_over_at_most_max_domains():
    each = hyper_job(entry("a", 3, "x", "y"), entry("b"))
    assert places(each) == {"h-a-0": "x", "h-a-1": "y", "h-a-2": "x", "h-b-0": "n"}
    assert places(hyper_job(entry("a", 3, "x", "y"), maxDomains=1)) == {f"h-a-{number}": "x" for number in range(3)}


PROBLEMS = {
    "a name twice": (hyper_job(entry(), entry()), "DuplicateName"),
    "auto": (hyper_job(entry(splitPolicy={"mode": "auto"})), "AutoSplitNotSupported"),
    "no domain left": (hyper_job(entry("a", 1, "x"), entry("b", 1, "y"), maxDomains=1), "TooManyDomains"),
    "more than can be told of": (hyper_job(entry("a", 2**31 - 1)), "TooManyJobs"),
}


@pytest.mark.parametrize(("each", "reason"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_hyperjob_that_cannot_be_split_yields_a_problem_with_its_reason(each, reason):
    found = hyperjobs.split(each)
    assert isinstance(found, Problem)
    assert found.reason == reason


def test_job_has_an_owner_reference_only_in_the_namespace_of_its_hyperjob():
    each = hyper_job(entry())
    (part,) = hyperjobs.split(each)
    own, other = (hyperjobs.manifest(each, part, namespace)["metadata"] for namespace in "nx")
    assert own["ownerReferences"][0]["uid"] == "hu"
    assert "ownerReferences" not in other
    assert own["labels"] == other["labels"] == {"training.volcano.sh/hyperjob-uid": "hu"}


@pytest.mark.parametrize(("given", "want"), [(None, False), ("m", False), ("m, n", True), ("*", True)])
def test_namespace_accepts_hyperjobs_only_from_itself_and_from_annotated_namespaces(given, want):
    annotations = {} if given is None else {"training.volcano.sh/hyperjobs-from": given}
    assert hyperjobs.is_allowed(hyper_job(), decode({"metadata": {"name": "x", "annotations": annotations}}, Namespace)) is want
    assert hyperjobs.is_allowed(hyper_job(), decode({"metadata": {"name": "n"}}, Namespace))


def told(each, *jobs, problem=None):
    patch = hyperjobs.status(each, {job.metadata.name: job for job in jobs}, problem, now=NOW)
    return {condition["type"]: condition["status"] for condition in patch["status"]["conditions"]}, patch["status"]


@pytest.mark.parametrize(
    ("phases", "want"),
    [
        ([], "FFFF"),
        (["Running"], "FFFF"),
        (["Running", "Pending"], "TFFF"),
        (["Running", "Completed"], "TTFF"),
        (["Completed", "Completed"], "TTTF"),
        (["Running", "Failed"], "TFFT"),
    ],
)
def test_hyperjob_conditions_follow_the_phases_of_its_jobs(phases, want):
    jobs = [job(f"h-a-{number}", JobPhase(phase)) for number, phase in enumerate(phases)]
    assert "".join(value[0] for value in told(hyper_job(entry("a", 2)), *jobs)[0].values()) == want


def test_negative_replicas_count_as_zero():
    each = hyper_job(entry("a", 2), entry("b", -1))
    assert places(each) == {"h-a-0": "n", "h-a-1": "n"}
    assert told(each, job("h-a-0"), job("h-a-1"))[0]["Placed"] == "True"


def test_hyperjob_with_too_many_jobs_is_reported_as_not_placed():
    each = hyper_job(entry("a", 2**31 - 1))
    conditions, status = told(each, problem=hyperjobs.split(each))
    assert (conditions["Placed"], status["conditions"][0]["reason"]) == ("False", "TooManyJobs")


def test_hyperjob_is_available_and_not_failed_while_min_available_jobs_run():
    jobs = [job("h-a-0", JobPhase.FAILED), job("h-a-1")]
    conditions, status = told(hyper_job(entry("a", 2), minAvailable=1), *jobs)
    assert conditions == {"Placed": "True", "Available": "True", "Completed": "False", "Failed": "False"}
    assert (status["splitCount"], status["observedGeneration"]) == (2, 2)


def test_status_is_patched_once_and_keeps_the_outcome_of_deleted_jobs():
    first = hyper_job(entry())
    done = job("h-a-0", JobPhase.COMPLETED, succeeded=2)
    status = hyperjobs.status(first, {"h-a-0": done}, None, now=NOW)["status"]
    assert status["replicatedJobsStatus"][0]["succeeded"] == 2
    later = hyper_job(entry(), status=status)
    assert hyperjobs.status(later, {"h-a-0": done}, None, now=NOW + 9) == {}
    assert hyperjobs.has_ended(later, "h-a-0")
    assert not hyperjobs.has_ended(first, "h-a-0")
    conditions, removed = told(later)
    assert conditions["Completed"] == "True"
    assert removed["conditions"][2]["lastTransitionTime"] == status["conditions"][2]["lastTransitionTime"]


def test_problem_is_reported_in_the_placed_condition():
    _, status = told(hyper_job(entry()), problem=Problem("Why", "so"))
    placed = status["conditions"][0]
    assert (placed["status"], placed["reason"], placed["message"]) == ("False", "Why", "so")
    assert msgspec.convert(status, type(hyper_job().status)).conditions[0].reason == "Why"


LONG = "pod train-worker-0 of task worker failed with exit code 137: RestartJob by policy; 3 pods succeeded, 1 failed" * 2
NAME = "a-name-that-is-about-as-long-as-names-of-entries-are"


def large(number=10_000, phase=JobPhase.RUNNING):
    each = hyper_job(entry(NAME, number))
    state = {"reason": "MinAvailableReached", "message": LONG, "lastTransitionTime": "2025-03-11T10:00:00Z"}
    names = [f"h-{NAME}-{place}" for place in range(number)]
    jobs = {name: job(name, state={"phase": phase.value, **state}) for name in names}
    return each, jobs


def stored(each, status):
    return len(msgspec.json.encode({"spec": each.spec, "status": status}))


def test_status_of_ten_thousand_jobs_stays_within_the_storage_limit():
    each, jobs = large()
    status = hyperjobs.status(each, jobs, None, now=NOW)["status"]
    assert stored(each, status) <= 1_450_000
    states = status["replicatedJobsStatus"][0]["jobStates"]
    assert {state["phase"] for state in states.values()} == {"Running"}
    assert len(states) == 10_000
    few, of_few = large(100)
    assert hyperjobs.status(few, of_few, None, now=NOW)["status"]["replicatedJobsStatus"][0]["jobStates"][f"h-{NAME}-0"][
        "message"
    ]


def test_status_beside_a_template_of_a_megabyte_keeps_only_the_states_of_ended_jobs():
    _, jobs = large()
    spec = {"tasks": [{"template": {"x": "y" * 1_000_000}}]}
    big = decode({"metadata": {"name": "h"}, "spec": {"replicatedJobs": [entry(NAME, 10_000, templateSpec=spec)]}}, HyperJob)
    jobs[f"h-{NAME}-7"] = job(f"h-{NAME}-7", JobPhase.COMPLETED)
    status = hyperjobs.status(big, jobs, None, now=NOW)["status"]
    assert stored(big, status) <= 1_450_000
    assert list(status["replicatedJobsStatus"][0]["jobStates"]) == [f"h-{NAME}-7"]


def applied(there, operations):
    for operation in operations:
        *path, last = operation["path"].strip("/").split("/")
        place = there
        for part in path:
            place = place[int(part)] if isinstance(place, list) else place[part]
        if operation["op"] == "remove":
            del place[last]
        else:
            place[last] = operation["value"]
    return there


def test_json_patch_for_two_of_ten_thousand_jobs_is_small_and_yields_the_new_status():
    each, jobs = large()
    first = hyperjobs.status(each, jobs, None, now=NOW)["status"]
    later = hyper_job(entry(NAME, 10_000), status=first)
    name = f"h-{NAME}-5000"
    changed = {**jobs, name: job(name, JobPhase.COMPLETED, succeeded=3)}
    del changed[f"h-{NAME}-1"]
    body = hyperjobs.status(later, changed, None, now=NOW + 9)["status"]
    operations = hyperjobs.status_patch(later, body)
    assert len(msgspec.json.encode(operations)) < 2000
    there = msgspec.json.decode(msgspec.json.encode({"metadata": {}, "status": first}))
    assert applied(there, operations)["status"] == msgspec.json.decode(msgspec.json.encode(body))


def test_no_json_patch_is_built_when_the_status_is_new_or_every_job_has_changed():
    each, jobs = large()
    body = hyperjobs.status(each, jobs, None, now=NOW)["status"]
    assert hyperjobs.status_patch(each, body) is None
    later = hyper_job(entry(NAME, 10_000), status=body)
    done = {name: job(name, JobPhase.COMPLETED) for name in jobs}
    assert hyperjobs.status_patch(later, hyperjobs.status(later, done, None, now=NOW)["status"]) is None


def decided(each, *jobs, is_empty=False, namespaces=()):
    found = decide(HyperFacts(each, {job.metadata.name: job for job in jobs}, is_empty, dict(namespaces)))
    return {
        "delete": [job.metadata.name for job in found.delete],
        "finalizers": found.finalizers,
        "missing": [part.name for part in found.missing],
        "problems": {name: problem.reason for name, problem in (found.problems or {}).items()},
    }


def open_to(name, *given):
    return name, decode(
        {"metadata": {"name": name, "annotations": {"training.volcano.sh/hyperjobs-from": ",".join(given)}}}, Namespace
    )


def terminating(each, *finalizers):
    meta = msgspec.structs.replace(each.metadata, deletion_timestamp="2025-03-11T14:40:00Z", finalizers=finalizers)
    return msgspec.structs.replace(each, metadata=meta)


NOTHING = {"delete": [], "finalizers": None, "missing": [], "problems": {}}


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(lambda: decided(hyper_job(entry("a", 2)), job("h-a-0")), {"missing": ["h-a-1"]}, id="one is missing"),
        pytest.param(
            lambda: decided(hyper_job(entry("a", 1)), job("h-a-0"), job("h-a-1")), {"delete": ["h-a-1"]}, id="one too many"
        ),
        pytest.param(
            lambda: decided(hyper_job(entry("a", 2, "n", "x")), namespaces=[open_to("x", "n")]),
            {"finalizers": (keys.HYPER_JOB_FINALIZER,), "missing": ["h-a-0", "h-a-1"]},
            id="it is held before its first Job elsewhere",
        ),
        pytest.param(
            lambda: decided(hyper_job(entry("a", 2, "n", "x")), namespaces=[open_to("x", "other")]),
            {"missing": ["h-a-0", "h-a-1"], "problems": {"h-a-1": "NamespaceNotAllowed"}},
            id="a namespace that takes none stops no other",
        ),
        pytest.param(lambda: decided(terminating(hyper_job(entry("a", 2)))), {}, id="its owner references clean up"),
        pytest.param(
            lambda: decided(terminating(hyper_job(entry("a", 2)), keys.HYPER_JOB_FINALIZER, "x"), job("h-a-0")),
            {"delete": ["h-a-0"]},
            id="its Jobs go first",
        ),
        pytest.param(
            lambda: decided(terminating(hyper_job(entry("a", 2)), keys.HYPER_JOB_FINALIZER, "x"), is_empty=True),
            {"finalizers": ("x",)},
            id="it goes with the last of them",
        ),
    ],
)
def test_decide_returns_missing_jobs_deletions_finalizers_and_problems(found, want):
    assert found() == NOTHING | want
