"""The admission policies say what the webhooks say: the cases of the rules on a real API server without any webhook."""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from typing import Any

import pytest

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.keys import AUTHORIZED_FOR, QUEUE_BUDGET_SPENT
from pyroclast.api.types import (
    COMMANDS,
    CRDS,
    CRON_JOBS,
    JOB_FLOWS,
    JOBS,
    POD_GROUPS,
    PODS,
    QUEUES,
    Key,
    ResourceType,
)
from pyroclast.kube.basics.errors import ApiError
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.rules.policies import mutating_manifests, validating_manifests
from pyroclast.rules.policies.model import GROUP
from pyroclast.rules.policies.switched import commands_manifests
from pyroclast.rules.queues import default as default_queue
from pyroclast.rules.verdicts import applied
from tests.control_plane import build
from tests.e2e.support.server import real_server
from tests.unit.rules import test_arrays, test_flows, test_job_creation, test_job_update, test_other_kinds, test_queues
from tests.unit.rules.builders import job, task, template

CLUSTER_ROLES = ResourceType("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = ResourceType(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)

needs_server = pytest.mark.skipif(
    bool(build.missing(["etcd", "kube-apiserver", "kube-controller-manager"])),
    reason="the real control plane is not built: `make control-plane` needs Go",
)

NOT_COVERED = {
    "mpi without its master",
    "a queue that is not there",
    "a queue with children",
    "a state that is none to start with",
    "a path above another queue",
    "a ring",
    "a choice of nothing",
    "a longest pause below the first",
    "a choice of what comes before",
    "a round with the name of an entry",
    "a slip",
}
"""Cases that the page of uncovered rules is about; a state is dropped from a new object by the API server."""


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with our CRDs and policies."""
    with real_server(tmp_path_factory.mktemp("policies") / "real") as server:
        server.do(_install(str(server.kubeconfig)))
        yield str(server.kubeconfig)


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[Client]:
    async with Client(load_config(kubeconfig)) as client:
        yield client


async def _install(kubeconfig: str) -> None:
    async with Client(load_config(kubeconfig)) as client:
        for definition in custom_resource_definitions():
            await client.create(CRDS, definition)
        served = await client.request("GET", f"/apis/{GROUP}/v1")
        version = "v1" if b"mutatingadmissionpolicies" in served else "v1beta1"
        commands = commands_manifests(namespace="volcano-system", release="pyroclast")
        for manifest in [*validating_manifests(), *mutating_manifests(version=version), *commands]:
            await client.create(_type_of(manifest), manifest)
        await _until_active(client)


@needs_server
@pytest.mark.timeout(180)
async def test_admission_policies_match_webhook_verdicts_except_for_listed_cases(client: Client) -> None:
    cases = [
        *((JOBS, name, given, False) for name, given in test_job_creation.ALLOWED.items()),
        *((JOBS, name, case[0], True) for name, case in test_job_creation.REFUSED.items()),
        *((JOBS, name, given, False) for name, given in test_arrays.ALLOWED.items()),
        *((JOBS, name, given, True) for name, (given, _) in test_arrays.REFUSED.items()),
        (JOBS, "too many pods", job(task(replicas=50_001)), True),
        (JOBS, "as many pods as there may be", job(task(replicas=50_000)), False),
        (JOBS, "a node", job(task(template=template_of(nodeName="node-0"))), True),
        (JOBS, "another scheduler of pods", job(task(template=template_of(schedulerName="mine"))), True),
        (JOBS, "another scheduler", job(schedulerName="default-scheduler"), True),
        (POD_GROUPS, "sound", {"metadata": {"name": "p"}, "spec": {"minMember": 1, "minResources": {"cpu": "1"}}}, False),
        (POD_GROUPS, "the root queue", {"metadata": {"name": "p"}, "spec": {"queue": "root"}}, True),
        (POD_GROUPS, "below nothing", {"metadata": {"name": "p"}, "spec": {"minResources": {"cpu": "-1"}}}, True),
        (POD_GROUPS, "fewer than none", {"metadata": {"name": "p"}, "spec": {"minTaskMember": {"a": -1}}}, True),
        *((QUEUES, name, case[0], True) for name, case in test_queues.FIELDS.items()),
        *((JOB_FLOWS, name, case[0], bool(case[1])) for name, case in test_flows.GRAPHS.items()),
        *((CRON_JOBS, name, case[0], bool(case[1])) for name, case in test_other_kinds.CRON_JOBS.items()),
        *((PODS, name, _pod(case[0]), bool(case[1])) for name, case in test_other_kinds.BUDGETS.items()),
    ]
    wrong = []
    for kind, name, given, refused in cases:
        said = await _refusal(client, kind, given)
        if bool(said) is not (refused and name not in NOT_COVERED):
            wrong.append(f"{kind.kind}: {name}: {said or 'allowed'}")
    assert wrong == []


@needs_server
@pytest.mark.timeout(180)
async def test_admission_policies_refuse_invalid_job_updates_with_422(client: Client) -> None:
    wrong = []
    arrays = [
        (name, (test_arrays.changed(**array), test_arrays.BEFORE)) for name, (array, said) in test_arrays.CHANGES.items() if said
    ]
    plain = [(name, (case[0], test_job_update.OLD)) for name, case in test_job_update.REFUSED.items()]
    for number, (name, case) in enumerate([*plain, *arrays]):
        new, old = map(deepcopy, case)
        for each in (old, new):
            each |= {"apiVersion": JOBS.api_version, "kind": "Job"}
            each["metadata"] = {"name": f"j-{number}", "namespace": "default"}
        stored = await client.create(JOBS, old)
        new["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        try:
            await client.update(JOBS, new)
            wrong.append(f"{name}: allowed")
        except ApiError as error:
            if error.status != 422:
                wrong.append(f"{name}: {error}")
    assert wrong == []


@needs_server
@pytest.mark.timeout(180)
async def test_mutating_admission_policies_set_the_same_queue_defaults_as_the_webhook(client: Client) -> None:
    for before, after in test_queues.DEFAULTS.values():
        given = {**deepcopy(before), "metadata": {**before.get("metadata", {}), "name": "q"}}
        if isinstance(before.get("spec", {}).get("weight"), float):
            continue  # the schema refuses it
        stored = await client.create(QUEUES, {"apiVersion": QUEUES.api_version, "kind": "Queue", **given}, dry_run=True)
        assert {key: stored["spec"][key] for key in after["spec"]} == after["spec"]
        assert stored["metadata"].get("annotations") == after.get("metadata", {}).get("annotations")
        assert default_queue(stored) == []
        assert applied(stored, []) == stored


@needs_server
async def test_admission_policy_lets_only_the_recorder_write_the_budget_spent_annotation(client: Client) -> None:
    name = f"budget-{secrets.token_hex(3)}"
    body = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": {}}
    spent = {"metadata": {"annotations": {QUEUE_BUDGET_SPENT: "{}"}}}
    said = await _refusal(client, QUEUES, {**body, "metadata": {"name": name, **spent["metadata"]}})
    assert "the recorder writes it; leave it as it is" in said
    await client.create(QUEUES, body)
    try:
        with pytest.raises(ApiError, match="the recorder writes it"):
            await client.patch(QUEUES, Key("", name), spent, PatchKind.MERGE)
        await client.patch(QUEUES, Key("", name), {"metadata": {"annotations": {"a": "b"}}}, PatchKind.MERGE)
    finally:
        await client.delete(QUEUES, Key("", name))


@needs_server
async def test_command_needs_the_right_to_update_its_target_and_bears_no_forged_mark(client: Client, kubeconfig: str) -> None:
    for kind, name, rules in (
        (CLUSTER_ROLES, "submits-commands", [(COMMANDS.group, COMMANDS.plural, ["create", "update", "get"])]),
        (CLUSTER_ROLES, "updates-queues", [(QUEUES.group, QUEUES.plural, ["update"])]),
    ):
        listed = [{"apiGroups": [group], "resources": [plural], "verbs": verbs} for group, plural, verbs in rules]
        await client.create(
            kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "rules": listed}
        )
    for role, users in (("submits-commands", ("alice", "ops")), ("updates-queues", ("ops",))):
        subjects = [{"apiGroup": CLUSTER_ROLES.group, "kind": "User", "name": user} for user in users]
        reference = {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": role}
        body = {"apiVersion": CLUSTER_ROLES.api_version, "kind": "ClusterRoleBinding", "metadata": {"name": role}}
        await client.create(CLUSTER_ROLE_BINDINGS, {**body, "roleRef": reference, "subjects": subjects})

    async def told(user: str, uid: str = "u-1", mark: str = "", kind: str = "Queue") -> str:
        body = {
            "apiVersion": COMMANDS.api_version,
            "kind": "Command",
            "metadata": {
                "generateName": "c-",
                "namespace": "default",
                **({"annotations": {AUTHORIZED_FOR: mark}} if mark else {}),
            },
            "action": "CloseQueue",
            "target": {"apiVersion": QUEUES.api_version, "kind": kind, "name": "default", "uid": uid},
        }
        command = ("kubectl", "--kubeconfig", kubeconfig, "--as", user, "create", "-f", "-", "-o", "json")
        done = await asyncio.to_thread(
            subprocess.run, command, input=json.dumps(body), capture_output=True, text=True, check=False
        )
        return json.loads(done.stdout)["metadata"]["annotations"][AUTHORIZED_FOR] if not done.returncode else done.stderr

    async with asyncio.timeout(30):  # the server takes up roles a moment after they are made
        while (answer := await told("ops")) != "u-1/CloseQueue":
            await asyncio.sleep(0.5)
    assert answer == "u-1/CloseQueue"
    assert await told("ops", mark="u-1/OpenQueue") == "u-1/CloseQueue"
    for mark in ("", "u-1/CloseQueue"):
        assert "a Command needs the verb update on its target" in await told("alice", mark=mark)
    assert "names the kind (Job or Queue), name and uid" in await told("ops", uid="")
    assert "a Command needs the verb update on its target" in await told("ops", kind="Job")


def template_of(**spec: Any) -> dict[str, Any]:
    """A pod template with these fields."""
    return {"spec": {**template()["spec"], **spec}}


def _pod(annotations: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": "p", "annotations": annotations}, "spec": {"schedulerName": "volcano", **template()["spec"]}}


async def _refusal(client: Client, kind: ResourceType, given: dict[str, Any]) -> str:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **deepcopy(given)}
    body.pop("status", None)
    if kind.namespaced:
        body["metadata"]["namespace"] = "default"
    try:
        await client.create(kind, body, dry_run=True)
    except ApiError as error:
        return f"{error.status} {error.message}"
    return ""


def _type_of(manifest: dict[str, Any]) -> ResourceType:
    kind = manifest["kind"]
    plural = f"{kind.lower()}s" if kind.endswith("Binding") else kind.lower().replace("policy", "policies")
    return ResourceType(GROUP, manifest["apiVersion"].partition("/")[2], plural, kind, namespaced=False)


async def _until_active(client: Client) -> None:
    """The server takes up policies a moment after they are made."""
    async with asyncio.timeout(60):
        while not await _refusal(client, JOBS, {"metadata": {"name": "j"}, "spec": {}}):
            await asyncio.sleep(0.2)
        while not await _refusal(client, PODS, _pod({"volcano.sh/jdb-min-available": "x"})):
            await asyncio.sleep(0.2)
    await asyncio.sleep(1.0)
