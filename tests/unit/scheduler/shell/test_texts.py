"""The texts that say why something waits."""

import numpy as np

from pyroclast.lifecycle.gang.groups import volcano_group
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.fit_errors import Code, FitErrors, Refusal, count_refusals
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.tasks import TaskStatus, task_of
from pyroclast_scheduler.session.outcome import WaitingTask
from pyroclast_scheduler.shell.patches import waiting_class
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
