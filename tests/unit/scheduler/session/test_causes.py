"""Why a job waits: one reason with numbers on its PodGroup and on its pods, the right one."""

import pytest

from pyroclast.api import waiting_reasons as pending
from pyroclast.api.types import Key
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.rules import Rules
from tests.scenarios.runner import feed
from tests.unit.scheduler.deciding import configured, decided

DEFAULT = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
CAPACITY = DEFAULT.replace("proportion", "capacity")
TREE = CAPACITY.replace("{name: capacity}", "{name: capacity, enableHierarchy: true}")
NODES = [["n1", 8, "16Gi"], ["n2", 8, "16Gi"], ["n3", 4, "16Gi"], ["n4", 4, "16Gi"]]
PENDING = {"phase": "Pending"}
UNREADY = "node.kubernetes.io/not-ready:NoSchedule"


def pods(job, count, cpu, node="-", **options):
    return [[f"{job}-{i}", job, node, cpu, "1Gi", *([options] if options else [])] for i in range(count)]


CASES = {
    "more than the cluster has": {
        "podgroups": [["j", "q", 4, {**PENDING, "minRes": {"cpu": 64}}]],
        "want": "AboveCluster: never: it asks for 64 cpu in all, and the cluster has 24 cpu",
    },
    "a device that no node has": {
        "podgroups": [["j", "q", 1, {**PENDING, "minRes": {"cpu": 1, "nvidia.com/gpu": 1}}]],
        "want": "AboveCluster: never: it asks for 1 nvidia.com/gpu in all, and the cluster has no nvidia.com/gpu",
    },
    "a task that it needs waits for another": {
        "podgroups": [["j", "q", 2, {"annotations": {"scheduling.volcano.sh/waits-for-task": "never: task b waits for a"}}]],
        "pods": pods("j", 1, 1),
        "want": "WaitsForTask: never: task b waits for a",
    },
    "the cluster is taken": {
        "podgroups": [["r", "q", 1, {"phase": "Running"}], ["j", "q", 1, {**PENDING, "minRes": {"cpu": 10}}]],
        "pods": [*pods("r", 2, 8, "n1")[:1], ["r-1", "r", "n2", 8, "1Gi"], ["r-2", "r", "n3", 4, "1Gi"]],
        "want": "ClusterFull: not now: it asks for 10 cpu; of the cluster's 24 cpu 20 are taken and 0 promised to gangs let in "
        "before",
    },
    "more than the queue may have": {
        "queues": [["q", {"capability": {"cpu": 4}}]],
        "podgroups": [["j", "q", 1, {**PENDING, "minRes": {"cpu": 8}}]],
        "want": "AboveQueueLimit: never: it asks for 8 cpu; queue q may have at most 4 cpu (its capability)",
    },
    "a gang without minimum resources, in all more than the queue may have": {
        "queues": [["q", {"capability": {"cpu": 4}}]],
        "podgroups": [["j", "q", 3, {"phase": "Inqueue"}]],
        "pods": pods("j", 3, 2),
        "want": "AboveQueueLimit: never: its gang of 3 pods asks for 6 cpu in all; queue q may have at most 4 cpu "
        "(its capability)",
    },
    "a gang of unequal pods, the smallest of which are more than the queue may have": {
        "queues": [["q", {"capability": {"cpu": 4}}]],
        "podgroups": [["j", "q", 3, {"phase": "Inqueue"}]],
        "pods": [*pods("j", 2, 2), ["j-2", "j", "-", 1, 0], ["j-3", "j", "-", 4, 0]],
        "want": "AboveQueueLimit: never: its gang of 3 pods asks for 5 cpu in all; queue q may have at most 4 cpu "
        "(its capability)",
    },
    "a gang above a queue above": {
        "queues": [["root", {}], ["top", {"parent": "root", "capability": {"cpu": 4}}], ["q", {"parent": "top"}]],
        "podgroups": [["j", "q", 3, {"phase": "Inqueue"}]],
        "pods": pods("j", 3, 2),
        "want": "AboveQueueLimit: never: its gang of 3 pods asks for 6 cpu in all; queue top may have at most 4 cpu "
        "(its capability)",
        "profile": TREE,
    },
    "pods count where the capability names them": {
        "queues": [["q", {"capability": {"pods": 2}}]],
        "podgroups": [["j", "q", 3, {"phase": "Inqueue"}]],
        "pods": pods("j", 3, 1),
        "want": "AboveQueueLimit: never: its gang of 3 pods asks for 3 pods in all; queue q may have at most 2 pods "
        "(its capability)",
    },
    "pods count before a gang is let in": {
        "queues": [["q", {"capability": {"pods": 2}}]],
        "podgroups": [["j", "q", 3, {**PENDING, "minRes": {"cpu": 3, "pods": 3}}]],
        "want": "AboveQueueLimit: never: it asks for 3 pods; queue q may have at most 2 pods (its capability)",
    },
    "a queue that may have no cpu": {
        "queues": [["q", {"capability": {"cpu": 0}}]],
        "podgroups": [["j", "q", 1, {**PENDING, "minRes": {"cpu": 1}}]],
        "want": "AboveQueueLimit: never: it asks for 1 cpu; queue q may have at most 0 cpu (its capability)",
    },
    "a gang that no queue limits, of more than the cluster has": {
        "podgroups": [["j", "q", 2, {"phase": "Inqueue"}]],
        "pods": [["j-0", "j", "-", 1, "16Gi"], ["j-1", "j", "-", 2, "9Gi"]],
        "nodes": [["n1", 8, "16Gi"], ["n2", 8, "8Gi"]],
        "want": "AboveCluster: never: its gang of 2 pods asks for 25Gi memory in all; the cluster has 24Gi memory",
    },
    "the queue is full": {
        "queues": [["q", {"capability": {"cpu": 4}}]],
        "podgroups": [
            ["r", "q", 1, {"phase": "Running", "minRes": {"cpu": 3}}],
            ["j", "q", 1, {**PENDING, "minRes": {"cpu": 2}}],
        ],
        "pods": pods("r", 1, 3, "n1"),
        "want": "QueueFull: not now: it asks for 2 cpu; queue q may have at most 4 cpu, it has 3 and 0 are promised to gangs let "
        "in before",
    },
    "a gang before it was let in first": {
        "queues": [["q", {"capability": {"cpu": 4}}]],
        "podgroups": [
            ["r", "q", 1, {"phase": "Inqueue", "minRes": {"cpu": 3}, "class": 5}],
            ["j", "q", 1, {**PENDING, "minRes": {"cpu": 2}}],
        ],
        "want": "BehindAnother: not now: it asks for 2 cpu and would fit: queue q has 0 of 4 cpu; but 3 cpu are promised to "
        "gangs before it in the queue, the first: t/r (priority 5)",
    },
    "a gang behind it was let in first": {
        "queues": [["q", {"capability": {"cpu": 4}}]],
        "podgroups": [
            ["r", "q", 1, {"phase": "Inqueue", "minRes": {"cpu": 3}, "class": 5}],
            ["j", "q", 1, {**PENDING, "minRes": {"cpu": 2}, "class": 5}],
        ],
        "want": "QueueFull: not now: it asks for 2 cpu; queue q may have at most 4 cpu, it has 0 and 3 are promised to gangs let "
        "in before",
    },
    "another queue is guaranteed the rest": {
        "queues": [["q", {}], ["other", {"guarantee": {"cpu": 20}}]],
        "podgroups": [["j", "q", 1, {**PENDING, "minRes": {"cpu": 6}}]],
        "want": "HeldByGuarantee: not now: it asks for 6 cpu; of the cluster's 24 cpu other queues are guaranteed: other 20 cpu; "
        "this leaves queue q 4 cpu, of which it has 0",
    },
    "the queue is closed": {
        "queues": [["q", {"state": "Closed"}]],
        "podgroups": [["j", "q", 1, {**PENDING, "minRes": {"cpu": 1}}]],
        "want": "QueueClosed: queue q is Closed, so the job starts when it is opened again",
    },
    "a pod that no node is big enough for": {
        "podgroups": [["j", "q", 1, {"phase": "Inqueue"}]],
        "pods": pods("j", 1, 10),
        "want": "NoNodeBigEnough: never: j-0 asks for 10 cpu; the biggest node, n1, has 8 cpu",
    },
    "a gang that the nodes do not hold": {
        "podgroups": [["j", "q", 3, {"phase": "Inqueue"}]],
        "pods": pods("j", 3, 5),
        "want": "TooFewNodes: never: its gang needs 3 pods of 5 cpu, 1Gi memory, and 4 nodes hold 2 of them even when empty",
    },
    "the nodes are taken": {
        "podgroups": [["r", "q", 1, {"phase": "Running"}], ["j", "q", 2, {"phase": "Inqueue"}]],
        "pods": [*pods("r", 1, 6, "n1"), *pods("j", 2, 5)],
        "want": "NodesFull: not now: its gang needs 2 pods of 5 cpu, 1Gi memory, of which 1 has room: 18 cpu free on 4 nodes, at "
        "most 8 cpu on one (n2)",
    },
    "one pod of the gang has a node": {
        "podgroups": [["r", "q", 1, {"phase": "Running"}], ["j", "q", 3, {"phase": "Inqueue"}]],
        "pods": [*pods("r", 1, 6, "n1"), ["j-0", "j", "n2", 5, "1Gi"], ["j-1", "j", "-", 5, "1Gi"], ["j-2", "j", "-", 5, "1Gi"]],
        "nodes": [*NODES[:2], ["n3", 8, "16Gi", {"taints": [UNREADY]}]],
        "want": "NodesFull: not now: its gang needs 2 further pods of 5 cpu, 1Gi memory, of which 0 have room: 5 cpu free on 2 "
        "nodes, at most 3 cpu on one (n2)",
    },
    "pods that fit alone but not together": {
        "nodes": [["n1", 8, "16Gi"], ["n2", 2, "16Gi"]],
        "podgroups": [["r", "q", 1, {"phase": "Running"}], ["j", "q", 2, {"phase": "Inqueue"}]],
        "pods": [*pods("r", 1, 1, "n1"), ["j-0", "j", "-", 5, "1Gi"], ["j-1", "j", "-", 3, "1Gi"]],
        "want": "NodesFull: not now: its gang needs 1 pod of 3 cpu, 1Gi memory, which has no room beside the other pods of the "
        "gang: 9 cpu free on 2 nodes, at most 7 cpu on one (n1)",
    },
    "storage in bytes": {
        "nodes": [["n1", 8, "16Gi", {"ephemeral-storage": "100Gi", "hugepages-2Mi": "1Gi"}]],
        "podgroups": [["j", "q", 1, {"phase": "Inqueue"}]],
        "pods": pods("j", 1, 1, res={"ephemeral-storage": "200Gi", "hugepages-2Mi": "2Gi"}),
        "want": "NoNodeBigEnough: never: j-0 asks for 200Gi ephemeral-storage, 2Gi hugepages-2Mi; the biggest node, n1, has "
        "100Gi ephemeral-storage",
    },
    "behind a job of higher priority": {
        "podgroups": [
            ["r", "q", 1, {"phase": "Running"}],
            ["j", "q", 2, {"phase": "Inqueue", "class": 1}],
            ["high", "q", 2, {"phase": "Inqueue", "class": 1000}],
        ],
        "pods": [*pods("r", 1, 6, "n1"), *pods("j", 2, 5), *pods("high", 2, 5)],
        "want": "NodesFull: not now: its gang needs 2 pods of 5 cpu, 1Gi memory, of which 1 has room: 18 cpu free on 4 nodes, at "
        "most 8 cpu on one (n2); before it in the queue: t/high (priority 1000)",
    },
    "no node is allowed": {
        "podgroups": [["j", "q", 1, {"phase": "Inqueue"}]],
        "pods": pods("j", 1, 1, sel={"zone": "nowhere"}),
        "want": "NoNodeAllowed: never: no node takes j-0: 4 node(s) didn't match Pod's node affinity/selector",
    },
    "no node is allowed, and some are full": {
        "podgroups": [["r", "q", 1, {"phase": "Running"}], ["j", "q", 1, {"phase": "Inqueue"}]],
        "pods": [*pods("r", 1, 8, "n1"), *pods("j", 1, 1, sel={"zone": "nowhere"})],
        "want": "NoNodeAllowed: never: no node takes j-0: 4 node(s) didn't match Pod's node affinity/selector",
    },
    "no node is allowed, but one that is not ready": {
        "nodes": [["n1", 8, "16Gi"], ["n2", 8, "16Gi", {"labels": {"zone": "a"}, "taints": [UNREADY]}]],
        "podgroups": [["j", "q", 1, {"phase": "Inqueue"}]],
        "pods": pods("j", 1, 1, sel={"zone": "a"}),
        "want": "NoNodeAllowed: not now: no node takes j-0: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had "
        "untolerated taint(s)",
    },
    "a pod that only a node that is not ready is big enough for": {
        "nodes": [["n1", 8, "16Gi"], ["n2", 16, "16Gi", {"taints": [UNREADY]}]],
        "podgroups": [["j", "q", 1, {"phase": "Inqueue"}]],
        "pods": pods("j", 1, 10),
        "want": "NodesFull: not now: its gang needs 1 pod of 10 cpu, 1Gi memory, of which 0 have room: 8 cpu free on 1 node, at "
        "most 8 cpu on one (n1)",
    },
    "more than the cluster has, less than may be promised": {
        "podgroups": [["j", "q", 1, {**PENDING, "minRes": {"cpu": 26}}]],
        "want": "AboveCluster: never: it asks for 26 cpu in all, and the cluster has 24 cpu",
    },
    "all nodes have lost their readiness": {
        "nodes": [["n1", 8, "16Gi", {"taints": [UNREADY]}]],
        "podgroups": [["j", "q", 1, {"phase": "Inqueue"}]],
        "pods": pods("j", 1, 1),
        "want": "NoNodeReady: no node is ready",
    },
    "a pod that asks for nothing and may go nowhere": {
        "podgroups": [["j", "q", 1, {"phase": "Inqueue"}]],
        "pods": [["j-0", "j", "-", 0, 0, {"sel": {"zone": "nowhere"}}]],
        "want": "NoNodeAllowed: never: no node takes j-0: 4 node(s) didn't match Pod's node affinity/selector",
    },
    "pods are missing": {
        "podgroups": [["j", "q", 3, {"phase": "Inqueue"}]],
        "pods": pods("j", 2, 1),
        "want": "PodsMissing: its gang is not complete yet: 2 pods of at least 3 are there",
    },
    "no node is ready": {
        "nodes": [],
        "podgroups": [["j", "q", 1, {"phase": "Inqueue"}]],
        "pods": pods("j", 1, 1),
        "want": "NoNodeReady: no node is ready",
    },
}


def decide(case, text=DEFAULT):
    cache = Cache()
    feed(cache, {"nodes": NODES, "queues": [["q", {}]], "pods": [], **case})
    return decided(cache, configured(case.get("profile", text)), now=0.0, period=1)[0], cache


def said(outcome):
    conditions = outcome.statuses["t/j"].conditions
    return next(each for each in conditions if each.type == "Unschedulable")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_podgroup_condition_pods_and_event_give_the_same_waiting_reason(case):
    outcome, _ = decide(case)
    sentence, summary = pending.parted(said(outcome).message)
    assert summary == case["want"]
    assert not sentence or "tasks in gang unschedulable: pod group is not ready" in sentence
    counts = [int(each) for each in sentence.partition(" ")[0].split("/") if sentence]
    assert counts == sorted(counts)
    for waiting in outcome.waiting:
        if waiting.task.job == "t/j":
            assert pending.parted(waiting.message)[1] == case["want"]
            assert waiting.message != case["want"]  # what the original says comes first
    warning = next(note.message for note in outcome.notes if note.kind == "Warning" and note.job == "t/j")
    assert pending.parted(warning)[1] == case["want"]


ZERO = ("a queue that may have no cpu", "pods count before a gang is let in")


@pytest.mark.parametrize("name", ["more than the queue may have", "the queue is full", "the queue is closed", *ZERO])
def test_the_capacity_plugin_gives_the_same_waiting_reasons(name):
    outcome, _ = decide(CASES[name], CAPACITY)
    assert said(outcome).message == CASES[name]["want"]


UNREAD = (
    "more than the cluster has",
    "a pod that no node is big enough for",
    "a gang that the nodes do not hold",
    "no node is allowed",
    "no node is ready",
)


@pytest.mark.parametrize("name", [*UNREAD, "more than the queue may have"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_node_that_cannot_be_read_makes_no_never(name, count):
    cache, case = Cache(), {key: value for key, value in CASES[name].items() if key != "want"}
    cache.undecodable_nodes = {Key("", f"odd{index}"): "status.capacity: Expected `object`, got `int`" for index in range(count)}
    feed(cache, {"nodes": NODES, "queues": [["q", {}]], "pods": [], **case})
    outcome, _ = decided(cache, configured(DEFAULT), now=0.0, period=1)
    node = "node odd0" if count == 1 else "2 nodes, odd0 among them,"
    want = CASES[name]["want"]
    if name in UNREAD:
        text = f"{node} cannot be read as a whole: status.capacity: Expected `object`, got `int`"
        want = f"{want.replace(': never: ', ': not now: ')}; {text}"
    assert pending.parted(said(outcome).message)[1] == want


def test_an_invalid_quantity_of_a_node_hides_only_that_resource():
    cache = Cache()
    feed(cache, {"nodes": [["n1", 8, "16Gi"], ["n2", "many", "16Gi"], ["n3", 4, "16Gi"]], "queues": [["q", {}]], "pods": []})
    fault = cache.problems["node n2"]
    assert fault.startswith("status.allocatable: cpu: 'many': quantities must match")
    assert fault.endswith("; it counts as 0")
    feed(cache, {"podgroups": [["j", "q", 1, {"phase": "Inqueue"}]], "pods": pods("j", 1, 10)})
    outcome, _ = decided(cache, configured(DEFAULT), now=0.0, period=1)
    assert pending.parted(said(outcome).message)[1] == (
        "NoNodeBigEnough: not now: j-0 asks for 10 cpu; the biggest node, n1, has 8 cpu; "
        f"node n2 cannot be read as a whole: {fault}"
    )


def test_the_unschedulable_condition_is_removed_when_a_gang_is_admitted():
    outcome, cache = decide(CASES["more than the cluster has"])
    cache.groups.believe("t/j", outcome.statuses["t/j"])
    feed(cache, {"nodes": [["n1", 80, "16Gi"]]})
    after, _ = decided(cache, configured(DEFAULT), now=0.0, period=2)
    assert after.statuses["t/j"].phase == "Inqueue"
    assert after.statuses["t/j"].conditions == ()


STARTED = pods("j", 2, 1, "n1")
PARTIAL = {
    "none has room": (
        [*STARTED, ["w-0", "j", "-", 10, "1Gi"], ["w-1", "j", "-", 10, "1Gi"]],
        ["2/4 tasks in gang unschedulable"],
    ),
    "none waits": (STARTED, []),
    "one gets a node": ([*STARTED, ["w", "j", "-", 1, "1Gi"]], []),
    "all wait behind a gate": ([*STARTED, ["w", "j", "-", 1, "1Gi", {"gates": ["other"]}]], []),
}


@pytest.mark.parametrize(("members", "want"), PARTIAL.values(), ids=PARTIAL)
def test_a_running_gang_warns_of_unschedulable_pods_above_its_minimum(members, want):
    outcome, _ = decide({"podgroups": [["j", "q", 2, {"phase": "Running"}]], "pods": members})
    warnings = [note.message for note in outcome.notes if note.kind == "Warning" and note.reason == "Unschedulable"]
    assert [pending.parted(each)[0].split(":")[0] for each in warnings] == want
    assert all(pending.reason_of(each) == "NoNodeBigEnough" for each in warnings)
    status = outcome.statuses["t/j"]
    assert (status.phase, [each.type for each in status.conditions]) == ("Running", ["Scheduled"])


@pytest.mark.parametrize(("queue", "reason"), [({}, "NodesFull"), ({"capability": {"cpu": 3}}, "QueueFull")])
def test_the_cost_of_naming_the_jobs_ahead_grows_linearly_with_waiting_jobs(monkeypatch, queue, reason):
    asked, counts = [], []
    job_key = Rules.job_key
    monkeypatch.setattr(Rules, "job_key", lambda self, job: asked.append(job) or job_key(self, job))
    for size in (200, 400):
        asked.clear()
        groups = [[f"j{i:03}", "q", 1, {"class": i % 3, "created": i}] for i in range(size)]
        waiting = [pod for i in range(size) for pod in pods(f"j{i:03}", 1, 2)]
        groups.append(["r", "q", 1, {"phase": "Running"}])
        full = pods("r", 1, 3, "n1") if queue else pods("one", 1, 16, "n1") + pods("two", 1, 16, "n2")
        nodes = [["n1", 16, "64Gi"], ["n2", 16, "64Gi"]]
        outcome, _ = decide({"nodes": nodes, "queues": [["q", queue]], "podgroups": groups, "pods": waiting + full})
        last = size - 1
        ahead = sum((i % 3, -i) > (last % 3, -last) for i in range(size))
        message = outcome.statuses[f"t/j{last:03}"].conditions[-1].message
        assert message.endswith(f"; before it in the queue: t/j002 (priority 2) and {ahead - 1} more")
        assert pending.reason_of(message) == reason
        counts.append(len(asked))
    assert counts[1] <= 2.1 * counts[0]


def test_gangs_of_other_namespaces_are_counted_but_not_named_in_the_reason():
    groups = [["j", "q", 1, {**PENDING, "minRes": {"cpu": 30}, "class": 1}]]
    others = [["secret", "q", 1, {**PENDING, "minRes": {"cpu": 20}, "class": 9, "ns": "other"}]]
    taken = {"podgroups": [*groups, *others, ["r", "q", 1, {"phase": "Running"}]], "pods": pods("r", 1, 40, "n1")}
    outcome, _ = decide({**taken, "nodes": [["n1", 64, "99Gi"]]})
    message = outcome.statuses["t/j"].conditions[-1].message
    assert message == (
        "ClusterFull: not now: it asks for 30 cpu; of the cluster's 64 cpu 40 are taken and 20 promised to gangs let in before"
        "; before it in the queue: a gang of another namespace (priority 9)"
    )


def test_every_pending_reason_can_be_parsed_from_its_message():
    for reason in PendingReason:
        message = pending.joined("3/3 tasks in gang unschedulable: Insufficient cpu.", f"{reason}: not now: 3 cpu")
        assert pending.parted(message) == ("3/3 tasks in gang unschedulable: Insufficient cpu.", f"{reason}: not now: 3 cpu")
        assert pending.reason_of(message) == reason
    assert pending.parted("pod group is ready") == ("pod group is ready", "")
