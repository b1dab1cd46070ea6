"""What our controllers create by the rules of the webhooks is what the API server would have made of it with them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.keys import QUEUE_NAMESPACES
from pyroclast.api.records import Queue
from pyroclast.api.types import COMMANDS, CRDS, JOBS, QUEUES, Key
from pyroclast.kube.basics.errors import ApiError, NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.watch.informer import Informer
from pyroclast.lean import COLLECTIONS
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


async def test_a_queue_of_other_namespaces_refuses_a_job_created_in_process() -> None:
    async with api_server() as client:
        named = {"metadata": {"annotations": {QUEUE_NAMESPACES: "another"}}}
        await client.patch(QUEUES, Key("", "default"), named, PatchKind.MERGE)
        with pytest.raises(ApiError, match=f'may not be used in the namespace "{NS}"'):
            await creator(client).create(job("j", SPECS["bare"]))


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


AUTHORITIES = """
import ssl
from pyroclast import lean
lean.prepare()
from aiohttp import connector
from pyroclast.lean import TrustsWhenUsed
contexts = [each for each in vars(connector).values() if isinstance(each, TrustsWhenUsed)]
before = [len(each.get_ca_certs()) for each in contexts]
for each in contexts:
    each.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost")
usual = len(ssl.create_default_context().get_ca_certs())
print(before, [len(each.get_ca_certs()) - usual for each in contexts], {type(each) for each in contexts} == {ssl.SSLContext})
print([each.verify_mode.name for each in contexts], vars(ssl.SSLContext).get("set_default_verify_paths"))
import rich
"""

LOADED = """
import atexit, gc, json, os, sys

def tell():  # the last to be asked at the end, as the first to want to be
    threads = len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 1
    print(json.dumps([modules, gc.get_threshold(), collections, gc.get_freeze_count(), threads]))

atexit.register(tell)
import {program}.__main__
modules, collections = sorted(sys.modules), [each["collections"] for each in gc.get_stats()]
"""

EVERYWHERE = ("cryptography", "google.protobuf", "kubernetes_asyncio", "opentelemetry", "rich", "uvloop")
"""What no program needs before its work begins, and most never."""
BESIDES = {
    "pyroclast_admission": ("numpy", "sqlite3", "yaml"),
    "pyroclast_job_controller": ("aiohttp.web", "numpy", "sqlite3", "yaml"),
    "pyroclast_jobflow_controller": ("aiohttp.web", "numpy", "sqlite3", "yaml"),
    "pyroclast_scheduler": ("aiohttp.web", "sqlite3"),
    "pyroclast_standalone": ("aiohttp.web", "numpy", "prometheus_client", "sqlite3"),
    "pyroclast_standalone.apiserver": ("numpy", "prometheus_client", "pydantic", "structlog"),
    "pyroclast_standalone.nodes": ("numpy", "sqlite3", "yaml"),
}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_system_ca_certificates_are_loaded_on_first_use() -> None:
    assert run(AUTHORITIES).splitlines() == ["[0, 0] [0, 0] True", "['CERT_REQUIRED', 'CERT_NONE'] None"]


@pytest.mark.parametrize("program", BESIDES)
def test_a_program_imports_no_unneeded_modules_and_rarely_collects_garbage(program: str) -> None:
    modules, thresholds, (young, _, full), frozen, threads = json.loads(run(LOADED.format(program=program)))
    assert set(modules).isdisjoint({*EVERYWHERE, *BESIDES[program]})
    assert tuple(thresholds) == COLLECTIONS
    assert young < 60  # more than a hundred, and a full one in most programs, when Python's thresholds hold
    assert full == 0
    assert frozen > 10_000  # all that there is when the process ends
    assert threads == 1


def test_importing_the_library_changes_neither_gc_thresholds_nor_ssl_defaults() -> None:
    code = """
import gc, ssl, sys
before = gc.get_threshold(), ssl.SSLContext.set_default_verify_paths
import pyroclast.lean, pyroclast.kube.watch.informer, pyroclast.runtime.service
print((gc.get_threshold(), ssl.SSLContext.set_default_verify_paths) == before, pyroclast.lean.TrustsWhenUsed in {
    type(each) for each in gc.get_objects() if isinstance(each, ssl.SSLContext)})
"""
    assert run(code).split() == ["True", "False"]


GOOD = "import time\nprint('VERSION', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "watched"
    folder.mkdir()
    (folder / "__init__.py").touch()
    return folder


@pytest.fixture
def reloader(package, tmp_path):
    def start(text):
        (package / "__main__.py").write_text(text)
        return subprocess.Popen(
            [sys.executable, "-m", "pyroclast.runtime.reload", "watched", "one", "two"],
            env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def test_a_changed_file_starts_the_program_anew_and_a_signal_ends_both(package, reloader):
    with reloader(GOOD.replace("VERSION", "first")) as process:
        assert process.stdout.readline() == "first\n"
        (package / "__main__.py").write_text(GOOD.replace("VERSION", "second"))
        assert process.stdout.readline() == "second\n"
        assert process.stderr.readline() == "files changed: watched starts anew\n"
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
        assert process.stdout.read() == ""


def test_a_new_file_restarts_the_program(package, reloader):
    with reloader(
        "import os, time\nprint(sorted(os.listdir(os.path.dirname(__file__))), flush=True)\ntime.sleep(600)\n"
    ) as process:
        assert process.stdout.readline() == "['__init__.py', '__main__.py']\n"
        (package / "more.py").touch()
        assert process.stdout.readline() == "['__init__.py', '__main__.py', 'more.py']\n"
        process.terminate()


def test_a_program_that_fails_waits_for_its_next_version(package, reloader):
    with reloader("an error\n") as process:
        while not (line := process.stderr.readline()).startswith("exit code"):
            assert line
        assert line == "exit code 1: waits for a change\n"
        (package / "__main__.py").write_text(GOOD.replace("VERSION", "mended"))
        assert process.stdout.readline() == "mended\n"
        process.terminate()


def test_a_program_receives_its_arguments_and_its_exit_ends_the_reloader(reloader):
    with reloader("import sys\nprint(sys.argv[1:])\n") as process:
        assert process.stdout.read() == "['one', 'two']\n"
        assert process.wait(30) == 0
