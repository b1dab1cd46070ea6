"""A gang whose pods do not exist yet is placed: its tasks are seats, and where they go leaves the session like any placement."""

from dataclasses import replace

import msgspec

from pyroclast.api import records
from pyroclast.lifecycle.gang.groups import volcano_group
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.tasks import task_of
from tests.scenarios import objects
from tests.unit.scheduler.deciding import committed, configured

CONFIGURATION = configured("actions: allocate\ntiers:\n- plugins: [{name: priority}, {name: gang}, {name: predicates}]\n")


def seat(group, role, index, cpu, book):
    """Task `index` of a role, as its template says, before there is a pod."""
    template = msgspec.to_builtins(objects.pod([f"{group}-{role}-{index}", group, "-", cpu, "1Gi", {"role": role}]))
    template["metadata"] |= {"uid": f"{role}/{index}"}
    return task_of(msgspec.convert(template, records.Pod), book)


def placements(roles, *, cpu_of_nodes):
    """What the port is told of a gang of these roles, {name: (count, cpu)}, of which no pod exists."""
    cache, book, commits = Cache(), ShapeBook(), []
    cache.queue_changed(None, objects.queue(["q"]))
    for i, cpu in enumerate(cpu_of_nodes):
        cache.node_changed(None, objects.node([f"n{i}", cpu, "64Gi"]))
    group = objects.pod_group(["g", "q", sum(count for count, _ in roles.values())])
    cache.group_changed(None, group)
    seats = [seat("g", role, index, cpu, book) for role, (count, cpu) in roles.items() for index in range(count)]
    facts = JobFacts.of(volcano_group(group), seats, queue="q")
    snapshot = replace(cache.snapshot(), jobs=[facts], all_jobs={facts.key: facts})
    _, commits = committed(snapshot, CONFIGURATION)
    return {binds.job: dict(binds.placed) for commit in commits for binds in commit.binds}


def test_each_task_of_a_gang_without_pods_gets_a_node():
    found = placements({"master": (1, 4), "worker": (3, 2)}, cpu_of_nodes=[4, 6])
    assert found == {"t/g": {"master/0": "n0", "worker/0": "n1", "worker/1": "n1", "worker/2": "n1"}}


def test_no_task_of_a_gang_without_pods_is_placed_unless_all_fit():
    assert placements({"master": (1, 4), "worker": (3, 2)}, cpu_of_nodes=[4, 4]) == {}
