"""What one tenant does stops and impersonates no other: numbers, turns in pod creation, bodies, submitters, early refusals."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

from pyroclast.api.keys import SUBMITTED_BY
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.tenants import User, with_role
from tests.e2e.tenants.conftest import Tenants, job_of

HUGE = 2_147_483_647
MANY = 3_000
SECONDS = 10.0
"""Within which a small Job gets its pod beside a large one, on a machine with other work; alone it takes less than one."""


def flow_of(patch: dict[str, Any]) -> dict[str, Any]:
    spec = {"flows": [{"name": "a", "patch": {"spec": patch}}]}
    return {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "mine"}, "spec": spec}


def cron_job_of(job: dict[str, Any]) -> dict[str, Any]:
    return {**job, "kind": "CronJob", "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job["spec"]}}}


def group_of(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    meta = {"name": "mine", "annotations": annotations or {}}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}


def with_all_roles(user: User) -> User:
    """The user with what the chart lets administrators of a namespace do."""
    for role in ("edit", "vcjob-editor-role", "vcjob-admin-role"):
        with_role(user, role)
    return user


BY_BOB = {SUBMITTED_BY: "bob"}
ROOT, TOO_MANY = "root", "may have at most"
REFUSED = {
    "a Job of two billion pods": (job_of("mine", pods=HUGE), TOO_MANY),
    "two billion pods by a CronJob": (cron_job_of(job_of("mine", pods=HUGE)), TOO_MANY),
    "a Job in the queue root": (job_of("mine", queue="root"), ROOT),
    "a flow whose patch names the queue root": (flow_of({"queue": "root"}), ROOT),
    "a CronJob in the queue root": (cron_job_of(job_of("mine", queue="root")), ROOT),
    "a PodGroup in the queue root": (group_of(minMember=1, queue="root"), ROOT),
    "a PodGroup with negative resources": (group_of(minMember=1, minResources={"cpu": "-5"}), "greater than or equal to 0"),
    "a PodGroup in the name of another": (group_of(BY_BOB, minMember=1), SUBMITTED_BY),
}


@pytest.mark.parametrize(("manifest", "told"), REFUSED.values(), ids=REFUSED)
def test_what_would_harm_others_is_refused_when_it_is_made(tenants: Tenants, manifest: dict[str, Any], told: str) -> None:
    alice = with_all_roles(tenants.alice)
    assert told in alice.refused(manifest)


def test_a_podgroup_is_not_moved_to_the_queue_root_or_below_nothing(cluster: Cluster, tenants: Tenants) -> None:
    alice = with_all_roles(tenants.alice)
    alice.create(group_of(minMember=1))
    for spec, told in (({"queue": "root"}, ROOT), ({"minResources": {"cpu": "-5"}}, "greater than or equal to 0")):
        patch = ("patch", "podgroups.scheduling.volcano.sh", "mine", "-n", alice.namespace, "--type=merge", f"--as={alice.user}")
        assert told in cluster.refused(*patch, "-p", json.dumps({"spec": spec}))


def test_a_small_job_gets_its_pod_while_that_of_another_tenant_gets_thousands(cluster: Cluster, tenants: Tenants) -> None:
    large = job_of("large", cpu="1m", pods=MANY)
    tenants.alice.create({**large, "spec": {**large["spec"], "minAvailable": 1}})
    wait_until(lambda: pods_of(cluster, tenants.alice.namespace), "the first pods of the large Job")
    began = time.monotonic()
    tenants.bob.create(job_of("small", cpu="1m"))
    wait_until(lambda: pods_of(cluster, tenants.bob.namespace), "the pod of the small Job", seconds=60)
    assert time.monotonic() - began < SECONDS
    assert len(pods_of(cluster, tenants.alice.namespace)) < MANY, "else the test tells nothing"


def pods_of(cluster: Cluster, namespace: str) -> list[Any]:
    return list(cluster.get("pods", "-n", namespace)["items"])


def test_bodies_of_a_client_without_credentials_stop_no_reviews(cluster: Cluster, tenants: Tenants) -> None:
    configurations = cluster.get("validatingwebhookconfigurations")["items"]
    hooks = {hook["name"]: hook for each in configurations for hook in each["webhooks"]}
    url = hooks["validatejob.volcano.sh"]["clientConfig"].get("url", "")
    if not url:
        pytest.skip("the webhooks are reached by a Service")
    lenient = ssl.create_default_context()
    lenient.check_hostname, lenient.verify_mode = False, ssl.CERT_NONE
    for body, headers in ((b"x" * 4_000_000, {}), (b"\x1f\x8b" + b"x" * 100, {"Content-Encoding": "gzip"})):
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json", **headers})
        with pytest.raises((urllib.error.HTTPError, ConnectionError, urllib.error.URLError)):
            urllib.request.urlopen(request, context=lenient, timeout=30)
    tenants.bob.create(job_of("mine"))
    assert "Traceback" not in cluster.log("admission")


def test_jobs_of_a_hyperjob_name_the_user_who_submitted_it(cluster: Cluster, tenants: Tenants) -> None:
    alice = with_all_roles(tenants.alice)
    spec = {"replicatedJobs": [{"name": "a", "replicas": 1, "templateSpec": job_of("mine")["spec"]}]}
    hyper_job = {"apiVersion": "training.volcano.sh/v1alpha1", "kind": "HyperJob", "metadata": {"name": "mine"}, "spec": spec}
    alice.create(hyper_job)

    def submitters() -> set[str]:
        jobs = cluster.get("jobs.batch.volcano.sh", "-n", alice.namespace)["items"]
        return {job["metadata"].get("annotations", {}).get(SUBMITTED_BY, "") for job in jobs}

    wait_until(submitters, "the Job of the HyperJob")
    assert submitters() == {alice.user}
