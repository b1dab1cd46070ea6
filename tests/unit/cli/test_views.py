"""What the commands that only we have make of the objects: pure."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from pyroclast.views.explanation import explanation_lines, stored_explanation, with_trail
from pyroclast.views.flows import draw_flow, flow_rows, flow_tree_lines, open_entries
from pyroclast.views.groups import position_of, start_of
from pyroclast.views.jobs import running_cause, waiter_of, waiting_cause
from pyroclast.views.nodes import label_groups, node_rows, reservations_of
from pyroclast.views.queues import draw_queues, in_tree_order, queue_rows
from pyroclast.views.readable import clock_text, natural_order, ranges_of, start_text
from pyroclast.views.rows import health_of, lanes, running_rows, slowest_lines, timeline_rows, waiting_rows
from pyroclast_cli.compatible import flows as run_flows
from pyroclast_cli.compatible import jobs as run_jobs
from pyroclast_cli.flags import Failure
from pyroclast_cli.views.nodes import tier_groups
from pyroclast_cli.views.timeline import trace_events
from pyroclast_cli.views.wait import is_out_of_reach
from pyroclast_cli.views.waiting import with_order

START = datetime(2026, 11, 24, 12, tzinfo=UTC)
NOW = (START + timedelta(minutes=10)).timestamp()


def at(minutes: int) -> str:
    return (START + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(name="train", *, phase="Pending", message="", reason="", queue="research", minutes=0, **spec):
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"job-{name}", "creationTimestamp": at(minutes)},
        "spec": {"queue": queue, "schedulerName": "volcano", "tasks": [{"replicas": 4}], **spec},
        "status": {"state": {"phase": phase, "message": message, "reason": reason, "lastTransitionTime": at(minutes + 1)}},
    }


def group(name="train", *, phase="Pending", message="", queue="research", minutes=0, cpu="4", priority=0, namespace="team"):
    conditions = [{"type": "Unschedulable", "status": "True", "message": message, "lastTransitionTime": at(2)}] if message else []
    made = {"name": f"{name}-g", "namespace": namespace, "uid": f"g-{name}"}
    owner = {"kind": "Job", "name": name, "uid": f"job-{name}"}
    return {
        "metadata": {**made, "creationTimestamp": at(minutes), "ownerReferences": [owner]},
        "spec": {"queue": queue, "priority": priority, "minResources": {"cpu": cpu, "pods": "4", "requests.cpu": cpu}},
        "status": {"phase": phase, "conditions": conditions},
    }


FULL = "QueueFull: not now: it asks for 4 cpu; queue research may have at most 8 cpu"


def test_explanation_of_a_running_job_with_crashing_containers_has_code_crashing():
    runs = job(phase="Running", message="1 of 1; waits: Crashing: containers end on 1 pod")
    answer = stored_explanation(waiter_of(runs, None, None), NOW, trouble=running_cause(runs))
    assert (answer["code"], answer["sentence"]) == ("Crashing", "it is Running; containers end on 1 pod")
    assert explanation_lines(answer) == [
        "team/train in queue research: Crashing",
        "why      it is Running; containers end on 1 pod",
        "help     see why the containers end: vcctl logs NAME --previous; see docs/codes.md#crashing",
    ]


def described(phase, *, message="", meta=(), **status):
    made = job(phase=phase, message=message)
    return {**made, "metadata": {**made["metadata"], **dict(meta)}, "status": {**made["status"], **status}}


DUE = "1 of 1; waits: pod j-a-0 of task a failed; RestartJob is due at 2026-01-01T00:00:09Z"
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (described("Failed", message="pod train-a-0 failed"), f"it is Failed since {at(1)}: pod train-a-0 failed"),
        (described("Completed"), f"it is Completed since {at(1)}"),
        (described("Pending", meta=GOING), "it is being deleted since 2026-01-01T00:00:00Z, and stays until its finalizers"),
        (described("Completed", meta={**GOING, "finalizers": None}), "it is being deleted since 2026-01-01T00:00:00Z"),
        (described("Pending", succeeded=4), "all 4 pods have succeeded; the job controller has not ended it yet"),
        (
            described("Running", succeeded=4, message=DUE),
            "all 4 pods have succeeded; pod j-a-0 of task a failed; RestartJob is due at",
        ),
        (described("Running", message=DUE), "it is Running: pod j-a-0 of task a failed; RestartJob is due at"),
        (described("Running", succeeded=3), "it is Running and does not wait"),
    ],
)
def test_explanation_of_a_job_that_does_not_wait_says_what_it_does(given, want):
    answer = stored_explanation(waiter_of(given, None, None), NOW, trouble=running_cause(given))
    assert (answer["code"], answer["sentence"][: len(want)]) == (None, want)


@pytest.mark.parametrize("phase", ["Running", "Restarting", "Terminating"])
def test_explanation_of_a_job_with_a_pod_on_a_silent_node_names_both_and_what_helps(phase):
    given = job(phase=phase, message="x; waits: NodeSilent: pod j-a-0 is on node n1; the node does not answer since 12:00")
    answer = stored_explanation(waiter_of(given, None, None), NOW, trouble=running_cause(given))
    assert answer["code"] == "NodeSilent"
    assert answer["sentence"] == f"it is {phase}; pod j-a-0 is on node n1; the node does not answer since 12:00"
    assert "node.kubernetes.io/out-of-service" in answer["help"]


def test_explanation_of_a_running_job_with_a_task_that_can_never_start_says_never():
    runs = job(phase="Running", message="1 of 1; waits: WaitsForTask: never: task b can never start")
    answer = stored_explanation(waiter_of(runs, None, None), NOW, trouble=running_cause(runs))
    assert (answer["code"], answer["never"]) == ("WaitsForTask", True)


@pytest.mark.parametrize(
    ("waiting", "its_group", "absence", "code", "is_final"),
    [
        (job(message=f"waits: {FULL}"), None, "", "QueueFull", False),
        (job(message="waits: AboveCluster: never: it asks for 1k cpu"), None, "", "AboveCluster", True),
        (job(message="waits: pods is forbidden"), None, "", "PodsRefused", False),
        (job(reason="VolumeClaimNotFound", message="pvc data is not found"), None, "", "ClaimMissing", False),
        (job(phase="Aborted"), None, "", "Suspended", False),
        (job(), group(message=FULL), "", "QueueFull", False),
        (job(), group(message=f"3/4 tasks in gang unschedulable {FULL}"), "", "QueueFull", False),
        (job(), group(), "", "NotExamined", False),
        (job(), None, "", "NotExamined", False),
        (job(), group(phase="Running"), "", "Starting", False),
        (job(), group(), "nobody", "NoScheduler", False),
        (job(message="waits: NoScheduler: nobody"), group(message=FULL), "", "NoScheduler", False),
        (job(message=f"waits: {FULL}"), group(message=FULL), "nobody", "NoScheduler", False),
        (job(message="waits: pods is forbidden"), None, "nobody", "PodsRefused", False),
        (job(), group(phase="Running"), "nobody", "Starting", False),
    ],
)
def test_waiting_cause_is_read_from_the_job_or_its_podgroup(waiting, its_group, absence, code, is_final):
    cause = waiting_cause(waiting, its_group, absence=absence)
    assert (cause.code, cause.is_final) == (code, is_final)
    assert cause.sentence
    assert (FULL in cause.sentence) is (code == "NoScheduler" and bool(absence) and its_group == group(message=FULL))


def views(*pairs):
    return [waiter_of(each, its_group, None) for each, its_group in pairs]


def test_waiting_rows_list_unstarted_jobs_oldest_first():
    found = views(
        (job("late", minutes=5), group("late", message=FULL)),
        (job("early"), group("early", message=FULL)),
        (job("runs", phase="Running"), group("runs", phase="Running")),
    )
    rows = waiting_rows(found, NOW)
    assert [(row["name"], row["waitedSeconds"], row["code"], row["asks"]) for row in rows] == [
        ("early", 600, "QueueFull", {"cpu": "4"}),
        ("late", 300, "QueueFull", {"cpu": "4"}),
    ]


def test_waiting_rows_take_position_and_start_from_the_order_of_the_scheduler():
    wrote = group("one", message=FULL)
    wrote["metadata"]["annotations"] = {
        "scheduling.volcano.sh/waiting": json.dumps({"ahead": 20, "start": [at(20), at(30), at(40)]})
    }
    rows = waiting_rows(views((job("one"), wrote), (job("other"), group("other", message=FULL))), NOW)
    start = {"earliest": at(21), "likely": at(31), "latest": at(41)}
    live = {"object": "jobs.batch.volcano.sh", "namespace": "team", "position": 24, "never": False, "start": start}
    shown = with_order(rows, [{**live, "name": "one"}, {**live, "name": None, "namespace": None}])
    assert [(row["position"], row["start"]) for row in rows] == [(21, [at(20), at(30), at(40)]), (None, None)]
    assert [(row["position"], row["start"]) for row in shown] == [(24, [at(21), at(31), at(41)]), (None, None)]


def test_running_row_counts_elapsed_time_from_the_last_start():
    runs = job("runs", phase="Running")
    runs["status"] |= {"running": 3, "conditions": [{"status": "Running", "lastTransitionTime": at(4)}]}
    runs["spec"]["runningEstimate"] = "1h"
    pods = [member(0, node="a", ready=True), member(1, node="b", ready=True, restarts=2)]
    pods.append(member(2, node="b", waiting="CrashLoopBackOff"))
    (row,) = running_rows(views((runs, None), (job(), None)), pods, NOW)
    assert (row["name"], row["ready"], row["pods"], row["elapsedSeconds"]) == ("runs", 3, 4, 360)
    assert (row["nodes"], row["ends"], row["health"]) == (2, "2026-11-24T13:04:00Z", "1 crash, 1 missing, 1 restarted")


def member(index, *, phase="Running", node="", ready=False, restarts=0, waiting=""):
    """A pod of the Job `runs`."""
    state = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    owner = {"kind": "Job", "name": "runs", "uid": "job-runs"}
    return {
        "metadata": {"name": f"runs-a-{index}", "ownerReferences": [owner]},
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"restartCount": restarts, "state": state}],
        },
    }


@pytest.mark.parametrize(
    ("wanted", "pods", "want"),
    [
        (2, [member(0, node="a", ready=True), member(1, phase="Succeeded")], "ok"),
        (1, [], "1 missing"),
        (2, [member(0, phase="Failed"), member(1, phase="Pending")], "1 failed, 1 not placed"),
        (1, [member(0, phase="Pending", node="a", waiting="ImagePullBackOff")], "1 without image"),
        (1, [member(0, node="a")], "1 not ready"),
        (1, [member(0, node="a", ready=True, restarts=1)], "1 restarted"),
    ],
)
def test_job_health_summarizes_missing_failed_and_unready_pods(wanted, pods, want):
    assert health_of(wanted, pods) == want


def note(text):
    return {"metadata": {"annotations": {"scheduling.volcano.sh/waiting": text}}}


TIMES = ["2026-11-24T14:20:00Z", "2026-11-24T15:05:00Z", "2026-11-25T18:40:00Z"]


@pytest.mark.parametrize(
    ("its_group", "position", "start"),
    [
        (note(json.dumps({"ahead": 3, "start": TIMES})), 4, TIMES),
        (note(json.dumps({"ahead": 0, "start": None})), 1, None),
        (note(json.dumps({"ahead": -1, "start": ["soon", "later", "never"]})), None, None),
        (note(json.dumps({"ahead": "3", "start": TIMES[:2]})), None, None),
        (note("[]"), None, None),
        (note("{"), None, None),
        (note('{"ahead": 1, "x": "' + "a" * 5000 + '"}'), None, None),
        ({"metadata": {}}, None, None),
        (None, None, None),
    ],
)
def test_position_and_start_are_read_from_a_valid_waiting_annotation(its_group, position, start):
    assert (position_of(its_group), start_of(its_group)) == (position, start)


def test_estimated_start_is_shown_as_time_with_the_date_unless_today(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    today = datetime(2026, 11, 24, 20, tzinfo=UTC)
    assert [clock_text(each, today) for each in TIMES] == ["14:20", "15:05", "Nov 25 18:40"]
    assert start_text("never") == "never"


TEAM = {"namespace": "team"}
SCHEDULERS = {
    "metadata": {"namespace": "team", "name": "train"},
    "queue": "research",
    "code": "QueueFull",
    "never": False,
    "since": at(2),
    "waitedSeconds": 420,
    "sentence": "not now: it asks for 4 cpu",
    "position": {"position": 3, "total": 4},
    "ahead": {"jobs": [{**TEAM, "name": "urgent", "asks": {"cpu": "4"}}], "others": 1, "resource": "cpu", "amount": "8"},
    "holders": [
        {**TEAM, "name": "holder", "amount": "6", "resource": "cpu"},
        {"namespace": None, "name": None, "others": 2, "amount": "1", "resource": "cpu"},
    ],
    "start": None,
    "startReason": "the run time of team/holder is not known",
    "help": "wait",
    "doc": "docs/codes.md#queuefull",
    "asOf": at(10),
    "complete": True,
}


def test_explanation_of_the_scheduler_lists_jobs_ahead_and_holders(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert explanation_lines(SCHEDULERS)[:6] == [
        "team/train waits for 7m in queue research: QueueFull, not now",
        "why      it asks for 4 cpu",
        "before   3 of 4 in its queue by the scheduler's order; before it team/urgent (4 cpu), 1 more, 8 cpu in all",
        "holds    team/holder 6 cpu, 2 more 1 cpu",
        "start    not known: the run time of team/holder is not known",
        "help     wait; see docs/codes.md#queuefull",
    ]
    assert explanation_lines(SCHEDULERS, verb="would wait")[0] == "team/train would wait in queue research: QueueFull, not now"


LAST_KNOWN = "the last that the scheduler wrote: it gives no answer now"


@pytest.mark.parametrize(
    ("waiting", "its_group", "seen", "source"),
    [
        (job(), group(message=FULL), at(2), LAST_KNOWN),
        (job(), group(message=FULL) | {"said": {"seen": at(8)}}, at(8), LAST_KNOWN),
        (job(message="waits: pods is forbidden"), None, None, "from the objects in the API server"),
    ],
    ids=["since its condition", "when a session last saw it", "a cause of a controller"],
)
def test_stored_cause_is_shown_as_the_last_known_with_its_time(waiting, its_group, seen, source):
    if its_group is not None and (said := its_group.pop("said", None)):
        its_group["metadata"] |= note(json.dumps(said))["metadata"]
    waiter = waiter_of(waiting, its_group, None)
    answer = stored_explanation(waiter, NOW)
    assert (answer.get("seen"), answer["complete"], answer["asOf"]) == (seen, False, at(10))
    assert "position" not in answer, "the order is the scheduler's"
    assert explanation_lines(answer)[-1].endswith(source)


def queue(name, parent="root", **spec):
    return {"metadata": {"name": name}, "spec": {"parent": parent, "weight": 1, **spec}, "status": {"state": "Open"}}


def test_queue_tree_places_queues_below_their_parents_and_tolerates_cycles():
    found = [queue("b"), queue("a", "b"), queue("root", ""), queue("z", "gone"), queue("c", "d"), queue("d", "c")]
    order = [(depth, each["metadata"]["name"]) for depth, each in in_tree_order(found)]
    assert order == [(0, "root"), (1, "b"), (2, "a"), (0, "z"), (0, "c"), (0, "d")]


def test_queue_row_shows_borrowed_resources_and_waiting_podgroups():
    shown = queue("research", capability={"cpu": "8"}, deserved={"cpu": "4"})
    shown["status"]["allocated"] = {"cpu": "6", "memory": "0", "pods": "6"}
    groups = [group("one", minutes=4), group("two", minutes=7), group("three", phase="Running")]
    (row,) = queue_rows([shown], groups, NOW, is_tree=False)
    want = {"resource": "cpu", "deserved": "4", "allocated": "6", "borrowed": "2", "limit": "8", "guarantee": None}
    assert row | want == row
    assert (row["waiting"], row["running"], row["oldestSeconds"]) == (2, 1, 360)


def node(name, zone, *, cpu="8", ready="True", **spec):
    return {
        "metadata": {"name": name, "labels": {"zone": zone}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "16Gi"}, "conditions": [{"type": "Ready", "status": ready}]},
    }


def pod(node_name, cpu, phase="Running"):
    containers = [{"resources": {"requests": {"cpu": cpu}}}]
    return {"spec": {"nodeName": node_name, "containers": containers}, "status": {"phase": phase}}


def test_nodes_of_equal_group_and_state_share_a_row():
    nodes = [node("n1", "a"), node("n2", "a"), node("n3", "a", unschedulable=True), node("n4", "b", ready="False")]
    rows = node_rows(
        nodes, [pod("n1", "3"), pod("n1", "2", "Succeeded"), pod("n2", "500m"), pod("", "1")], label_groups(nodes, "zone")
    )
    assert [(row["group"], row["state"], row["nodes"], row["cpuFree"], row["pods"]) for row in rows] == [
        ("a", "Cordoned", 1, "8", 0),
        ("a", "Ready", 2, "12500m", 2),
        ("b", "NotReady", 1, "8", 0),
    ]
    assert rows[1]["largestFree"] == {"cpu": "7500m", "memory": "16Gi"}
    alike = node_rows(nodes, [pod("n1", "1"), pod("n2", "1")])
    assert [(row["group"], row["state"], row["nodes"]) for row in alike] == [
        ("n3", "Cordoned", 1),
        ("n4", "NotReady", 1),
        ("n[1-2]", "Ready", 2),
    ]


def test_node_row_names_the_job_it_is_reserved_for():
    kept = group("big")
    kept["metadata"]["annotations"] = {"scheduling.volcano.sh/reservation": '{"job": "team/big-g", "locks": [{"node": "n1"}]}'}
    broken = [group(str(number)) for number in range(3)]
    for each, text in zip(broken, ("[]", "{", '{"locks": 5}'), strict=True):
        each["metadata"]["annotations"] = {"scheduling.volcano.sh/reservation": text}
    reserved = reservations_of([kept, group("small"), *broken])
    rows = node_rows([node("n1", "a"), node("n2", "a")], [], None, reserved)
    assert [(row["group"], row["reservedFor"]) for row in rows] == [("n1", ["team/big"]), ("n2", [])]


def test_a_node_is_in_all_hyper_nodes_above_it():
    def hyper_node(name, tier, kind, *members):
        selectors = [{"type": kind, "selector": {"exactMatch": {"name": each}}} for each in members]
        return {"metadata": {"name": name}, "spec": {"tier": tier, "members": selectors}}

    tree = [
        hyper_node("rack-a", 1, "Node", "n1", "n2"),
        hyper_node("rack-b", 1, "Node", "n3", "gone"),
        hyper_node("row", 2, "HyperNode", "rack-a", "rack-b", "row"),
    ]
    assert tier_groups(tree, {"n1": {}, "n3": {}, "n4": {}}) == {
        "n1": ["tier 1: rack-a", "tier 2: row"],
        "n3": ["tier 1: rack-b", "tier 2: row"],
        "n4": [],
    }


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["n1"], "n1"),
        (["n2", "n1", "n10", "n3"], "n[1-3,10]"),
        (["n01", "n02", "n1"], "n[01-02],n1"),
        (["gpu-1.example.com", "gpu-2.example.com", "b"], "b,gpu-[1-2].example.com"),
    ],
)
def test_numbered_names_are_abbreviated_as_ranges(names, text):
    assert ranges_of(names) == text


FLOW = {
    "metadata": {"name": "etl", "namespace": "team"},
    "spec": {
        "flows": [
            {"name": "report", "dependsOn": {"targets": ["load", "check"]}},
            {"name": "load", "dependsOn": {"targets": ["extract"]}},
            {"name": "extract"},
            {"name": "check"},
        ]
    },
    "status": {
        "state": {"phase": "Running"},
        "conditions": {
            "etl-extract": {"phase": "Completed", "createTime": at(0), "completionTime": at(3)},
            "etl-load": {"phase": "Running", "message": "1 of 2 rounds are over"},
            "etl-load-0": {"phase": "Completed", "createTime": at(4), "completionTime": at(5)},
            "etl-load-1": {"phase": "Running", "createTime": at(5)},
        },
    },
}


def test_flow_rows_are_ordered_by_dependency_depth():
    rows = {row["name"]: row for row in flow_rows(FLOW, NOW)}
    assert [(name, row["depth"]) for name, row in rows.items()] == [("extract", 0), ("check", 0), ("load", 1), ("report", 2)]
    assert rows["extract"]["elapsedSeconds"] == 180
    assert (rows["load"]["rounds"], rows["load"]["roundsRunning"], rows["load"]["elapsedSeconds"]) == (2, 1, 360)
    assert (rows["report"]["phase"], rows["report"]["elapsedSeconds"]) == ("Waiting", None)
    assert "2 rounds, 1 running" in flow_tree_lines(FLOW, list(rows.values()))[3]


def test_flow_rows_tree_and_graph_show_outputs_and_the_entries_that_are_read():
    rows = [{"name": "f-a", "state": "Completed", "outputs": '{"score":0.93}'}, {"name": "f-each-1", "outputs": "7"}]
    each = {"name": "each", "for": {"itemsFrom": "entries.a.outputs.parts"}}
    flow = {
        "metadata": {"name": "f", "namespace": "n"},
        "spec": {"flows": [{"name": "a"}, each]},
        "status": {"jobStatusList": rows},
    }
    found = flow_rows(flow, NOW)
    assert [(row["outputs"], row["dependsOn"]) for row in found] == [('{"score":0.93}', []), ("[null,7]", ["a"])]
    assert flow_tree_lines(flow, found)[1].endswith('→ {"score":0.93}')
    assert "Waiting 1 rounds [null,7]" in draw_flow("f", found).document()


def waits(reason, message=""):
    return {"phase": "Waiting", "reason": reason, "message": message}


OPEN_FLOW = {
    "metadata": {"name": "etl", "namespace": "team", "creationTimestamp": at(0)},
    "spec": {"flows": [{"name": name, "dependsOn": {"targets": ["extract"]}} for name in ("load", "odd", "late", "told")]},
    "status": {
        "conditions": {
            "etl-load": waits("DependenciesNotMet"),
            "etl-odd": waits("UnknownTarget", "waits for extract, which no entry is called"),
            "etl-late": waits("Backoff"),
        }
    },
}


def test_flow_entry_with_unmet_dependencies_has_code_waits_for_entry():
    load, odd = open_entries(OPEN_FLOW)
    assert (load.name, load.cause.sentence) == ("etl-load", "not now: entry load of flow etl: waits for extract")
    assert (odd.cause.is_final, odd.cause.sentence.partition(":")[0]) == (True, "never")
    assert [(row["name"], row["code"], row["start"]) for row in waiting_rows([load, odd], NOW)] == [
        ("etl-load", "WaitsForEntry", None),
        ("etl-odd", "WaitsForEntry", "never"),
    ]
    rows = {row["name"]: row["code"] for row in flow_rows(OPEN_FLOW, NOW, {"etl-told": "QueueFull"})}
    assert rows == {"load": "WaitsForEntry", "odd": "WaitsForEntry", "late": None, "told": "QueueFull"}
    answer = stored_explanation(odd, NOW)
    assert (answer["code"], answer["never"]) == ("WaitsForEntry", True)
    assert explanation_lines(answer)[0] == "team/etl-odd waits for 10m: WaitsForEntry, never"


def test_explanation_trail_merges_recorded_codes_with_the_current_code():
    answer = {"code": "QueueFull", "since": at(9)}
    kept = [
        {"at": at(1), "name": "NotEnoughResources", "message": "3/4 tasks are missing ClusterFull: not now: it asks for 4 cpu"},
        {"at": at(2), "name": "ClusterFull", "message": None},
        {"at": at(3), "name": "BehindAnother", "message": None},
        {"at": at(4), "name": "NotEnoughResources", "message": None},
        {"at": at(5), "name": "QueueFull", "message": None},
    ]
    trail = [("ClusterFull", at(1)), ("BehindAnother", at(3)), ("QueueFull", at(5))]
    assert [(each["code"], each["since"]) for each in with_trail(answer, kept)["trail"]] == trail
    assert with_trail(answer, [])["trail"] == [{"code": "QueueFull", "since": at(9)}]
    many = [{"at": at(i), "name": ("ClusterFull", "NodesFull")[i % 2]} for i in range(20)]
    assert len(with_trail(answer, many)["trail"]) == 8
    assert with_trail({**answer, "trail": [1]}, "it is away") == {**answer, "trail": [1], "trailReason": "it is away"}


def test_flow_of_5000_chained_entries_is_listed():
    entries = [{"name": f"e{i}", "dependsOn": {"targets": [f"e{i - 1}"]} if i else {}} for i in reversed(range(5000))]
    rows = flow_rows({"metadata": {"name": "deep"}, "spec": {"flows": entries}}, NOW)
    assert [row["name"] for row in rows[:2]] == ["e0", "e1"]
    assert rows[-1]["depth"] == 4999


def test_drawings_show_flow_entry_names_and_borrowed_queue_amounts():
    shown = draw_flow("nightly", flow_rows(FLOW, NOW)).document()
    assert all(f">{each['name']}<" in shown for each in flow_rows(FLOW, NOW))
    queues = [queue("root", ""), queue("research", deserved={"cpu": "4"}, capability={"cpu": "16"})]
    queues[1]["status"]["allocated"] = {"cpu": "6"}
    rows = queue_rows(queues, [], NOW, is_tree=True)
    drawn = draw_queues("queues", rows).document()
    assert "research cpu: borrowed 2" in drawn
    assert ">6 of 16, 2 borrowed<" in drawn


def test_flow_entries_in_a_dependency_cycle_are_listed():
    entries = [{"name": "a", "dependsOn": {"targets": ["b"]}}, {"name": "b", "dependsOn": {"targets": ["a"]}}]
    flow = {"metadata": {"name": "f", "namespace": "n"}, "spec": {"flows": entries}}
    assert {row["name"] for row in flow_rows(flow, NOW)} == {"a", "b"}


@pytest.mark.parametrize(
    ("phase", "wanted", "gone"),
    [
        ("Pending", "Completed", False),
        ("Failed", "Completed", True),
        ("Completed", "Completed", False),
        ("Aborted", "Completed", False),
    ],
)
def test_wanted_phase_is_out_of_reach_only_after_another_final_phase(phase, wanted, gone):
    assert is_out_of_reach(phase, wanted) is gone


def test_the_timeline_counts_from_the_creation_of_the_job():
    def placed(name, created, bound, started, ended=None):
        state = (
            {"terminated": {"startedAt": at(started), "finishedAt": at(ended)}}
            if ended
            else {"running": {"startedAt": at(started)}}
        )
        return {
            "metadata": {"name": name, "creationTimestamp": at(created)},
            "spec": {"nodeName": "n1"},
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)},
                    {"type": "Ready", "status": "False", "lastTransitionTime": at(9)},
                ],
                "containerStatuses": [{"state": state, "restartCount": 1}],
            },
        }

    waits = {"metadata": {"name": "b", "creationTimestamp": at(1)}, "status": {"phase": "Pending"}}
    rows = timeline_rows(job(), [placed("c", 2, 3, 4), waits, placed("a", 1, 2, 3, 8)])
    fields = ("name", "createdSeconds", "boundSeconds", "startedSeconds", "readySeconds", "endedSeconds", "restarts")
    assert [tuple(row[field] for field in fields) for row in rows] == [
        ("a", 60, 120, 180, None, 480, 1),
        ("b", 60, None, None, None, None, 0),
        ("c", 120, 180, 240, None, None, 1),
    ]
    assert slowest_lines(rows) == ["last placed: c, 60s behind the first", "last started: c, 60s behind the first"]
    drawn = lanes(rows, 600)
    assert [[(span.stage, span.begin, span.end) for span in lane.spans] for lane in drawn] == [
        [("waiting", 0, 60)],  # the Job waited before it had pods
        [("waiting", 60, 120), ("starting", 120, 180), ("running", 180, 480)],
        [("waiting", 60, 600)],
        [("waiting", 120, 180), ("starting", 180, 240), ("running", 240, 600)],
    ]
    event = {"name": "waiting", "ph": "X", "pid": 1, "tid": "b", "ts": 60_000_000, "dur": 540_000_000}
    assert trace_events(drawn)[4] == event


def test_flow_rows_without_conditions_are_read_from_the_job_status_list():
    row = {"name": "f-a", "state": "Completed", "startTimestamp": at(0), "endTimestamp": at(2)}
    flow = {"metadata": {"name": "f", "namespace": "team"}, "spec": {"flows": [{"name": "a"}, {"name": "b"}]}}
    found = flow_rows(flow | {"status": {"jobStatusList": [row]}}, 0)
    assert [(each["phase"], each["elapsedSeconds"]) for each in found] == [("Completed", 120), ("Waiting", None)]


@pytest.mark.parametrize(
    "names",
    [
        ["node-2", "node-10"],
        ["train-main-9", "train-main-10", "train-worker-2"],
        ["rack2-node10", "rack10-node2"],
        ["a", "a1", "b"],
    ],
)
def test_names_are_sorted_in_natural_numeric_order(names):
    assert sorted(set(names), key=natural_order) == names


ONE = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "a"}}


@pytest.mark.parametrize("items", [[ONE], [ONE, ONE], []])
def test_job_run_takes_the_only_job_of_a_list_and_refuses_longer_lists(items, tmp_path):
    file = tmp_path / "list.yaml"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    if len(items) == 1:
        assert run_jobs._from_file(str(file)) == ONE
    else:
        with pytest.raises(Failure, match=f"a list of {len(items)} objects, and one Job is run; use: kubectl create -f"):
            run_jobs._from_file(str(file))


def test_flow_create_takes_the_items_of_a_list(tmp_path):
    file = tmp_path / "list.yaml"
    file.write_text(json.dumps({"kind": "List", "items": [ONE, ONE]}))
    assert run_flows._documents(str(file)) == [ONE, ONE]
