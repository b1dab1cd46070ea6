"""Patches: only what differs, in the form of the wire."""

import msgspec
import pytest

from pyroclast.api import records
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.tasks import TaskStatus, task_of
from pyroclast_scheduler.session.outcome import WaitingTask
from pyroclast_scheduler.shell.gangs import to_release
from pyroclast_scheduler.shell.patches import group_patch, queue_patch, waiting_patch
from tests.scenarios import objects


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


def test_only_bound_pods_with_a_controller_that_never_started_are_released():
    owner = {"apiVersion": "v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}

    def task(name, *, owned=True, start=None, where=TaskStatus.BOUND):
        body = msgspec.to_builtins(objects.pod([name, "g", "-", 1, "1Gi"]))
        body["metadata"]["ownerReferences"] = [owner] if owned else []
        body["status"]["startTime"] = start
        return task_of(msgspec.convert(body, records.Pod), ShapeBook()).moved(where, "n1")

    tasks = [
        task("never-started"),
        task("started", start="2026-01-01T00:00:00Z"),
        task("bare", owned=False),
        task("running", where=TaskStatus.RUNNING),
        task("under-way", where=TaskStatus.BINDING),
    ]
    assert [each.name for each in to_release(tasks)] == ["never-started"]
