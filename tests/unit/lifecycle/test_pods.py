import pytest

from pyroclast.lifecycle.gang import pods
from pyroclast.lifecycle.gang.pods import claim_name, volume_name

from .builders import decode, job, task, template


def build(owner, index=0, task_index=0, **more):
    return pods.build(owner, owner.spec.tasks[task_index], index, **more)


def test_pod_manifest_has_name_labels_annotations_and_owner_reference_of_its_job():
    owner = job(task("my-ps", 2, template={"metadata": {"labels": {"l": "1"}, "finalizers": ["f"]}, **template()}))
    body = build(owner, 1)
    assert body["metadata"] == {
        "name": "j-my-ps-1",
        "namespace": "n",
        "labels": {
            "l": "1",
            "volcano.sh/job-name": "j",
            "volcano.sh/job-namespace": "n",
            "volcano.sh/queue-name": "default",
            "volcano.sh/task-index": "1",
            "volcano.sh/task-spec": "my-ps",
        },
        "annotations": {
            "scheduling.k8s.io/group-name": "j-u1",
            "volcano.sh/job-name": "j",
            "volcano.sh/job-retry-count": "0",
            "volcano.sh/job-version": "0",
            "volcano.sh/queue-name": "default",
            "volcano.sh/task-index": "1",
            "volcano.sh/task-spec": "my-ps",
            "volcano.sh/template-uid": "j-my-ps",
        },
        "ownerReferences": [
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": "j",
                "uid": "u1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert body["spec"] == {**template()["spec"], "schedulerName": "volcano"}


def test_scheduler_and_priority_class_of_the_pod_template_override_those_of_the_job():
    owner = job(task(template=template(schedulerName="mine", priorityClassName="low")), priorityClassName="high")
    assert (build(owner)["spec"]["schedulerName"], build(owner)["spec"]["priorityClassName"]) == ("mine", "low")
    assert build(job(priorityClassName="high"))["spec"]["priorityClassName"] == "high"


def test_pod_annotations_record_job_version_and_retry_count_at_creation():
    annotations = build(job(status={"version": 4, "retryCount": 2}))["metadata"]["annotations"]
    assert (annotations["volcano.sh/job-version"], annotations["volcano.sh/job-retry-count"]) == ("4", "2")


def test_pod_inherits_only_scheduling_labels_and_annotations_of_its_job():
    given = {
        "volcano.sh/preemptable": "true",
        "volcano.sh/cooldown-time": "5m",
        "volcano.sh/revocable-zone": "*",
        "volcano.sh/jdb-min-available": "1",
        "volcano.sh/jdb-max-unavailable": "2",
        "other": "x",
    }
    owner = job(metadata={"annotations": given, "labels": {"volcano.sh/preemptable": "false", "mine": "y"}})
    meta = build(owner)["metadata"]
    assert {key: meta["annotations"].get(key) for key in given} == {
        **given,
        "volcano.sh/jdb-max-unavailable": None,
        "other": None,
    }
    assert meta["labels"]["volcano.sh/preemptable"] == "false"
    assert "mine" not in meta["labels"]


def test_pod_metadata_contains_numa_policy_and_job_forwarding():
    meta = build(job(task(topologyPolicy="best-effort")), forwarding=True)["metadata"]
    assert meta["annotations"]["volcano.sh/numa-topology-policy"] == "best-effort"
    assert meta["annotations"]["volcano.sh/job-forwarding"] == meta["labels"]["volcano.sh/job-forwarding"] == "true"


@pytest.mark.parametrize(
    ("size", "index", "want"), [(2, 0, "0"), (2, 1, "0"), (2, 2, "1"), (5, 10, "2"), (1, 7, "7"), (0, 3, "0"), (3, -2, "0")]
)
def test_partition_id_is_the_index_divided_by_the_partition_size_or_0_if_either_is_invalid(size, index, want):
    assert pods.partition_of(decode(task(partitionPolicy={"partitionSize": size}), type(job().spec.tasks[0])), index) == want


def test_pod_of_a_task_without_partitions_has_no_partition_label():
    assert pods.partition_of(job().spec.tasks[0], 3) is None
    assert "volcano.sh/partition-id" not in build(job())["metadata"]["labels"]


def test_volumes_are_mounted_into_containers_and_not_into_init_containers():
    both = template()
    both["spec"]["initContainers"] = [{"name": "i"}]
    owner = job(
        task(template=both),
        volumes=[
            {"mountPath": "/one", "volumeClaimName": "c"},
            {"mountPath": "/two", "volumeClaimName": "c"},
            {"mountPath": "/tmp/x"},
        ],
    )
    spec = build(owner)["spec"]
    claim, scratch = (volume["name"] for volume in spec["volumes"])
    assert spec["volumes"] == [
        {"name": claim, "persistentVolumeClaim": {"claimName": "c"}},
        {"name": scratch, "emptyDir": {}},
    ]
    assert spec["containers"][0]["volumeMounts"] == [
        {"mountPath": "/one", "name": claim},
        {"mountPath": "/two", "name": claim},
        {"mountPath": "/tmp/x", "name": scratch},
    ]
    assert "volumeMounts" not in spec["initContainers"][0]


def test_generated_claim_and_volume_names_are_deterministic_and_distinct():
    owner = job()
    assert claim_name(owner, 0) == claim_name(owner, 0) != claim_name(owner, 1)
    assert volume_name(owner, "p", "v") != volume_name(owner, "q", "v")
    prefix, _, suffix = claim_name(owner, 0).rpartition("-")
    assert prefix == "j-pvc"
    assert len(suffix) == 12
    assert suffix.isalnum()
    assert suffix == suffix.lower()
