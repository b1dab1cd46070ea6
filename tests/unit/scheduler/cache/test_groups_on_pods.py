"""Groups that pods describe, as their Jobs have no PodGroup."""

import msgspec
import pytest

from pyroclast.api import keys
from pyroclast.api.enums import PodGroupPhase
from pyroclast.lifecycle.gang.groups import GroupStatus
from pyroclast_scheduler.cache.cache import Cache
from tests.scenarios import objects

OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
TEXT = '{"metadata": {"annotations": {"a": "b"}}, "spec": {"queue": "q", "minMember": 1, "minResources": {"cpu": "2"}}}'


def pod(node="-", phase="Pending", version="2", conditions=()):
    body = msgspec.to_builtins(objects.pod(["p", "g", node, 2, "1Gi"]))
    body["metadata"] |= {"resourceVersion": version, "ownerReferences": [OWNER]}
    body["metadata"].setdefault("labels", {})[keys.POD_GROUP] = "none"
    body["metadata"]["annotations"][keys.POD_GROUP] = TEXT
    body["status"] |= {"phase": phase, "conditions": list(conditions)}
    return msgspec.convert(body, type(objects.pod(["p", "g", "-", 2, "1Gi"])))


@pytest.fixture
def cache():
    cache = Cache()
    cache.queue_changed(None, objects.queue(["q"]))
    cache.node_changed(None, objects.node(["n1", 4, "8Gi"]))
    return cache


def test_session_sees_the_job_of_a_pod_that_describes_its_group(cache):
    cache.pod_changed(None, pod())
    (job,) = cache.snapshot().jobs
    assert (job.key, job.queue, job.min_available, job.min_resources) == (pod_key(), "q", 1, {"cpu": 2000})
    assert job.group.metadata.annotations["a"] == "b"
    assert [task.name for task in job.tasks] == ["p"]


def pod_key():
    return f"{pod().metadata.namespace}/g"


def test_pod_without_the_label_or_of_another_scheduler_describes_no_group(cache):
    found = pod()
    meta = msgspec.structs.replace(found.metadata, labels={})
    cache.pod_changed(None, msgspec.structs.replace(found, metadata=meta))
    cache.pod_changed(None, msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, scheduler_name="other")))
    assert cache.snapshot().jobs == []


def test_phase_stays_in_memory_until_the_pod_ends(cache):
    first = pod()
    cache.pod_changed(None, first)
    cache.groups.believe(pod_key(), GroupStatus(phase=PodGroupPhase.INQUEUE))
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    second = pod(version="3", conditions=[said])
    cache.pod_changed(first, second)
    assert cache.groups.current(pod_key()).status.phase is PodGroupPhase.INQUEUE
    cache.pod_changed(second, pod(node="n1", phase="Succeeded", version="4"))
    assert cache.groups.current(pod_key()) is None


def test_new_scheduler_knows_by_the_pod_that_the_gang_runs(cache):
    cache.pod_changed(None, pod(node="n1", phase="Running"))
    assert cache.groups.current(pod_key()).status == GroupStatus(phase=PodGroupPhase.RUNNING, running=1)


def test_podgroup_takes_precedence_over_the_pod_until_it_is_deleted(cache):
    first = pod()
    cache.pod_changed(None, first)
    group = objects.pod_group(["g", "q", 2])
    cache.group_changed(None, group)
    cache.pod_changed(first, pod(version="3"))
    assert cache.groups.current(pod_key()).spec.min_member == 2
    cache.group_changed(group, None)
    assert cache.groups.current(pod_key()).spec.min_member == 1


def test_waiting_and_reservation_are_read_from_conditions_until_the_pod_has_a_node(cache):
    said = [
        {"type": kind, "status": "True", "reason": "r", "message": text}
        for kind, text in (("pyroclast.dev/Waiting", "w"), ("pyroclast.dev/Reservation", "r"))
    ]
    first, second = pod(conditions=said), pod(node="n1", version="3", conditions=said)
    cache.pod_changed(None, first)
    annotations = cache.groups.current(pod_key()).metadata.annotations
    assert (annotations[keys.WAITING], annotations[keys.RESERVATION]) == ("w", "r")
    cache.pod_changed(first, second)
    assert keys.WAITING not in cache.groups.current(pod_key()).metadata.annotations
