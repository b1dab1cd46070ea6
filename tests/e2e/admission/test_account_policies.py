"""What our ServiceAccounts may not do although their roles allow the verb: admission policies hold them to objects of ours."""

from __future__ import annotations

import pytest

from tests.e2e.support.cluster import Cluster, KubectlError, wait_until

ACCOUNT = "--as=system:serviceaccount:pyroclast-system:pyroclast-"
CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: strange, namespace: kube-system}
"""
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: strange}
spec:
  minAvailable: 1
  tasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: a, image: a}]}}}]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: other}
spec: {containers: [{name: a, image: a}]}
"""
POD_GROUP = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: strange}
spec: {minMember: 1}
"""
LEASE = """
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: strange, namespace: pyroclast-system}
"""


@pytest.fixture(scope="module", autouse=True)
def in_force(cluster: Cluster) -> None:
    """An API server takes a moment until it heeds a policy; the embedded one evaluates none."""
    if cluster.control_plane != "real":
        pytest.skip("admission policies need the real control plane")

    def is_refused() -> bool:
        try:
            cluster.kubectl("create", "-f", "-", "--dry-run=server", f"{ACCOUNT}controllers", stdin=CONFIG_MAP)
        except KubectlError as error:
            return "may only" in error.stderr
        return False

    wait_until(is_refused, "the policies to be in force")


@pytest.mark.parametrize("account", ["controllers", "jobflow", "scheduler"])
def test_admission_policy_refuses_leases_that_do_not_belong_to_the_service(cluster: Cluster, account: str) -> None:
    assert "may only write the Lease" in cluster.refused("create", "-f", "-", ACCOUNT + account, stdin=LEASE)


def test_admission_policy_refuses_controller_writes_to_objects_without_a_job_owner(cluster: Cluster, namespace: str) -> None:
    said = cluster.refused("create", "-f", "-", f"{ACCOUNT}controllers", stdin=CONFIG_MAP)
    assert "pyroclast-controllers may only write configmaps that a Job owns" in said
    cluster.kubectl("create", "configmap", "kept", "-n", namespace)
    said = cluster.refused("delete", "configmap", "kept", "-n", namespace, f"{ACCOUNT}controllers")
    assert "may only write configmaps that a Job owns" in said
    patch = ("patch", "configmap", "kept", "-n", namespace, "--type=merge", "-p")
    assert "a Job owns" in cluster.refused(*patch, '{"data": {"a": "b"}}', f"{ACCOUNT}controllers")
    said = cluster.refused("create", "-n", namespace, "-f", "-", f"{ACCOUNT}controllers", stdin=JOB)
    assert "may only create Jobs for a CronJob or a HyperJob" in said


def test_admission_policy_refuses_controllers_a_podgroup_without_controller_owner(cluster: Cluster, namespace: str) -> None:
    said = cluster.refused("create", "-n", namespace, "-f", "-", f"{ACCOUNT}controllers", stdin=POD_GROUP)
    assert "may only create PodGroups for a Job, a pod or a workload, which controls them" in said


def test_admission_policy_lets_services_annotate_but_not_label_or_delete_foreign_pods(cluster: Cluster, namespace: str) -> None:
    cluster.create(POD, namespace)
    patch = ("patch", "pod", "other", "-n", namespace, "--type=merge", f"{ACCOUNT}controllers", "-p")
    cluster.kubectl(*patch, '{"metadata": {"annotations": {"scheduling.k8s.io/group-name": "a"}}}')
    assert "may only write pods that a Job owns" in cluster.refused(*patch, '{"metadata": {"labels": {"a": "b"}}}')
    said = cluster.refused("delete", "pod", "other", "-n", namespace, f"{ACCOUNT}controllers")
    assert "may only write pods that a Job owns" in said
    cluster.kubectl(
        "patch", "pod", "other", "-n", namespace, "--type=json", "-p", '[{"op": "remove", "path": "/metadata/annotations"}]'
    )
    said = cluster.refused("delete", "pod", "other", "-n", namespace, f"{ACCOUNT}scheduler")
    assert "may only evict pods that it schedules or that are in a PodGroup" in said


def test_admission_policy_refuses_jobflow_controller_deletes_of_jobs_without_a_jobflow_owner(
    cluster: Cluster, namespace: str
) -> None:
    cluster.create(JOB, namespace)
    said = cluster.refused("delete", "vcjob", "strange", "-n", namespace, f"{ACCOUNT}jobflow")
    assert "pyroclast-jobflow may only create and delete Jobs that a JobFlow owns" in said


def test_admission_policy_refuses_secrets_other_than_the_admission_secret(cluster: Cluster) -> None:
    said = cluster.refused("create", "secret", "generic", "strange", "-n", "pyroclast-system", f"{ACCOUNT}admission")
    assert "may only write the Secret volcano-admission-secret" in said


def test_role_of_the_controllers_allows_a_delete_that_admission_policies_refuse(cluster: Cluster) -> None:
    """Otherwise the refusals above would tell of nothing."""
    assert cluster.kubectl("auth", "can-i", "delete", "configmaps", "-n", "kube-system", f"{ACCOUNT}controllers").strip() == "yes"
