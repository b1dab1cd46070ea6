"""What our controllers create by the rules of the webhooks is what the API server would have made of it with them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.records import Queue
from pyroclast.api.types import COMMANDS, CRDS, JOBS, QUEUES, Key
from pyroclast.kube.basics.errors import ApiError, NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.watch.informer import Informer
from pyroclast.rules import commands, jobs, pods
from pyroclast.rules.lookups import QueueView
from pyroclast.rules.verdicts import applied
from pyroclast.runtime.in_process.creation import COMMANDS_VALIDATE, PODS_MUTATE, PODS_VALIDATE, commands_checked, pods_checked
from pyroclast.runtime.in_process.jobs import PATHS, JobCreator
from pyroclast.runtime.in_process.queues import QueueCache
from pyroclast.runtime.traces import ANNOTATION, Traces, context_of
from tests.unit.running import running_server

NS = "default"
WRITER = "a-controller"
CONTAINER = {"name": "c", "image": "busybox", "ports": [{"containerPort": 1}]}
TASK = {"replicas": 2, "template": {"spec": {"containers": [CONTAINER]}}}
SPECS: dict[str, dict[str, Any]] = {
    "bare": {"tasks": [TASK]},
    "full": {"queue": "default", "schedulerName": "mine", "maxRetry": 7, "minAvailable": 1, "tasks": [{"name": "t", **TASK}]},
    "zeros": {"maxRetry": 0, "minAvailable": 0, "tasks": [{"maxRetry": 0, **TASK}]},
    "plugins": {"plugins": {"mpi": []}, "tasks": [{"name": "master", **TASK}, {"name": "worker", **TASK}]},
    "partitions": {"tasks": [{**TASK, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 1}}]},
    "topology": {"networkTopology": {"highestTierAllowed": 1}, "tasks": [TASK]},
    "host network": {
        "tasks": [{"replicas": 1, "template": {"spec": {"hostNetwork": True, "containers": [{"name": "c", "image": "busybox"}]}}}]
    },
}
QUEUE_STATES = {"root": "Open", "default": "Open", "closed": "Closed"}
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
REFUSED: dict[str, dict[str, Any]] = {
    "no queue": {"queue": "nowhere", "tasks": [TASK]},
    "closed": {"queue": "closed", "tasks": [TASK]},
    "too few": {"minAvailable": 9, "tasks": [TASK]},
    "no plugin": {"plugins": {"teleport": []}, "tasks": [TASK]},
}


class Queues(dict[str, QueueView]):
    """All that there are, without any below another."""

    def __init__(self, views: Iterable[QueueView]) -> None:
        super().__init__({view.name: view for view in views})

    def children(self, name: str) -> Sequence[QueueView]:
        return ()

    def all(self) -> Sequence[QueueView]:
        return list(self.values())


@asynccontextmanager
async def api_server() -> AsyncIterator[Client]:
    """The client of an API server with three queues and no webhooks."""
    async with running_server() as server, Client(load_config(str(server.kubeconfig)), user_agent=WRITER) as client:
        for definition in custom_resource_definitions():
            if definition["spec"]["names"]["kind"] in {"Job", "Queue", "Command"}:
                await client.create(CRDS, definition)
        await server.settle()
        for name, state in QUEUE_STATES.items():
            body = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}}
            await client.create(QUEUES, body)
            await client.patch(QUEUES, Key("", name), {"status": {"state": state}}, PatchKind.MERGE, subresource="status")
        yield client


def job(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": {"name": name, "namespace": NS}, "spec": spec}


def creator(client: Client, traces: Traces | None = None, **options: Any) -> JobCreator:
    """One whose cache has seen nothing yet."""
    queues = QueueCache(Informer(client, QUEUES, Queue))
    options = {"webhooks": PATHS, "exempt": (), "scheduler": "volcano", **options}
    return JobCreator(client, queues, traces or Traces("test"), **options)


async def test_a_job_created_in_process_equals_a_job_mutated_by_the_webhook() -> None:
    async with api_server() as client:
        for index, spec in enumerate(SPECS.values()):
            ours = await creator(client).create(job(f"ours-{index}", spec))
            plain = await client.create(JOBS, job(f"plain-{index}", spec))
            assert ours["spec"] == applied(plain, jobs.default(plain))["spec"]
            said = [{**each, "time": ""} for each in ours["metadata"]["managedFields"]]
            assert [(each["manager"], each["operation"]) for each in said] == [(WRITER, "Update")], "named as without the option"
            await client.delete(JOBS, Key(NS, f"ours-{index}"))


@pytest.mark.parametrize("fault", REFUSED)
async def test_a_job_denied_in_process_is_refused_with_the_message_of_the_webhook(fault: str) -> None:
    manifest = job("j", REFUSED[fault])
    async with api_server() as client:
        queues = Queues(QueueView(name, state=state) for name, state in QUEUE_STATES.items())
        verdict = jobs.validate_create(applied(manifest, jobs.default(manifest)), queues)
        with pytest.raises(ApiError) as refused:
            await creator(client).create(manifest)
        assert refused.value.message == f'admission webhook "validatejob.volcano.sh" denied the request: {verdict.sentence}'
        assert (refused.value.status == 422) is bool(verdict.causes)
        with pytest.raises(NotFound):
            await client.get(JOBS, Key(NS, "j"))


@pytest.mark.parametrize("options", [{"webhooks": ()}, {"exempt": (NS,)}])
async def test_a_job_is_sent_unchanged_without_in_process_rules_or_in_an_exempt_namespace(options: dict[str, Any]) -> None:
    async with api_server() as client:
        made = await creator(client, **options).create(job("j", REFUSED["no plugin"]))
        assert "schedulerName" not in made["spec"]


async def test_creating_a_job_starts_a_trace_unless_the_job_carries_one() -> None:
    async with api_server() as client:
        traces = Traces("test", "http://127.0.0.1:9")
        begun = await creator(client, traces).create(job("a", SPECS["bare"]))
        carrying = job("b", SPECS["bare"])
        carrying["metadata"]["annotations"] = {ANNOTATION: OTHER}
        assert context_of(begun["metadata"]["annotations"])
        assert (await creator(client, traces).create(carrying))["metadata"]["annotations"] == {ANNOTATION: OTHER}
        traces.close()


async def test_pods_and_commands_are_validated_in_process_only_when_configured() -> None:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": NS, "annotations": {"volcano.sh/jdb-min-available": "0"}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "busybox"}]},
    }
    command = {
        "apiVersion": COMMANDS.api_version,
        "kind": "Command",
        "metadata": {"name": "c", "namespace": NS},
        "action": "Dance",
        "target": {"apiVersion": JOBS.api_version, "kind": "Job", "name": "j", "uid": "u"},
    }
    async with api_server() as client:
        of_pods, of_commands = pods.validate_create(pod, ["volcano"]), commands.validate(command)
        for webhooks, is_refused in (((PODS_VALIDATE, COMMANDS_VALIDATE), True), ((), False)):
            for creates, body, verdict in (
                (pods_checked(client, webhooks, (), ["volcano"]), pod, of_pods),
                (commands_checked(client, webhooks, ()), command, of_commands),
            ):
                if not is_refused:
                    assert (await creates.create(body))["metadata"]["uid"]
                    continue
                with pytest.raises(ApiError) as refused:
                    await creates.create(body)
                assert refused.value.message.endswith(f"denied the request: {verdict.sentence}")


class Noting:
    """Stands for the API server: with which writer pods were created."""

    user_agent = "us"

    def __init__(self) -> None:
        self.writers: list[str | None] = []

    async def create(self, *_: object, field_manager: str | None = None, **__: object) -> dict[str, Any]:
        self.writers.append(field_manager)
        return {}


@pytest.mark.parametrize(
    ("annotations", "webhooks", "writer"),
    [
        pytest.param({}, (PODS_VALIDATE, PODS_MUTATE), "us", id="plain"),
        pytest.param({"volcano.sh/resource-group": "a"}, (PODS_VALIDATE, PODS_MUTATE), None, id="asks for a group"),
        pytest.param({"scheduling.volcano.sh/queue-allocation-gate": "true"}, (PODS_VALIDATE, PODS_MUTATE), None, id="a gate"),
        pytest.param({"volcano.sh/resource-group": "a"}, (PODS_VALIDATE,), "us", id="the webhook sees all that ask"),
        pytest.param({}, (PODS_MUTATE,), None, id="not checked here"),
    ],
)
async def test_a_pod_is_created_with_a_field_manager_unless_admission_must_review_it(annotations, webhooks, writer):
    client = Noting()
    pod = {"metadata": {"name": "p", "namespace": NS, "annotations": annotations}, "spec": {"schedulerName": "volcano"}}
    await pods_checked(cast("Client", client), webhooks, (), ["volcano"]).create(pod)
    assert client.writers == [writer]
