"""What our ServiceAccounts may not do although their roles allow the verb: admission policies hold them to objects of ours."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest

from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.errors import Forbidden
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from tests.e2e.support.cluster import Cluster, KubectlError, wait_until
from tests.unit.chart.accounts import ATTEMPTS, FLOW_UID, UID, Attempt

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


@pytest.fixture(scope="module")
def owners(cluster: Cluster) -> dict[str, str]:
    """A Job and a JobFlow, without which the garbage collector would delete what the rows say that they own."""
    spec = {
        "schedulerName": "volcano",
        "tasks": [{"replicas": 1, "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}],
    }
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "owner"}, "spec": spec}
    flow = {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "owner"},
        "spec": {"flows": [{"name": "a"}]},
    }
    made = (cluster.create(json.dumps(each), NAMESPACE)[0] for each in (job, flow))
    return {known: str(each["metadata"]["uid"]) for known, each in zip((UID, FLOW_UID), made, strict=True)}


async def refusal_of(cluster: Cluster, attempt: Attempt) -> str:
    """What the API server tells the account of the attempt, after an administrator made the object that it is about."""
    config = load_config(str(cluster.kubeconfig))
    account = f"system:serviceaccount:pyroclast-system:pyroclast-{attempt.account}"
    resource, _, subresource = attempt.resource.partition("/")
    body = attempt.new or attempt.old or {}
    group, _, version = body["apiVersion"].rpartition("/")
    kind = ResourceType(group, version, resource, body["kind"], resource not in {"queues", "persistentvolumes"})
    namespace = (attempt.namespace or NAMESPACE) if kind.namespaced else ""
    key = Key(namespace, f"strange-{secrets.token_hex(3)}")
    body = {**body, "metadata": {**body["metadata"], "namespace": namespace, "name": key.name}}
    how = PatchKind.STRATEGIC if "containers" in (attempt.patch or {}).get("spec", {}) else PatchKind.MERGE
    async with Client(config) as admin, Client(replace(config, impersonation=(("Impersonate-User", account),))) as thief:
        if attempt.old is not None:
            await admin.create(kind, body)
        try:
            if attempt.operation == "CREATE":
                await thief.create(kind, body)
            elif attempt.operation == "DELETE":
                await thief.delete(kind, key)
            else:
                await thief.patch(kind, key, attempt.patch, how, subresource=subresource)
        except Forbidden as error:
            return error.message
        finally:
            if attempt.old is not None:
                await admin.delete(kind, key, grace_seconds=0)
    return ""


@pytest.mark.parametrize("attempt", [each for each in ATTEMPTS if each.want], ids=lambda each: f"{each.account}: {each.words}")
async def test_stolen_token_of_a_service_does_no_more_than_the_service(
    cluster: Cluster, owners: dict[str, str], attempt: Attempt
) -> None:
    text = json.dumps(asdict(attempt))
    for known, uid in owners.items():
        text = text.replace(known, uid)
    real = Attempt(**json.loads(text))
    assert attempt.want in await refusal_of(cluster, real)


def test_role_of_the_controllers_allows_a_delete_that_admission_policies_refuse(cluster: Cluster) -> None:
    """Otherwise the refusals above would tell of nothing."""
    assert cluster.kubectl("auth", "can-i", "delete", "configmaps", "-n", "kube-system", f"{ACCOUNT}controllers").strip() == "yes"
