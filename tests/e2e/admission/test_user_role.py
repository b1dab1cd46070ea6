"""The ClusterRole `pyroclast-user`: an account that has nothing else gets through a day of work, and no further."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.cli.test_vcctl import FLOW
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.shell import Shell

SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "code"}, "immutable": True, "stringData": {"a": "b"}}


class User(Shell):
    """A ServiceAccount at work."""

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:ann"


@pytest.fixture
def ann(cluster: Cluster, namespace: str, tmp_path: Path) -> User:
    """The programs as a ServiceAccount to which the role is bound in the test's namespace."""
    cluster.kubectl("create", "serviceaccount", "ann", "-n", namespace)
    account = f"--serviceaccount={namespace}:ann"
    cluster.kubectl("create", "rolebinding", "ann", "-n", namespace, "--clusterrole=pyroclast-user", account)
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.kubectl("create", "token", "ann", "-n", namespace).strip()
    document["users"] = [{"name": "ann", "user": {"token": token}}]
    for context in document["contexts"]:
        context["context"] |= {"namespace": namespace, "user": "ann"}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return User(path, namespace)


def test_a_user_submits_looks_suspends_resumes_and_deletes(cluster: Cluster, ann: User, tmp_path: Path) -> None:
    where = ("-n", ann.namespace)
    ann.said("vcctl", "job", "run", "-N", "mine", *where)
    wait_until(lambda: ann.phase("mine") == "Running", "the Job to run")
    assert "mine" in ann.said("vcctl", "job", "view", "-N", "mine", *where)
    assert "mine" in ann.said("vcctl", "running", *where)
    ann.said("vcctl", "logs", "mine", *where)
    ann.said("vcctl", "timeline", "mine", *where)
    ann.said("vcctl", "job", "suspend", "-N", "mine", *where)
    wait_until(lambda: ann.phase("mine") == "Aborted", "the Job to be suspended")
    assert "Suspended" in ann.said("vcctl", "explain", "mine", *where)
    ann.said("vcctl", "job", "resume", "-N", "mine", *where)
    wait_until(lambda: ann.phase("mine") == "Running", "the Job to go on")
    ann.said("vcctl", "job", "delete", "-N", "mine", *where)
    (tmp_path / "flow.yaml").write_text(FLOW)
    cluster.kubectl(f"--as={ann.user}", "create", "-f", str(tmp_path / "flow.yaml"), *where)
    wait_until(lambda: "step" in ann.said("vcctl", "tree", "etl", *where), "the flow to be seen")


def test_a_user_makes_secrets_and_lists_none(cluster: Cluster, ann: User) -> None:
    user, where = f"--as={ann.user}", ("-n", ann.namespace)
    cluster.kubectl(user, "create", "-f", "-", *where, stdin=json.dumps(SECRET))
    labels = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "code", "labels": {"job": "mine"}}}
    cluster.kubectl(user, "apply", "--server-side", "-f", "-", *where, stdin=json.dumps(labels))  # a patch without a look before
    assert cluster.get("secret", "code", "-n", ann.namespace)["metadata"]["labels"] == {"job": "mine"}
    for beyond in (("get", "secrets"), ("delete", "secret/code"), ("create", "configmap", "c"), ("delete", "pod/p")):
        assert "orbidden" in cluster.refused(user, *beyond, *where), beyond
