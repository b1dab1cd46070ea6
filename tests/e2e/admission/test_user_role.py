"""The ClusterRole `pyroclast-user`: an account that has nothing else gets through a day of work, and no further."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyroclast.client as pc
from tests.e2e.cli import test_vcctl_transcript as transcript
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.tenants import User, user_of, with_role

FLOW = f"{transcript.TEMPLATE}---{transcript.FLOW}".replace(", namespace: NAMESPACE", "").replace("QUEUE", "default")

CONTAINER = {"name": "main", "image": "any", "command": ["sh", "-c", "echo hello; sleep 600"]}
TEMPLATE = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [CONTAINER]}}
MANIFEST = {"spec": {"tasks": [{"name": "main", "replicas": 1, "template": TEMPLATE}]}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "code"}, "immutable": True, "stringData": {"a": "b"}}

Right = tuple[str, str, str]
RARE: dict[Right, str] = {
    ("scheduling.volcano.sh", "podgroups", "get"): "asked about a group that the watch has not shown yet",
    ("scheduling.volcano.sh", "queues", "get"): "asked by `vcctl queue get` and `kubectl get queue NAME`",
    ("batch.volcano.sh", "jobs", "update"): "admission asks for it when the user creates a Command",
}


@pytest.fixture
def ann(cluster: Cluster, namespace: str, tmp_path: Path) -> User:
    """A user to whom the role is bound in the test's namespace."""
    return with_role(user_of(cluster, namespace, tmp_path))


@pytest.fixture
def ann_everywhere(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[User]:
    """A user to whom the role is bound in all namespaces."""
    user = user_of(cluster, namespace, tmp_path)
    account = f"--serviceaccount={namespace}:ann"
    cluster.kubectl("create", "clusterrolebinding", namespace, "--clusterrole=pyroclast-user", account)
    yield user
    cluster.kubectl("delete", "clusterrolebinding", namespace)


def test_user_role_permits_submitting_viewing_suspending_resuming_and_deleting_jobs(
    cluster: Cluster, ann: User, tmp_path: Path
) -> None:
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


def test_user_role_permits_creating_and_patching_secrets_but_not_reading_or_deleting_them(cluster: Cluster, ann: User) -> None:
    user, where = f"--as={ann.user}", ("-n", ann.namespace)
    cluster.kubectl(user, "create", "-f", "-", *where, stdin=json.dumps(SECRET))
    labels = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "code", "labels": {"job": "mine"}}}
    cluster.kubectl(user, "apply", "--server-side", "-f", "-", *where, stdin=json.dumps(labels))  # a patch without a look before
    assert cluster.get("secret", "code", "-n", ann.namespace)["metadata"]["labels"] == {"job": "mine"}
    for beyond in (("get", "secrets"), ("delete", "secret/code"), ("create", "configmap", "c"), ("delete", "pod/p")):
        assert "orbidden" in cluster.refused(user, *beyond, *where), beyond


step = pc.task(cpu="100m")(int)


@pc.flow
def steps() -> None:
    step.after(step())()


def submits_and_directs(client: pc.Client) -> str:
    """What the client asks of a server, call by call; the manifests of a flow."""
    with client:
        job = client.submit(step.call()).wait(100, check=False)
        job = client.submit(MANIFEST, name="directed").wait(100, "placed").wait(100, "running")
        job.scale(2)
        assert str(job.explain())
        assert job.name in {each.name for each in client.jobs()}
        assert client.queues()
        next(job.logs(follow=True))
        job.logs()
        job.cancel()
        assert [event.reason for event in job.events() if event.kind == "phase"][-1] == "Terminated"
        job.delete()
        flow = client.submit(steps.call())
        assert client.flow(flow.name).name == flow.name
        flow.cancel()
        flow.delete()
        return steps.to_yaml()


def rights_used(cluster: Cluster, user: str) -> set[Right]:
    """What the user was allowed: group, resource or resource/subresource, and verb."""
    used = set()
    for event in cluster.audit.events("ResponseStarted", "ResponseComplete"):
        about = event.get("objectRef")
        if about and event["user"]["username"] == user and event["annotations"]["authorization.k8s.io/decision"] == "allow":
            resource = "/".join(filter(None, [about["resource"], about.get("subresource")]))
            used.add((about.get("apiGroup", ""), resource, event["verb"]))
    return used


def test_user_role_grants_no_unused_permission(cluster: Cluster, ann_everywhere: User, tmp_path: Path) -> None:
    ann = ann_everywhere
    where = ("-n", ann.namespace)
    manifests = tmp_path / "steps.yaml"
    client = pc.Client(namespace=ann.namespace, image="any", kubeconfig=ann.environment["KUBECONFIG"])
    manifests.write_text(submits_and_directs(client))
    ann.said("kubectl", "apply", "--server-side", "-f", str(manifests))
    ann.said("vcctl", "job", "run", "-N", "seen", *where)
    ann.said("vcctl", "wait", "seen", "--for", "Running", *where)
    for kind, document in zip(("jobtemplate", "jobflow"), FLOW.split("---"), strict=True):
        document = document.replace("metadata: {", f"metadata: {{namespace: {ann.namespace}, ")
        (tmp_path / kind).write_text(document)
        ann.said("vcctl", kind, "create", "-f", str(tmp_path / kind))
        ann.said("vcctl", kind, "list", *where)
    ann.said("vcctl", "job", "view", "-N", "seen", *where)
    role = cluster.get("clusterrole", "pyroclast-user")
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    def unused() -> list[Right]:
        found = sorted(granted - rights_used(cluster, ann.user) - RARE.keys())
        print("not used yet:", found)
        return found

    with contextlib.ExitStack() as stack:
        for view in (["waiting"], ["queues"], ["tree", "etl"], ["timeline", "seen"]):
            stack.enter_context(ann.watching(*view))
        pods = cluster.get("pods", "-n", ann.namespace, "-l", "volcano.sh/job-name=seen")["items"]
        ann.said("kubectl", "logs", pods[0]["metadata"]["name"])
        ann.said("kubectl", "delete", "jobtemplate/step")
        wait_until(lambda: not unused(), "each right to be used", seconds=20)
