"""The API server takes every manifest that a page of the documentation shows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.newcomers.test_half_hour import clean_up
from tests.e2e.support.cluster import Cluster, KubectlError
from tests.unit.docs.test_links import FOUND


@pytest.mark.parametrize("page", FOUND)
def test_manifests_of_a_documentation_page_can_be_created(cluster: Cluster, namespace: str, page: str) -> None:
    shown = [each for each in FOUND[page] if "metadata" in each]  # others are files of programs, such as a kubeconfig
    objects = [{**each, "metadata": {**each["metadata"], "namespace": ""}} for each in shown]
    unserved = sorted({each["apiVersion"] for each in objects if not is_served(cluster, each["apiVersion"])})
    if unserved:
        pytest.skip(f"this control plane does not serve {', '.join(unserved)}")
    made = []
    for each in objects:
        if named(each) in map(named, made):  # the page shows it once more, with a change
            cluster.kubectl("apply", "--server-side", "--force-conflicts", "-n", namespace, "-f", "-", stdin=json.dumps(each))
        else:
            made += cluster.create(json.dumps(each), namespace)
    assert {named(each) for each in made} == {named(each) for each in objects}
    cluster.kubectl("annotate", "jobflow", "--all", "-n", namespace, "flow.volcano.sh/force-delete=true")
    cluster.kubectl("delete", "jobflow,cronjob.batch.volcano.sh,vcjob,job.batch", "--all", "-n", namespace)
    clean_up(cluster, objects)


def named(body: dict[str, Any]) -> tuple[str, str]:
    return body["kind"], body["metadata"]["name"]


def is_served(cluster: Cluster, api_version: str) -> bool:
    """Whether the API server knows the version of the group; that of Kubernetes itself it always does."""
    try:
        return "/" not in api_version or bool(cluster.kubectl("get", "--raw", f"/apis/{api_version}"))
    except KubectlError:
        return False
