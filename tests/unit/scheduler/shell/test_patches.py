"""Patches contain only what differs, in the form of the wire; and the texts that say why something waits."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from pyroclast.api import records
from pyroclast.lifecycle.gang.groups import volcano_group
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.fit_errors import Code, FitErrors, Refusal, count_refusals
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.tasks import TaskStatus, task_of
from pyroclast_scheduler.session.outcome import WaitingTask
from pyroclast_scheduler.shell.patches import group_patch, queue_patch, waiting_class, waiting_patch
from tests.scenarios import objects

NODES = ("node1", "node2", "node3")


def job_of(count, minimum):
    book = ShapeBook()
    tasks = [task_of(objects.pod([f"task-{i}", "j", "-", 1, "1G"]), book) for i in range(1, count + 1)]
    group = objects.pod_group(["j", "q", minimum])
    return Job(JobFacts.of(volcano_group(group), tasks, queue="q"), Dimensions(), {})


def test_fit_error_text_names_node_counts_reasons_and_hypernode():
    assert str(FitErrors()) == "0/0 nodes are unavailable"
    assert (
        str(FitErrors("fit failed", reasons={"node(s) pod number exceeded": 1})) == "fit failed: 1 node(s) pod number exceeded."
    )
    inside = FitErrors(nodes=1, reasons={"node(s) pod number exceeded": 1}, hyper_node="h1")
    assert str(inside) == "In hyperNode h1: 0/1 nodes are unavailable: 1 node(s) pod number exceeded."


def test_job_fit_error_counts_task_states_and_names_the_unschedulable_task():
    job = job_of(6, 6)
    for task, row in zip(job.tasks[:3], range(3), strict=True):
        task.last = (TaskStatus.ALLOCATED, row)
    job.fail(job.tasks[5], FitErrors(nodes=3, reasons={"node(s) pod number exceeded": 1, "node(s) resource fit failed": 2}))
    assert job.fit_error(NODES) == (
        "pod group is not ready, 6 Pending, 6 minAvailable; Pending: 3 Schedulable, 3 Unschedulable. Origin reason is task-6: "
        "0/3 nodes are unavailable: 1 node(s) pod number exceeded, 2 node(s) resource fit failed."
    )
    assert job.scheduling_reason(job.tasks[0], NODES) == (
        "Schedulable",
        "Pod t/task-1 can possibly be assigned to node1, once minAvailable is satisfied",
    )
    assert job.scheduling_reason(job.tasks[3], NODES) == ("Unschedulable", "")


def test_a_final_refusal_ends_the_examination_of_a_node():
    nodes = np.ones(3, dtype=np.bool_)
    found = count_refusals(
        nodes,
        [
            Refusal(np.array([True, False, False]), "Insufficient cpu", is_last=True),
            Refusal(np.array([True, True, False]), "node(s) pod number exceeded"),
            Refusal(np.array([True, True, True]), "node(s) were unschedulable", Code.UNRESOLVABLE),
            Refusal(np.array([True, True, True]), "never asked"),
        ],
    )
    assert found.nodes == 3
    assert found.reasons == {"Insufficient cpu": 1, "node(s) pod number exceeded": 1, "node(s) were unschedulable": 2}


def test_the_class_of_a_reason_does_not_depend_on_numbers_and_names():
    task = job_of(1, 1).facts.tasks[0]

    def mark(message):
        return waiting_class(WaitingTask(task, "Unschedulable", message))

    assert mark("0/4 nodes are unavailable: 4 Insufficient cpu.") == mark("0/5 nodes are unavailable: 5 Insufficient cpu.")
    assert mark("0/4 nodes are unavailable: 4 Insufficient cpu.") != mark("0/4 nodes are unavailable: 4 Insufficient memory.")
    possible = "can possibly be assigned to {}, once minAvailable is satisfied"
    assert mark("Pod t/a " + possible.format("n1")) == mark("Pod t/a " + possible.format("n2"))
    assert mark("pod group is not ready, 1 Pending, 2 minAvailable") == mark("pod group is not ready, 2 Pending, 2 minAvailable")


def status(**fields):
    return msgspec.convert(fields, records.PodGroupStatus)


def test_podgroup_patch_contains_only_changed_status_fields():
    old = status(phase="Inqueue", running=2)
    assert group_patch(old, status(phase="Inqueue", running=2)) is None
    assert group_patch(old, status(phase="Running", running=2)) == {"status": {"phase": "Running"}}
    assert group_patch(old, status(phase="Inqueue", failed=1)) == {"status": {"running": None, "failed": 1}}
    condition = {"type": "Scheduled", "status": "True", "reason": "r", "transitionID": "u", "lastTransitionTime": "t"}
    assert group_patch(old, status(phase="Inqueue", running=2, conditions=[condition])) == {"status": {"conditions": [condition]}}


def queue_status(allocated=None, reserved=None):
    return msgspec.convert({"allocated": allocated, "reservation": {"resource": reserved or {}}}, records.QueueStatus)


def test_queue_patch_is_written_only_if_allocated_quantities_differ_in_value():
    new = {"cpu": 1500, "memory": 2**30, "pods": 3, "x/gpu": 2000}
    written = {"cpu": "1500m", "memory": "1Gi", "pods": "3", "x/gpu": "2"}
    assert queue_patch(queue_status(), new, {}) == {"status": {"allocated": written, "reservation": {}}}
    assert queue_patch(queue_status({"cpu": "1.5", "memory": "1024Mi", "pods": 3, "x/gpu": "2000m"}), new, {}) is None
    assert queue_patch(queue_status({"cpu": "0", "memory": "0"}), {"cpu": 0, "memory": 0}, {}) is None
    gone = queue_patch(queue_status({"cpu": "1", "pods": "1"}), {"cpu": 0, "memory": 0}, {})
    assert gone["status"]["allocated"] == {"cpu": "0", "memory": "0", "pods": None}
    assert queue_patch(queue_status({"cpu": "nonsense"}), {"cpu": 0, "memory": 0}, {}) is not None


@pytest.mark.parametrize(
    ("reserved", "used", "guarantee", "want"),
    [
        pytest.param(None, 500, {"cpu": 2000}, {"resource": {"cpu": "1500m"}}, id="what is not used"),
        pytest.param({"cpu": "1500m"}, 500, {"cpu": 2000}, None, id="stands there already"),
        pytest.param({"cpu": "1500m"}, 2000, {"cpu": 2000}, {"resource": None}, id="all is used"),
        pytest.param({"cpu": "1500m"}, 500, {}, {"resource": None}, id="no guarantee any more"),
        pytest.param({"cpu": "1"}, 500, {"x/gpu": 1000}, {"resource": {"x/gpu": "1", "cpu": None}}, id="another resource"),
        pytest.param(None, 3000, {"cpu": 2000}, None, id="more is used than guaranteed"),
    ],
)
def test_queue_reservation_is_the_unused_part_of_the_guarantee(reserved, used, guarantee, want):
    patch = queue_patch(queue_status({"cpu": f"{used}m"}, reserved), {"cpu": used}, guarantee)
    assert (patch and patch["status"]["reservation"]) == want


def test_waiting_pod_patch_sets_the_podscheduled_condition_and_nominatednodename():
    task = task_of(objects.pod(["p", "g", "-", 1, "1Gi"]), ShapeBook())
    found = waiting_patch(WaitingTask(task, "Unschedulable", "why", "n1"), "now")
    (condition,) = found["status"]["conditions"]
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "why",
        "lastTransitionTime": "now",
    }
    assert found["status"]["nominatedNodeName"] == "n1"
