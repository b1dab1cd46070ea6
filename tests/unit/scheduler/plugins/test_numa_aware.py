"""Plugin numa-aware: pods placed one after another, over sessions, restarts and late Numatopologies."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from pyroclast.api import keys, records
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.plugins.numa_aware.book import SETTLED_SECONDS
from pyroclast_scheduler.session import task_placement
from pyroclast_scheduler.session.configuration import Configuration, PluginEntry
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Session
from tests.scenarios import objects
from tests.scenarios.numa import numatopology, pod
from tests.scenarios.runner import feed
from tests.scenarios.taking import assume_all

SINGLE = "single-numa-node"


class Cluster:
    """Sessions one after another, over the same cache and memory; what is bound is taken up as the service does."""

    def __init__(self, *nodes: str, **arguments: Any) -> None:
        self.cache = Cache()
        self.memory: dict[str, Any] = {}
        self.now = objects.NOW
        self.warnings: list[str] = []
        entry = PluginEntry("numa-aware", arguments=arguments)
        self.settings = Configuration(("allocate",), ((PluginEntry("gang"), PluginEntry("predicates"), entry),))
        self.shown: dict[str, records.Numatopology] = {}
        rows = [[node, 16, "64Gi", {"pods": 100}] for node in nodes]
        feed(self.cache, {"nodes": rows, "queues": [["q", {}]], "podgroups": [["j", "q", 1]]})

    def show(self, node: str, *args: Any, **kwargs: Any) -> None:
        record = numatopology(node, *args, **kwargs)
        self.cache.object_changed(self.shown.get(node), record)
        self.shown[node] = record

    def add(self, name: str, cpu: Any, policy: str = SINGLE, *, qos: str = "Guaranteed", node: str = "-") -> None:
        self.cache.pod_changed(None, pod([name, "j", node, cpu, "1Gi", {"phase": "Pending"}], qos=qos, policy=policy))

    def starts(self, name: str, *, node: str) -> None:
        """The pod runs on `node`, since now."""
        before = self.cache.tasks[f"t-{name}"].pod
        body = msgspec.to_builtins(before)
        body["spec"]["nodeName"] = node
        body["status"] |= {"phase": "Running", "startTime": objects.timestamp(self.now)}
        self.cache.pod_changed(before, msgspec.convert(body, records.Pod))

    def open(self, commits: list[Any] | None = None) -> Session:
        ports = Ports(self.now, (commits if commits is not None else []).append, memory=self.memory)
        session = Session(self.cache.snapshot(), self.settings, registry.plugins(), ports, uid="session")
        self.warnings = session.report.warnings
        return session

    def only_task(self) -> tuple[Session, Any, Any]:
        """A session that is open, the only job in it, and its only task."""
        session = self.open()
        (job,) = session.jobs.values()
        (task,) = job.tasks
        return session, job, task

    def bound(self) -> dict[str, tuple[str, Any]]:
        """One session: the pods that it binds, with their node and the NUMA nodes they are told of."""
        commits: list[Any] = []
        session = self.open(commits)
        registry.actions()["allocate"](session, session.arguments_of("allocate"))
        session.close_plugins()
        found: dict[str, tuple[str, Any]] = {}
        for binds in (each for commit in commits for each in commit.binds):
            assert assume_all(self.cache, binds.placed) is None
            for uid, node in binds.placed:
                told = [each.annotations for each in binds.preparations.get(uid, ())]
                decision = json.loads(told[0][keys.TOPOLOGY_DECISION])["numa"] if told else None
                found[self.cache.tasks[uid].name] = (node, decision)
        return found


def node_with(*cpus: int) -> Cluster:
    """A cluster of one node, whose NUMA nodes have so many free CPUs."""
    cluster = Cluster("n")
    cluster.show("n", dict(enumerate(cpus)), policy=SINGLE)
    return cluster


def test_pods_of_one_session_are_bound_only_while_a_numa_node_has_enough_free_cpus():
    cluster = node_with(4, 4)
    for at in range(5):
        cluster.add(f"p{at}", 2)
    found = cluster.bound()
    assert [each["0"]["cpu"] for _, each in found.values() if "0" in each] == ["2", "2"]
    assert [each["1"]["cpu"] for _, each in found.values() if "1" in each] == ["2", "2"]
    assert len(found) == 4


def test_pods_without_a_numa_policy_are_not_placed_on_nodes_that_would_reject_them():
    cluster = node_with(3, 3)
    for at in range(4):
        cluster.add(f"p{at}", 2, "")
    assert len(cluster.bound()) == 2


def test_pods_without_exclusive_cpus_get_no_numa_refusals_that_depend_on_other_pods():
    cluster = node_with(4, 4)
    cluster.add("shares", "1500m", "")
    cluster.add("bursts", 2, SINGLE, qos="Burstable")
    session = cluster.open()
    for job in session.jobs.values():
        for task in job.tasks:
            assert session.coupled_refusals(task, session.plan(task.facts.shape)) is None


def test_assigned_cpus_stay_taken_in_later_sessions_before_the_numatopology_reports_them():
    cluster = node_with(4, 4)
    cluster.add("a", 3)
    assert cluster.bound() == {"a": ("n", {"0": {"cpu": "3"}})}
    cluster.add("b", 3)
    assert cluster.bound() == {"b": ("n", {"1": {"cpu": "3"}})}
    cluster.add("c", 3)
    assert cluster.bound() == {}


def test_cpu_assignments_are_recomputed_after_a_restart():
    cluster = node_with(4, 4)
    cluster.add("a", 3)
    cluster.bound()
    cluster.memory.clear()
    cluster.add("b", 3)
    cluster.add("c", 3)
    assert len(cluster.bound()) == 1


def test_pod_allocations_in_the_numatopology_replace_the_assumed_cpus():
    cluster = node_with(4, 4)
    cluster.add("a", 4)
    cluster.bound()
    cluster.starts("a", node="n")
    cluster.show("n", {0: 4, 1: 0}, policy=SINGLE, allocations={"t-a": "4-7"}, version="2")  # the kubelet chose otherwise
    cluster.add("b", 4)
    assert cluster.bound() == {"b": ("n", {"0": {"cpu": "4"}})}


def test_a_numatopology_without_pod_allocations_is_trusted_after_a_delay_since_the_pod_start():
    cluster = node_with(4, 4)
    cluster.add("a", 4)
    cluster.bound()
    cluster.starts("a", node="n")
    cluster.show("n", {0: 4, 1: 0}, policy=SINGLE, version="2")
    cluster.add("b", 4)
    assert cluster.bound() == {}
    cluster.now += SETTLED_SECONDS
    assert cluster.bound() == {"b": ("n", {"0": {"cpu": "4"}})}


def test_a_reverted_bind_frees_its_cpus():
    cluster = node_with(4, 0)
    cluster.add("a", 4)
    cluster.bound()
    cluster.cache.pods.forget("t-a")
    assert cluster.bound() == {"a": ("n", {"0": {"cpu": "4"}})}


def test_a_discarded_statement_frees_its_cpus():
    cluster = node_with(4, 0)
    cluster.add("a", 4)
    session, job, task = cluster.only_task()
    plan = session.plan(task.facts.shape)
    for _ in range(2):
        batch = task_placement.find(session, job, task, plan, 1)
        assert batch is not None
        statement = session.statement()
        statement.allocate(job, plan, [task], batch.rows)
        assert task_placement.find(session, job, task, plan, 1) is None
        statement.discard()


def test_cpus_of_an_evicted_pod_stay_taken_until_the_numatopology_shows_them_as_free():
    cluster = node_with(4, 0)
    cluster.add("a", 4)
    cluster.bound()
    cluster.starts("a", node="n")
    cluster.show("n", {0: 0, 1: 0}, policy=SINGLE, totals={0: 4, 1: 0}, allocations={"t-a": "0-3"}, version="2")
    cluster.add("b", 4)
    session = cluster.open()
    job = session.job("t/j")
    assert job is not None
    a, b = sorted(job.tasks, key=lambda task: task.facts.name)
    session.statement().evict(job, session.plan(a.facts.shape), a, "preempt")
    assert task_placement.find(session, job, b, session.plan(b.facts.shape), 1) is None
    cluster.cache.pod_changed(cluster.cache.tasks["t-a"].pod, None)
    assert cluster.bound() == {}
    cluster.show("n", {0: 4, 1: 0}, policy=SINGLE, version="3")
    assert cluster.bound() == {"b": ("n", {"0": {"cpu": "4"}})}


def test_fewer_numa_nodes_score_higher():
    cluster = Cluster("wide", "narrow", weight=2)
    cluster.show("wide", {0: 2, 1: 2}, totals={0: 4, 1: 4}, policy="best-effort")
    cluster.show("narrow", {0: 0, 1: 4}, policy="best-effort")
    cluster.add("a", 4, "best-effort")
    assert cluster.bound()["a"][0] == "narrow"


def test_a_pod_without_a_numa_policy_gets_no_numa_scores():
    cluster = Cluster("n")
    cluster.show("n", {0: 4}, policy="best-effort")
    cluster.add("a", 4, "")
    session, job, task = cluster.only_task()
    plan = session.plan(task.facts.shape)
    assert session.batch_scores(job, task, plan, plan.mask) is None


def test_a_malformed_numatopology_is_warned_about_and_other_nodes_stay_usable():
    cluster = Cluster("bad", "good")
    good = numatopology("good", {0: 4}, policy=SINGLE)
    spec = msgspec.structs.replace(good.spec, numa_resources={"cpu": records.NumaResource(allocatable="0-")})
    cluster.cache.object_changed(
        None, msgspec.structs.replace(good, metadata=msgspec.structs.replace(good.metadata, name="bad"), spec=spec)
    )
    cluster.cache.object_changed(None, good)
    cluster.add("a", 4)
    assert cluster.bound()["a"][0] == "good"
    assert cluster.warnings == [
        "plugin numa-aware: Numatopology bad: spec.numares[cpu].allocatable: '0-' is neither a CPU nor a range such as 2-4"
    ]


def test_fit_errors_count_nodes_by_numa_refusal_reason():
    cluster = Cluster("none", "other", "full", "small")
    cluster.show("other", {0: 4}, policy="restricted")
    cluster.show("full", {0: 0, 1: 0}, totals={0: 4, 1: 4}, policy=SINGLE)
    cluster.show("small", {0: 3, 1: 3}, policy=SINGLE)
    cluster.add("a", 4)
    session, job, task = cluster.only_task()
    errors = task_placement.explain(session, job, task, session.plan(task.facts.shape))
    assert errors.reasons == {
        "numa info is empty": 1,
        "task topology policy[single-numa-node] is different with node[restricted]": 1,
        "cpu allocatable map is empty": 1,
        "container c cannot be assigned by numa": 1,
    }


@pytest.mark.parametrize("policy", ["best-effort", "restricted", SINGLE])
def test_pods_are_bound_until_unreserved_cpus_run_out_except_with_policy_best_effort(policy):
    cluster = Cluster("n")
    cluster.show("n", {0: 6, 1: 6}, policy=policy, threads=2, reserved="500m")
    for at in range(12):
        cluster.add(f"p{at:02}", 1, policy)
    found = cluster.bound()
    assert len(found) == (11 if policy != "best-effort" else 12)


def test_only_changed_numatopologies_are_parsed_again():
    cluster = Cluster("a", "b")
    cluster.show("a", {0: 4}, policy=SINGLE)
    cluster.show("b", {0: 4}, policy=SINGLE)
    cluster.open()
    book = cluster.memory["numa-aware"]
    before = book.table(cluster.shown, ("a", "b")).by_row
    cluster.show("b", {0: 3}, policy=SINGLE, version="2")
    after = book.table(cluster.shown, ("a", "b")).by_row
    assert after[0] is before[0]
    assert after[1] is not before[1]
