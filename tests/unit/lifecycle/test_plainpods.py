import pytest

from pyroclast.api.records import BatchJob, Pod, PodGroup, ReplicaSet, StatefulSet
from pyroclast.lifecycle import plainpods
from tests.unit.lifecycle.builders import decode

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "ru", "controller": True}


def pod(*owners, cpu="100m", limits=None, scheduler="volcano", **meta):
    resources = {"requests": {"cpu": cpu}, "limits": limits or {}}
    body = {
        "metadata": {"name": "p", "namespace": "n", "uid": "pu", "ownerReferences": list(owners), **meta},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "c", "resources": resources}]},
    }
    return decode(body, Pod)


def made(each, inherited=None):
    return plainpods.manifest(each, inherited or {})


def test_podgroup_is_wanted_only_for_ungrouped_pods_of_the_given_schedulers():
    assert plainpods.wants_group(pod(), {"volcano"})
    assert not plainpods.wants_group(pod(scheduler="mine"), {"volcano"})
    assert not plainpods.wants_group(pod(annotations={"scheduling.k8s.io/group-name": "g"}), {"volcano"})
    spec = {"schedulerName": "volcano", "schedulingGroup": {"podGroupName": "g"}}
    assert not plainpods.wants_group(decode({"metadata": {"name": "p"}, "spec": spec}, Pod), {"volcano"})


@pytest.mark.parametrize(
    ("scheduling", "want"),
    [
        (None, None),
        ({}, None),
        ({"schedulingPolicy": {"basic": {}}}, None),
        ({"schedulingPolicy": {"gang": {"minCount": 2}}}, 2),
        ({"schedulingPolicy": {"gang": {}}}, 4),
    ],
)
def test_gang_of_a_batch_job_is_min_count_or_parallelism_and_none_without_a_gang_policy(scheduling, want):
    job = decode({"metadata": {"name": "j"}, "spec": {"parallelism": 4, "scheduling": scheduling}}, BatchJob)
    assert job.gang == want


def test_podgroup_of_a_batch_job_gang_takes_its_size_and_the_queue_label():
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "ju", "controller": True}
    label = {"scheduling.volcano.sh/queue-name": "q"}
    body = plainpods.manifest(pod(owner, labels=label), {}, 3)
    assert (body["spec"]["minMember"], body["spec"]["queue"]) == (3, "q")
    said = {"scheduling.volcano.sh/group-min-member": "2"}
    assert plainpods.manifest(pod(owner), said, 3)["spec"]["minMember"] == 2
    assert "queue" not in plainpods.manifest(pod(owner, labels=label), {})["spec"]


def test_a_pod_without_an_owner_owns_its_group():
    body = made(pod())
    assert body["metadata"] == {
        "name": "podgroup-pu",
        "namespace": "n",
        "annotations": {},
        "labels": {},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pu", "controller": True, "blockOwnerDeletion": True}
        ],
    }
    resources = {"count/pods": "1", "pods": "1", "cpu": "100m", "requests.cpu": "100m"}
    assert (body["spec"], body["status"]) == ({"minMember": 1, "minResources": resources}, {"phase": "Pending"})


def test_podgroup_takes_its_name_and_owner_references_from_the_owners_of_the_pod():
    other = {"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "tu"}
    body = made(pod(other, OWNER))
    assert body["metadata"]["name"] == "podgroup-ru"
    assert body["metadata"]["ownerReferences"] == [other, OWNER]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2", 2),
        ("+2", 2),
        ("0", 0),
        ("000000000000000000000002", 2),
        ("-1", 1),
        ("1_0", 1),
        ("many", 1),
        (None, 1),
        ("٣", 1),
        ("2147483647", 2147483647),
        ("2147483648", 1),
        ("9" * 5000, 1),
    ],
)
def test_min_member_comes_from_the_annotation_and_is_1_if_invalid(text, want):
    inherited = {} if text is None else {"scheduling.volcano.sh/group-min-member": text}
    gpu = pod(OWNER, limits={"nvidia.com/gpu": "1"})
    spec = made(gpu, inherited)["spec"]
    assert spec["minMember"] == want
    assert spec["minResources"].get("pods") == (str(want) if want else None)


def test_pod_annotations_override_inherited_ones_and_unknown_keys_are_dropped():
    inherited = {
        "volcano.sh/custom-key": "x",
        "volcano.sh/jdb-max-unavailable": "3",
        "volcano.sh/preemptable": "true",
        "other": "y",
    }
    given = {"volcano.sh/preemptable": "false", "volcano.sh/jdb-min-available": "1", "scheduling.volcano.sh/queue-name": "q"}
    body = made(pod(OWNER, annotations=given, labels={"volcano.sh/cooldown-time": "5m", "l": "m"}), inherited)
    assert body["metadata"]["annotations"] == {
        "volcano.sh/custom-key": "x",
        "volcano.sh/jdb-max-unavailable": "3",
        "volcano.sh/preemptable": "false",
        "volcano.sh/jdb-min-available": "1",
    }
    assert body["metadata"]["labels"] == {"volcano.sh/cooldown-time": "5m"}
    assert body["spec"]["queue"] == "q"


def test_first_owner_wins_when_several_owners_have_the_same_annotation():
    assert plainpods.merged([{"a": "1"}, {"a": "2", "b": "3"}]) == {"a": "1", "b": "3"}


@pytest.mark.parametrize(
    ("mode", "tier", "want"),
    [
        ("Soft", "2", {"mode": "soft", "highestTierAllowed": 2}),
        ("firm", "x", {"mode": "hard"}),
        ("SOFT", "+2", {"mode": "soft", "highestTierAllowed": 2}),
        (None, "1", {"mode": "hard", "highestTierAllowed": 1}),
        ("hard", None, {"mode": "hard"}),
        (None, None, None),
    ],
)
def test_network_topology_is_read_from_the_pod_annotations(mode, tier, want):
    names = {"volcano.sh/network-topology-mode": mode, "volcano.sh/network-topology-highest-tier": tier}
    body = made(pod(annotations={key: value for key, value in names.items() if value is not None}))
    assert body["spec"].get("networkTopology") == want


def group(body, **spec):
    meta = {key: body["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
    meta["annotations"] = {**meta["annotations"], "volcano.sh/job-allocated-hypernode": "h"}
    return decode({"metadata": meta, "spec": {"queue": "default", **body["spec"], **spec}}, PodGroup)


def test_podgroup_that_matches_its_pod_needs_no_patch():
    body = made(pod(OWNER, annotations={"volcano.sh/network-topology-mode": "soft"}))
    assert plainpods.patch(group(body), body) == {}


def test_podgroup_patch_holds_the_annotations_and_spec_fields_that_changed():
    body = made(pod(OWNER), {"scheduling.volcano.sh/group-min-member": "2", "volcano.sh/x": "y"})
    assert plainpods.patch(group(made(pod(OWNER)), priorityClassName="high"), body) == {
        "metadata": {"annotations": {"volcano.sh/x": "y"}},
        "spec": {
            "minMember": 2,
            "minResources": {"count/pods": "2", "pods": "2", "cpu": "200m", "requests.cpu": "200m"},
            "priorityClassName": None,
        },
    }


def test_only_pods_of_the_update_revision_determine_the_podgroup_of_a_statefulset():
    stateful = decode({"status": {"updateRevision": "b"}}, StatefulSet)
    old, new = (pod(labels={"controller-revision-hash": revision}) for revision in "ab")
    assert [plainpods.speaks_for(each, stateful) for each in (old, new)] == [False, True]
    assert plainpods.speaks_for(old, decode({}, ReplicaSet))
    assert plainpods.speaks_for(old, decode({}, StatefulSet))


def test_suspended_batch_job_has_size_0():
    assert decode({}, BatchJob).size == 1
    assert decode({"spec": {"parallelism": 3, "suspend": True}}, BatchJob).size == 0


def test_pod_counts_as_in_its_own_podgroup_only_by_the_generated_name_and_while_it_lives():
    own = {"scheduling.k8s.io/group-name": "podgroup-pu"}
    assert plainpods.is_in_own_group(pod(annotations=own), {"volcano"})
    assert not plainpods.is_in_own_group(pod(annotations={"scheduling.k8s.io/group-name": "mine"}), {"volcano"})
    assert not plainpods.is_in_own_group(pod(annotations=own, deletionTimestamp="2025-03-11T10:00:00Z"), {"volcano"})
