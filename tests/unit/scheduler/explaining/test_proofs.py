"""Changes that are said to help a Job: each of them, applied to the cluster, lets it start."""

from __future__ import annotations

import random

import msgspec
import pytest

from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.explaining.book import WaitingBook
from pyroclast_scheduler.explaining.changes import Priorities, Situation, candidates
from pyroclast_scheduler.explaining.proofs import MOST_CHANGES, Prover, proved
from pyroclast_scheduler.explaining.trials import MOST_PODS, Engine, TooManyPods, gang_of
from pyroclast_scheduler.session.configuration import parse
from pyroclast_scheduler.session.ports import Ports
from tests.counts import examples
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.unit.scheduler.deciding import committed, configured
from tests.unit.scheduler.session.test_causes import CAPACITY

ACTIONS, PLUGINS = registry.actions(), registry.plugins()
PREEMPTING = CAPACITY.replace("allocate, backfill", "allocate, backfill, preempt").replace("{name: overcommit}, ", "")
PRIORITIES = Priorities({"class-1": 1, "class-5": 5, "class-9": 9})


def job(replicas=4, cpu="2", *, queue="q", name="mine", **spec):
    pod = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], **spec.pop("pod", {})}
    return {
        "metadata": {"name": name, "namespace": "t", "uid": "u", "creationTimestamp": objects.timestamp(objects.NOW - 60)},
        "spec": {
            "queue": queue,
            "schedulerName": "volcano",
            "minAvailable": replicas,
            "tasks": [{"name": "w", "replicas": replicas, "template": {"spec": pod}}],
            **spec,
        },
        "status": {},
    }


def fed(cache, gang):
    """Let the cache have a gang as the job controller would make it."""
    cache.group_changed(None, gang.group)
    for task in gang.tasks:
        cache.pod_changed(None, renamed(task))


def renamed(task):
    """The pod of a task, as pods of a task are alike but for their names."""
    meta = {**msgspec.to_builtins(task.pod.metadata), "uid": task.uid, "name": task.name}
    return msgspec.structs.replace(task.pod, metadata=msgspec.convert(meta, type(task.pod.metadata), strict=False))


def decided(cache, text):
    return committed(cache, configured(text), period=1)


def starts(cache, facts, text):
    outcome, commits = decided(cache, text)
    bound = sum(len(binds.placed) for commit in commits for binds in commit.binds if binds.job == facts.key)
    own = {task.uid for task in facts.tasks}
    return bound + sum(uid in own for uid in outcome.promised) >= facts.min_available


def prover_of(cache, body, text=CAPACITY, **more):
    gang = gang_of(body, PRIORITIES.values, 0)
    fed(cache, gang)
    outcome, _ = decided(cache, text)
    for key, status in outcome.statuses.items():
        cache.groups.believe(key, status)
    record = outcome.records.get(gang.key)
    if record is None:
        return None
    book = WaitingBook()
    book.take(outcome.records, outcome.seen, objects.NOW, since={})
    entry = book.get(gang.key)
    case = Situation(
        body, gang, entry.code, entry.short, cache.view(), PRIORITIES, None, objects.NOW, book.ahead(entry) + 1, entry.is_never
    )
    engine = Engine(parse(text, actions=ACTIONS, plugins=PLUGINS), ACTIONS, PLUGINS, Ports(objects.NOW, period=1))
    clock = more.pop("clock", lambda: 0.0)
    return Prover(case, gang.key, engine, lambda record: book.place_of(gang.key, record), clock, **more)


def cluster(**tables):
    cache = Cache()
    for value in (1, 5, 9):
        cache.priority_changed(None, objects.priority_class(value))
    feed(cache, {"queues": [["q", {}]], "podgroups": [], "pods": [], **tables})
    return cache


CASES = {
    "the queue is full": (
        {"nodes": [["n", 16, "16Gi"]], "queues": [["q", {"capability": {"cpu": 5}}], ["batch", {}]]},
        job(4),
        "AboveQueueLimit",
        {("2 pods instead of 4", "now"), ("queue batch", "now")},
    ),
    "a pod is too big": (
        {"nodes": [["n", 4, "16Gi"], ["m", 3, "16Gi"]]},
        job(1, "6"),
        "NoNodeBigEnough",
        {("4 cpu a pod instead of 6", "now")},
    ),
    "a selector is in the way": (
        {"nodes": [["n", 4, "16Gi", {"labels": {"zone": "a"}}]]},
        job(1, "1", pod={"nodeSelector": {"zone": "b"}}),
        "NoNodeAllowed",
        {("no nodeSelector zone=b", "now")},
    ),
    "a taint is in the way": (
        {"nodes": [["n", 4, "16Gi", {"taints": ["team=red:NoSchedule"]}]]},
        job(1, "1"),
        "NoNodeAllowed",
        {("a toleration of team=red:NoSchedule (1 nodes)", "now")},
    ),
    "two selectors": (
        {"nodes": [["n", 4, "16Gi"]]},
        job(1, "1", pod={"nodeSelector": {"zone": "b", "disk": "ssd"}}),
        "NoNodeAllowed",
        {("no nodeSelector", "now")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_suggested_changes_include_those_that_remove_the_cause_of_waiting(case):
    tables, body, code, want = case
    cache = cluster(**tables)
    prover = prover_of(cache, body)
    answer = proved(prover)
    assert prover.case.code == code
    assert {(each["change"], each["when"]) for each in answer["change"]} >= want
    assert answer["changeReason"] == ""


def test_the_lowest_priority_that_preempts_is_suggested():
    low = {"phase": "Running", "class": 1, "annotations": {"volcano.sh/preemptable": "true"}}
    pods = [["low-0", "low", "n", 4, 0, {"annotations": {"volcano.sh/preemptable": "true"}}]]
    cache = cluster(nodes=[["n", 4, "16Gi"]], podgroups=[["low", "q", 0, low]], pods=pods)
    answer = proved(prover_of(cache, job(1, "4"), PREEMPTING))
    assert [(each["change"], each["when"], each["evictions"]) for each in answer["change"]] == [
        ("priorityClassName class-5", "now", 1)
    ]


def test_a_higher_priority_without_a_start_is_suggested_with_its_queue_position():
    others = [[f"o{i}", "q", 1, {"phase": "Pending", "class": 1, "minRes": {"cpu": 4}}] for i in range(3)]
    taken = [["r", "q", 1, {"phase": "Running", "minRes": {"cpu": 4}}]]
    cache = cluster(
        nodes=[["n", 16, "16Gi"]],
        queues=[["q", {"capability": {"cpu": 4}}]],
        podgroups=[*taken, *others],
        pods=[["r-0", "r", "n", 4, 0]],
    )
    answer = proved(prover_of(cache, job(1, "4")))
    assert [(each["change"], each["when"]) for each in answer["change"]] == [("priorityClassName class-5", "position 1")]


def test_no_change_is_suggested_and_the_reason_given_if_none_helps():
    cache = cluster(nodes=[["n", 1, "16Gi"]])
    body = job(1, "1")
    body["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
    answer = proved(prover_of(cache, body))
    assert answer == {"change": [], "changeReason": "no single change helps"}


def test_trials_end_with_a_reason_when_their_time_is_up():
    cache = cluster(nodes=[["n", 16, "16Gi"]], queues=[["q", {"capability": {"cpu": 5}}], ["batch", {}]])
    ticks = iter(range(10**6))
    prover = prover_of(cache, job(4), clock=lambda: next(ticks) * 1.0)
    answer = proved(prover)
    assert prover.left == 6
    assert answer["changeReason"]


def test_trials_do_not_change_the_snapshot():
    cache = cluster(nodes=[["n", 16, "16Gi"]], queues=[["q", {"capability": {"cpu": 5}}], ["batch", {}]])
    prover = prover_of(cache, job(4))
    before = cache.view()
    sums = {name: each.inqueue.tolist() for name, each in prover.case.snapshot.queue_sums.items()}
    proved(prover)
    after = prover.case.snapshot
    assert (after.columns.used == before.columns.used).all()
    assert {name: each.inqueue.tolist() for name, each in after.queue_sums.items()} == sums
    assert len(after.all_jobs) == len(before.all_jobs)


def test_a_job_with_too_many_pods_raises_toomanypods():
    with pytest.raises(TooManyPods):
        gang_of(job(MOST_PODS + 1), {}, 0)


def random_case(chance):
    tainted = [[], [], ["team=red:NoSchedule"]]
    nodes = [
        [f"n{i}", chance.choice([2, 4, 8]), "64Gi", {"labels": {"zone": chance.choice("ab")}, "taints": chance.choice(tainted)}]
        for i in range(chance.randint(1, 5))
    ]
    queues = [["q", chance.choice([{}, {"capability": {"cpu": chance.randint(2, 12)}}])], ["batch", {}]]
    groups, pods = [], []
    for i, node in enumerate(nodes):
        if chance.random() < 0.6:
            name, cpu = f"r{i}", chance.randint(1, node[1])
            marks = {"annotations": {"volcano.sh/preemptable": chance.choice(["true", "false"])}}
            options = {"phase": "Running", "class": 1, "minRes": {"cpu": cpu}, **marks}
            groups.append([name, chance.choice(["q", "batch"]), 1, options])
            pods.append([f"{name}-0", name, node[0], cpu, 0, marks])
    groups += [
        [f"o{i}", "q", 1, {"phase": "Pending", "class": chance.choice([1, 5]), "minRes": {"cpu": chance.randint(1, 16)}}]
        for i in range(chance.randint(0, 3))
    ]
    pod = {"nodeSelector": {"zone": chance.choice("abc")}} if chance.random() < 0.4 else {}
    body = job(chance.randint(1, 6), str(chance.choice([1, 2, 3, 9])), pod=pod)
    return {"nodes": nodes, "queues": queues, "podgroups": groups, "pods": pods}, body


def test_every_change_suggested_for_now_starts_the_job_when_applied():
    chance, told = random.Random(11), 0
    for _ in range(examples(500)):
        tables, body = random_case(chance)
        text = chance.choice([CAPACITY, PREEMPTING])
        cache = cluster(**tables)
        prover = prover_of(cache, body, text)
        if prover is None:
            continue
        answer = proved(prover)
        assert len(answer["change"]) <= MOST_CHANGES
        for each in answer["change"]:
            change = next(c for c in candidates(prover.case) if (c.kind, c.value) == (each["kind"], each["value"]))
            other = cluster(**tables)
            known = prover.case.snapshot.all_jobs[prover.key]
            phase = known.phase if each["kind"] != "queue" else "Pending"
            gang = gang_of(change.body, PRIORITIES.values, 0, phase=phase)
            fed(other, gang)
            told += 1
            if each["when"] == "now":
                assert starts(other, gang, text), (each, body)
    assert told > examples(500) // 4
