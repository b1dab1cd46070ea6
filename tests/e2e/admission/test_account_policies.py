"""What our ServiceAccounts may not do although their roles allow the verb: admission policies hold them to objects of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.support.cluster import Cluster, KubectlError, wait_until
from tests.unit.chart.accounts import ATTEMPTS, Attempt

ACCOUNT = "--as=system:serviceaccount:pyroclast-system:pyroclast-"
NAMESPACE = "stolen-tokens"
CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: strange, namespace: kube-system}
"""


@pytest.fixture(scope="module", autouse=True)
def in_force(cluster: Cluster) -> Iterator[None]:
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
    cluster.make_namespace(NAMESPACE)
    yield
    cluster.delete_namespace(NAMESPACE)


@pytest.mark.parametrize("attempt", [each for each in ATTEMPTS if each.want], ids=lambda each: f"{each.account}: {each.words}")
def test_stolen_token_of_a_service_does_no_more_than_the_service(cluster: Cluster, attempt: Attempt) -> None:
    where, account = ("-n", attempt.namespace or NAMESPACE), ACCOUNT + attempt.account
    if attempt.old is None:
        assert attempt.want in cluster.refused("create", "-f", "-", account, *where, stdin=json.dumps(attempt.new))
        return
    about = (attempt.resource.partition("/")[0], attempt.old["metadata"]["name"], *where)
    cluster.kubectl("create", "-f", "-", *where, stdin=json.dumps(attempt.old))
    try:
        if attempt.patch is None:
            said = cluster.refused("delete", *about, account)
        else:
            subresource = ("--subresource=status",) if attempt.resource.endswith("/status") else ()
            said = cluster.refused("patch", *about, "--type=merge", *subresource, account, "-p", json.dumps(attempt.patch))
        assert attempt.want in said
    finally:
        cluster.kubectl("delete", *about, "--force", "--grace-period=0")


def test_role_of_the_controllers_allows_a_delete_that_admission_policies_refuse(cluster: Cluster) -> None:
    """Otherwise the refusals above would tell of nothing."""
    assert cluster.kubectl("auth", "can-i", "delete", "configmaps", "-n", "kube-system", f"{ACCOUNT}controllers").strip() == "yes"
