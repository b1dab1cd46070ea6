"""Least rights, judged from the audit log of the whole run: no service is denied anything, no role grants what is not used.

Runs after all other end-to-end tests, as those are what the roles must be good for.
"""

from __future__ import annotations

import os

import pytest

from tests.e2e.cluster import Cluster

ACCOUNTS = ["admission", "controllers", "jobflow", "nodes", "scheduler"]
PREFIX = "system:serviceaccount:pyroclast-system:pyroclast-"

RARE = {
    "controllers": {
        ("", "persistentvolumeclaims", "get"): "asked after a create whose answer was lost",
        ("apps", "replicasets", "get"): "asked about the owner of a pod that is seen before it",
        ("apps", "statefulsets", "get"): "asked about the owner of a pod that is seen before it",
        ("batch", "jobs", "get"): "asked about the owner of a pod that is seen before it",
        ("batch.volcano.sh", "jobs", "get"): "asked by a CronJob whose Job is there already",
        ("scheduling.volcano.sh", "podgroups", "get"): "asked after a create whose answer was lost",
    },
    "jobflow": {("batch.volcano.sh", "jobs", "get"): "asked after a create whose answer was lost"},
    "scheduler": {
        ("", "pods", "get"): "asked after a bind whose answer was lost",
        ("resource.k8s.io", "resourceclaims/binding", "patch"): "asked of whoever writes the status of a claim",
        ("", "persistentvolumes", "patch"): "asked when a claim gets a volume that is there, and no controller was faster",
        ("custom.metrics.k8s.io", "nodes/node_cpu_usage_avg", "get"): "asked where an adaptor serves measurements",
        ("custom.metrics.k8s.io", "nodes/node_memory_usage_avg", "get"): "asked where an adaptor serves measurements",
    },
}
"""Rights for what no test can bring about at will, and why they are needed."""

pytestmark = pytest.mark.last

Right = tuple[str, str, str]  # group, resource or resource/subresource, verb


def used(cluster: Cluster, account: str) -> set[Right]:
    rights = set()
    for event in [*cluster.audit(), *cluster.audit(stage="ResponseStarted")]:
        reference = event.get("objectRef")
        if event["user"]["username"] != PREFIX + account or not reference:
            continue
        resource = "/".join(filter(None, [reference["resource"], reference.get("subresource")]))
        group = reference.get("apiGroup", "")
        rights.add((group, resource, event["verb"]))
        if event["verb"] == "watch" and "sendInitialEvents" in event["requestURI"]:
            rights.add((group, resource, "list"))  # what a server without streaming lists is asked for
    return rights


def granted(cluster: Cluster, account: str) -> set[Right]:
    """What the roles bound to the account allow."""
    rights = set()
    for scope in ("clusterrole", "role"):
        for binding in cluster.get(f"{scope}bindings", "-A" if scope == "role" else "--show-kind")["items"]:
            if not any(subject["name"] == f"pyroclast-{account}" for subject in binding.get("subjects", [])):
                continue
            namespace = ["-n", binding["metadata"]["namespace"]] if scope == "role" else []
            role = cluster.get(f"{scope}s", binding["roleRef"]["name"], *namespace)
            for rule in role["rules"]:
                for group in rule.get("apiGroups", []):
                    rights |= {(group, resource, verb) for resource in rule["resources"] for verb in rule["verbs"]}
    return rights


@pytest.mark.parametrize("account", ACCOUNTS)
def test_nothing_is_denied(cluster: Cluster, account: str) -> None:
    """A 403 for another reason (a namespace that ends, a full quota) is no matter of rights: the authorizer allowed it."""
    denied = {
        (event["verb"], event["requestURI"].partition("?")[0])
        for event in cluster.audit()
        if event["user"]["username"] == PREFIX + account
        and event["annotations"]["authorization.k8s.io/decision"] == "forbid"
        and cluster.was_ready(event["requestReceivedTimestamp"])
    }
    assert denied == set()


@pytest.mark.parametrize("account", ACCOUNTS)
def test_nothing_is_granted_in_vain(cluster: Cluster, account: str) -> None:
    if not os.environ.get("PYROCLAST_WHOLE_E2E"):
        pytest.skip("judged after a whole run of the end-to-end tests only: `make test`, `make test-real`")
    rights = granted(cluster, account)
    assert rights, f"no role is bound to pyroclast-{account}"
    assert rights - used(cluster, account) - RARE.get(account, {}).keys() == set()
