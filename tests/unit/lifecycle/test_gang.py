"""The PodGroup of a Job and what it costs."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api import keys
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.records import NetworkTopology
from pyroclast.lifecycle.gang import plan, podgroups
from pyroclast.lifecycle.gang.members import ObservedPods
from pyroclast.lifecycle.gang.podgroups import min_resources, pod_usage, shares, usage_times
from pyroclast.resources.pods import Additions

from .builders import group, job, pod, pods_of, task, template


def plain(usage):
    return {name: str(amount) for name, amount in usage.items()}


def container(requests=None, limits=None, **more):
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


GPUS = {"cpu": "1", "memory": "1000Mi", "nvidia.com/gpu": "1", "hugepages-test": "2000"}


def test_pod_usage_lists_requests_and_limits_under_resource_quota_names():
    assert plain(pod_usage({"containers": [container(GPUS, GPUS)] * 2})) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "2",
        "requests.cpu": "2",
        "limits.cpu": "2",
        "memory": "2000Mi",
        "requests.memory": "2000Mi",
        "limits.memory": "2000Mi",
        "nvidia.com/gpu": "2",
        "requests.nvidia.com/gpu": "2",
        "hugepages-test": "4k",
        "requests.hugepages-test": "4k",
    }


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [container({"cpu": "1"})], "initContainers": [container({"cpu": "3"})]}, "3", id="init"),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "initContainers": [container({"cpu": "1"}, restartPolicy="Always")]},
            "2",
            id="sidecar",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container({"cpu": "2"}, restartPolicy="Always"), container({"cpu": "4"})],
            },
            "6",
            id="init-beside-a-sidecar",
        ),
        pytest.param({"containers": [container({"cpu": "1"})], "overhead": {"cpu": "250m"}}, "1250m", id="overhead"),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "resources": {"requests": {"cpu": "5"}}}, "5", id="pod-level-resources"
        ),
        pytest.param({"containers": [container({"cpu": "much"})]}, None, id="unreadable"),
    ],
)
def test_pod_cpu_usage_includes_init_containers_sidecars_overhead_and_pod_level_resources(spec, want):
    assert plain(pod_usage(spec)).get("cpu") == want


def test_usage_of_zero_pods_is_empty():
    assert usage_times(pod_usage({"containers": [container(GPUS)]}), 0) == {}


PINNED = [  # gang, master's and worker's minimum, who has the high priority, cpu, pods
    (2, 1, None, "", "100m", "2"),
    (2, None, 1, "", "100m", "2"),
    (3, 2, 2, "", "200m", "3"),
    (3, 1, 1, "", "200m", "3"),
    (3, 1, 2, "", "250m", "3"),
    (2, 1, 1, "", "150m", "2"),
    (3, 1, 1, "worker", "250m", "3"),
    (3, 0, 1, "worker", "250m", "3"),
    (4, 1, 1, "worker", "300m", "4"),
]


@pytest.mark.parametrize(("gang", "master", "worker", "high", "cpu", "pods"), PINNED)
def test_min_resources_sum_the_gang_members_chosen_by_priority_and_task_minimum(gang, master, worker, high, cpu, pods):
    def one(name, minimum, amount):
        priority = {"priorityClassName": "high"} if name == high else {}
        given = {} if minimum is None else {"minAvailable": minimum}
        return {"name": name, "replicas": 2, "template": template(amount, **priority), **given}

    owner = job(one("master", master, "50m"), one("worker", worker, "100m"), minAvailable=gang)
    resources = min_resources(owner, {"high": 1000})
    assert (resources["cpu"], resources["pods"]) == (cpu, pods)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.none() | st.integers(0, 6)), min_size=1, max_size=5),
    st.integers(0, 20),
)
def test_task_shares_add_up_to_the_gang_size_within_the_replicas_of_each_task(tasks, gang):
    rows = [
        {
            "name": f"t{i}",
            "replicas": replicas,
            "template": template(),
            **({} if least is None else {"minAvailable": min(least, replicas)}),
        }
        for i, (replicas, least) in enumerate(tasks)
    ]
    owner = job(*rows, minAvailable=gang)
    taken = {}
    for each, number in shares(owner, {}):
        assert number >= 0
        taken[each.name] = taken.get(each.name, 0) + number
    assert sum(taken.values()) == min(gang, sum(row["replicas"] for row in rows))
    assert all(taken.get(row["name"], 0) <= row["replicas"] for row in rows)


def test_podgroup_manifest_has_gang_size_queue_topology_and_metadata_of_its_job():
    owner = job(
        task("a", 2, minAvailable=1),
        task("b", 3),
        minAvailable=3,
        priorityClassName="high",
        networkTopology={"mode": "soft", "highestTierAllowed": 2, "highestTierName": "x"},
        metadata={"labels": {"l": "1"}, "annotations": {"x": "y"}},
    )
    body = podgroups.manifest(owner, {})
    assert body["metadata"]["name"] == "j-u1"
    assert (body["metadata"]["labels"], body["metadata"]["annotations"]) == ({"l": "1"}, {"x": "y"})
    assert body["spec"] == {
        "minMember": 3,
        "minTaskMember": {"a": 1, "b": 3},
        "queue": "default",
        "minResources": {"count/pods": "3", "pods": "3", "cpu": "300m", "requests.cpu": "300m"},
        "priorityClassName": "high",
        "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
    }


@pytest.mark.parametrize(("partitions", "want"), [({}, 6), ({"minPartitions": 1}, 3)])
def test_partitions_make_sub_groups(partitions, want):
    policy = {"totalPartitions": 2, "partitionSize": 3, **partitions}
    row = {"name": "a", "replicas": 6, "template": template(), "partitionPolicy": policy}
    spec = podgroups.manifest(job(row, minAvailable=6), {})["spec"]
    assert spec["minTaskMember"] == {"a": want}
    assert spec["subGroupPolicy"] == [
        {
            "name": "a",
            "subGroupSize": 3,
            "minSubGroups": partitions.get("minPartitions", 0),
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "a"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
        }
    ]


def test_podgroup_patch_contains_only_fields_that_differ():
    owner = job(task(replicas=2))
    there = group(owner)
    assert podgroups.patch(owner, there, {}, spec_changed=True) == {}
    bigger = job(task(replicas=3), task("b", 1), priorityClassName="high")
    assert podgroups.patch(bigger, there, {}, spec_changed=True)["spec"] == {
        "priorityClassName": "high",
        "minMember": 4,
        "minResources": {"count/pods": "4", "pods": "4", "cpu": "400m", "requests.cpu": "400m"},
        "minTaskMember": {"a": 3, "b": 1},
    }
    assert podgroups.patch(owner, group(job(task(replicas=2), priorityClassName="high")), {}, spec_changed=True) == {
        "spec": {"priorityClassName": None}
    }
    without = job(task(replicas=2, template={"spec": {"containers": []}}))
    assert podgroups.patch(without, there, {}, spec_changed=True)["spec"] == {"minResources": {"cpu": None, "requests.cpu": None}}


@pytest.mark.parametrize(("phase", "want"), [("PENDING", "3"), ("INQUEUE", "3"), ("RUNNING", None)])
def test_new_defaults_of_a_namespace_change_the_minimum_of_a_gang_that_has_not_started(phase, want):
    owner = job(task(replicas=3, template={"spec": {"containers": [{"name": "c"}]}}))
    there, additions = group(owner, PodGroupPhase[phase]), Additions(requests={"cpu": "1"})
    patch = podgroups.patch(owner, there, {}, additions, spec_changed=False, additions_changed=True)
    assert patch.get("spec", {}).get("minResources", {}).get("cpu") == want


def changed(owner, *, observed=True, **spec):
    """`owner` after somebody has changed its spec; `observed`: it was looked at before that."""
    status = msgspec.structs.replace(owner.status, observed_generation=1 if observed else 0)
    return msgspec.structs.replace(owner, spec=msgspec.structs.replace(owner.spec, **spec), status=status)


def test_queue_and_topology_of_a_job_that_changes_are_carried_to_its_podgroup():
    owner = job(networkTopology={"mode": "hard", "highestTierAllowed": 1})
    there = group(owner)
    moved = changed(owner, queue="other", network_topology=NetworkTopology(highest_tier_name="rack"))
    assert podgroups.patch(moved, there, {}, spec_changed=True) == {
        "spec": {"queue": "other", "networkTopology": {"highestTierAllowed": None, "highestTierName": "rack"}}
    }
    assert podgroups.patch(changed(owner, network_topology=None), there, {}, spec_changed=True) == {
        "spec": {"networkTopology": None}
    }
    assert podgroups.patch(moved, there, {}, spec_changed=True, carried=podgroups.inherited(moved)) == {}
    assert podgroups.patch(changed(owner, queue="other", observed=False), there, {}, spec_changed=True) == {}


def test_podgroup_keeps_the_queue_of_its_namespace_when_its_job_names_no_queue():
    owner = changed(job())
    there = group(owner)
    elsewhere = msgspec.structs.replace(there, spec=msgspec.structs.replace(there.spec, queue="of-the-namespace"))
    assert podgroups.patch(owner, elsewhere, {}, spec_changed=True) == {}


def test_changed_job_labels_and_annotations_are_patched_into_its_podgroup_and_others_are_kept():
    there = group(job(metadata={"annotations": {"a": "1", "gone": "x"}}), mine="theirs")
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    owner = job(metadata={"annotations": {"a": "2", "b": "3", **applied}, "labels": {"team": "t"}})
    want = {"metadata": {"labels": {"team": "t"}, "annotations": {"a": "2", "b": "3"}}}
    assert podgroups.patch(owner, there, {}, spec_changed=False) == want
    assert podgroups.patch(owner, there, {}, spec_changed=False, carried=podgroups.inherited(owner)) == {}


def test_a_podgroup_of_before_a_restart_is_stale():
    old = group(job())
    again = job(status={"version": 1})
    assert not podgroups.is_stale(job(), old, ObservedPods())
    assert podgroups.is_stale(again, old, pods_of(again, pod(again, "a-0", version=0)))
    assert not podgroups.is_stale(again, old, pods_of(again, pod(again, "a-0", version=1)))  # made by a controller before us
    assert not podgroups.is_stale(again, group(again), ObservedPods())
    assert podgroups.is_stale(job(status={"version": 2}), group(again), ObservedPods())


def test_a_gang_is_admitted_once_it_is_no_longer_pending():
    owner = job()
    assert {phase for phase in PodGroupPhase if not podgroups.is_admitted(group(owner, phase))} == {PodGroupPhase.PENDING}
    assert not podgroups.is_admitted(None)


@pytest.mark.parametrize(("minimum", "want"), [(None, [False, False, True]), (1, [False, True, True]), (0, [True, True, True])])
def test_task_waits_for_all_pods_of_its_dependency_or_for_its_min_available(minimum, want):
    target = task("a", 2, minAvailable=minimum)
    if minimum is None:
        del target["minAvailable"]
    owner = job(target, task("b", 1, dependsOn={"name": ["a"]}))
    pods = [pod(owner, "a-0"), pod(owner, "a-1")]
    there = [pods_of(owner, *pods[:count]) for count in range(3)]
    assert [plan.may_start(owner, owner.spec.tasks[1], each) for each in there] == want


TOGETHER = {
    "nobody waits": ((task(), task("b")), None),
    "the gang needs only what comes first": ((task(), task("b", minAvailable=0, dependsOn={"name": ["a"]})), None),
    "it needs a task that waits for another": (
        (task(), task("b", dependsOn={"name": ["a"]})),
        "never: task b waits for a, which starts only when 2 pods are there; without dependsOn 1 is made",
    ),
    "each waits for the other": (
        (task("a", 2, dependsOn={"name": ["b", "c"], "iteration": "any"}), task("b", dependsOn={"name": ["a"]})),
        "never: task a waits for any of b, c, which starts only when 3 pods are there; without dependsOn 0 are made",
    ),
}


@pytest.mark.parametrize(("tasks", "want"), TOGETHER.values(), ids=TOGETHER)
def test_podgroup_is_annotated_when_task_dependencies_keep_its_gang_incomplete(tasks, want):
    made = podgroups.manifest(job(*tasks), {})
    assert made["metadata"]["annotations"].get(keys.WAITS_FOR_TASK) == want


def test_annotation_of_an_incomplete_gang_is_removed_once_the_gang_can_be_complete():
    stuck = job(task(), task("b", dependsOn={"name": ["a"]}))
    mended = job(task(), task("b", minAvailable=0, dependsOn={"name": ["a"]}))
    patched = podgroups.patch(mended, group(stuck), {}, spec_changed=True)
    assert patched["metadata"] == {"annotations": {keys.WAITS_FOR_TASK: None}}
    assert "metadata" not in podgroups.patch(stuck, group(stuck), {}, spec_changed=True)
    assert podgroups.patch(stuck, group(mended), {}, spec_changed=True)["metadata"]["annotations"][keys.WAITS_FOR_TASK]
