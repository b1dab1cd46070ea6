"""Every kind that makes Jobs is reviewed when it is written, and its Jobs have its submitter, whom nobody else can name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyroclast.api.keys import SUBMITTED_BY
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.tenants import with_role
from tests.e2e.tenants.conftest import Tenants, job_of
from tests.e2e.tenants.test_queues import EDITOR, objects_in

ADMIN = "vcjob-admin-role"
GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "mine"},
    "spec": {"minMember": 1},
}


def test_nobody_submits_in_the_name_of_another(tenants: Tenants) -> None:
    alice, bob = with_role(with_role(tenants.alice, EDITOR), ADMIN), tenants.bob
    ours = [each for each in objects_in("default") if "volcano.sh" in each["apiVersion"] and each["kind"] != "JobTemplate"]
    for manifest in (*ours, GROUP):
        forged = {**manifest, "metadata": {"name": "forged", "annotations": {SUBMITTED_BY: bob.user}}}
        if manifest["kind"] == "PodGroup":
            assert f"{SUBMITTED_BY}]: Forbidden" in alice.refused(forged)
        else:
            made = alice.create(forged)
            assert made["metadata"]["annotations"][SUBMITTED_BY] == alice.user, manifest["kind"]


def test_the_jobs_of_flows_and_hyperjobs_have_the_submitter_of_these(cluster: Cluster, tenants: Tenants) -> None:
    bob = with_role(tenants.bob, EDITOR)
    _, template, flow, _, hyper, *_ = objects_in("default")
    flow["spec"] = {"flows": [{"name": "mine"}]}
    for manifest in (template, flow, hyper):
        bob.create(manifest)

    def submitters() -> dict[str, str]:
        jobs = cluster.get("jobs.batch.volcano.sh", "-n", bob.namespace)["items"]
        return {each["metadata"]["name"]: each["metadata"].get("annotations", {}).get(SUBMITTED_BY, "") for each in jobs}

    wait_until(lambda: submitters() == dict.fromkeys(("mine-mine", "mine-a-0"), bob.user), "the Jobs of flow and HyperJob")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"queue": "root"}, "root queue"),
        ({"queue": "nowhere"}, "not found"),
        ({"minResources": {"cpu": "-4"}}, "must be greater than or equal to 0"),
        ({"minMember": -1}, "be greater than or equal to 0"),
    ],
)
def test_a_podgroup_is_reviewed_when_it_changes(cluster: Cluster, tenants: Tenants, change: dict[str, Any], told: str) -> None:
    alice = with_role(tenants.alice, ADMIN)
    alice.create(GROUP)
    patch = ("patch", "podgroup", "mine", "-n", alice.namespace, "--type=merge", "-p", json.dumps({"spec": change}))
    assert told in cluster.refused(f"--as={alice.user}", *patch)


def test_queue_root_is_refused_in_everything_that_makes_jobs(tenants: Tenants) -> None:
    alice = with_role(tenants.alice, EDITOR)
    alice.create({**job_of("a"), "apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate"})
    for manifest in objects_in("root"):
        if "volcano.sh" in manifest["apiVersion"]:
            flow = {"flows": [{"name": "a", "patch": {"spec": {"queue": "root"}}}]}
            told = alice.refused({**manifest, "spec": flow} if manifest["kind"] == "JobFlow" else manifest)
            assert "root" in told, manifest["kind"]
            assert "may not use" not in told, "the reason is the queue, not a right"
