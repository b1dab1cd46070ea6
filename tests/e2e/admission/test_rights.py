"""Least rights, judged from the audit logs of the whole run: no service is denied anything, no role grants what is not used.

Runs after all other end-to-end tests, as those are what the roles must be good for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.e2e.support.cluster import Cluster
from tests.e2e.support.workers import OTHERS_SECONDS, audits_of_others

ACCOUNTS = ["admission", "board", "controllers", "jobflow", "nodes", "recorder", "scheduler"]
PREFIX = "system:serviceaccount:pyroclast-system:pyroclast-"

RARE = {
    "admission": {
        ("batch.volcano.sh", "jobs", "list"): "asked where a queue limits the waiting Jobs of a person",
        ("batch.volcano.sh", "jobs", "watch"): "asked where a queue limits the waiting Jobs of a person",
    },
    "controllers": {
        ("", "persistentvolumeclaims", "get"): "asked after a create whose answer was lost",
        ("apps", "replicasets", "get"): "asked about the owner of a pod that is seen before it",
        ("apps", "statefulsets", "get"): "asked about the owner of a pod that is seen before it",
        ("batch", "jobs", "get"): "asked about the owner of a pod that is seen before it",
        ("batch.volcano.sh", "jobs", "get"): "asked by a CronJob whose Job is there already",
        ("scheduling.volcano.sh", "podgroups", "get"): "asked after a create whose answer was lost",
    },
    "board": {
        ("authentication.k8s.io", "tokenreviews", "create"): "asked where somebody on another machine looks",
        ("authorization.k8s.io", "subjectaccessreviews", "create"): "asked where somebody on another machine looks",
        ("scheduling.k8s.io", "podgroups", "list"): "asked where the API server has PodGroups of its own",
        ("scheduling.k8s.io", "podgroups", "watch"): "asked where the API server has PodGroups of its own",
    },
    "jobflow": {("batch.volcano.sh", "jobs", "get"): "asked after a create whose answer was lost"},
    "recorder": {
        ("authentication.k8s.io", "tokenreviews", "create"): "asked where somebody on another machine reads history",
        ("authorization.k8s.io", "subjectaccessreviews", "create"): "asked where somebody on another machine reads history",
        ("scheduling.k8s.io", "podgroups", "list"): "asked where the API server has PodGroups of its own",
        ("scheduling.k8s.io", "podgroups", "watch"): "asked where the API server has PodGroups of its own",
        ("scheduling.k8s.io", "compositepodgroups", "list"): "asked where the API server has groups of PodGroups",
        ("scheduling.k8s.io", "compositepodgroups", "watch"): "asked where the API server has groups of PodGroups",
        ("batch", "jobs", "list"): "asked where the API server has PodGroups of its own",
        ("batch", "jobs", "watch"): "asked where the API server has PodGroups of its own",
        ("scheduling.volcano.sh", "queues", "patch"): "asked where a queue has a budget, or past usage is written to queues",
        ("", "events", "patch"): "asked when it tells of the same thing again",
    },
    "scheduler": {
        ("authentication.k8s.io", "tokenreviews", "create"): "asked where somebody elsewhere asks why a Job waits",
        ("authorization.k8s.io", "subjectaccessreviews", "create"): "asked where somebody elsewhere asks why a Job waits",
        ("", "pods", "get"): "asked after a bind whose answer was lost",
        ("resource.k8s.io", "resourceclaims/binding", "patch"): "asked of whoever writes the status of a claim",
        ("", "persistentvolumes", "patch"): "asked when a claim gets a volume that is there, and no controller was faster",
        ("", "configmaps", "list"): "asked where plugin deviceshare shares cards",
        ("", "configmaps", "watch"): "asked where plugin deviceshare shares cards",
        ("scheduling.k8s.io", "podgroups", "list"): "asked where the API server has PodGroups of its own",
        ("scheduling.k8s.io", "podgroups", "watch"): "asked where the API server has PodGroups of its own",
        ("scheduling.k8s.io", "podgroups/status", "patch"): "asked where the API server has PodGroups of its own",
        ("scheduling.k8s.io", "compositepodgroups", "list"): "asked where the API server has groups of PodGroups",
        ("scheduling.k8s.io", "compositepodgroups", "watch"): "asked where the API server has groups of PodGroups",
        ("scheduling.k8s.io", "compositepodgroups/status", "patch"): "asked where the API server has groups of PodGroups",
        ("batch", "jobs", "list"): "asked where the API server has PodGroups of its own",
        ("batch", "jobs", "watch"): "asked where the API server has PodGroups of its own",
        ("custom.metrics.k8s.io", "nodes/node_cpu_usage_avg", "get"): "asked where an adaptor serves measurements",
        ("custom.metrics.k8s.io", "nodes/node_memory_usage_avg", "get"): "asked where an adaptor serves measurements",
    },
}
"""Rights for what no test can bring about at will, and why they are needed."""

pytestmark = [pytest.mark.last, pytest.mark.timeout(OTHERS_SECONDS + 120)]

Right = tuple[str, str, str]  # group, resource or resource/subresource, verb


@dataclass(slots=True)
class Asked:
    """What an account made use of, and what it was denied: verbs and paths."""

    used: set[Right] = field(default_factory=set)
    denied: set[tuple[str, str]] = field(default_factory=set)

    def add(self, event: dict[str, Any], *, was_ready: bool) -> None:
        """A 403 for another reason (a namespace that ends, a full quota) is no matter of rights: the authorizer allowed it."""
        is_complete = event["stage"] == "ResponseComplete"
        if is_complete and was_ready and event["annotations"]["authorization.k8s.io/decision"] == "forbid":
            self.denied.add((event["verb"], event["requestURI"].partition("?")[0]))
        if reference := event.get("objectRef"):
            resource = "/".join(filter(None, [reference["resource"], reference.get("subresource")]))
            self.used.add((reference.get("apiGroup", ""), resource, event["verb"]))
            if event["verb"] == "watch" and "sendInitialEvents" in event["requestURI"]:
                self.used.add((reference.get("apiGroup", ""), resource, "list"))  # what a server without streaming lists is asked


@pytest.fixture(scope="module")
def asked(cluster: Cluster, request: pytest.FixtureRequest) -> dict[str, Asked]:
    """What each account asked of the control plane that is shared here, and of those of all other workers."""
    accounts = {PREFIX + account: Asked() for account in ACCOUNTS}
    for audit in [cluster.audit, *audits_of_others(request.config)]:
        for event in audit.events("ResponseStarted", "ResponseComplete"):
            if account := accounts.get(event["user"]["username"]):
                account.add(event, was_ready=audit.was_ready(event["requestReceivedTimestamp"]))
    return {name.removeprefix(PREFIX): account for name, account in accounts.items()}


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
def test_service_account_makes_no_request_that_rbac_denies(asked: dict[str, Asked], account: str) -> None:
    assert asked[account].denied == set()


@pytest.mark.parametrize("account", ACCOUNTS)
def test_role_of_a_service_grants_no_unused_permission(cluster: Cluster, asked: dict[str, Asked], account: str) -> None:
    if not os.environ.get("PYROCLAST_WHOLE_E2E") or os.environ.get("PYROCLAST_LEFT_OUT"):
        pytest.skip("judged after a whole run of the end-to-end tests only: `make test-embedded`, `make test-real`")
    rights = granted(cluster, account)
    assert rights, f"no role is bound to pyroclast-{account}"
    assert rights - asked[account].used - RARE.get(account, {}).keys() == set()
