"""A Command passes only for a user who may update its target, which is the one that it means; a queue is used by right alone."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, cast

import orjson
import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api.keys import AUTHORIZED_FOR, SERVICE_CLASS
from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.http.client import Client
from pyroclast.rules.lookups import QueueView
from pyroclast_admission.authorization import Authorizer, QueueUse
from pyroclast_admission.engine import Engine, Overload, ReviewMetrics
from pyroclast_admission.handlers import WEBHOOKS
from pyroclast_admission.known import Options
from pyroclast_admission.review import decode
from tests.bench.admission_server import known, reader
from tests.unit.admission.clients import review

ALICE = {"username": "alice", "groups": ["team-a"], "uid": "7", "extra": {"scopes": ["a"]}}
FLOWS = "system:serviceaccount:ours:pyroclast-jobflow"


QUEUES = (QueueView("research", "root", "Open"), QueueView("theirs", "root", "Open", namespaces={"team-b"}))
UIDS = {
    ("Queue", "", "default"): "q-1",
    ("Job", "team-a", "own"): "j-1",
    ("Job", "team-b", "other"): "j-2",
    ("Job", "team-a", "lone"): "j-3",
}


class Server:
    """An API server with a queue, a Job in team-a and a Job in team-b; `may` holds who may update what."""

    def __init__(self, *may: tuple[str, str, str, str], is_down: bool = False, is_open: bool = False) -> None:
        self._may, self.is_down, self.is_open = may, is_down, is_open
        self.use = QueueUse(cast(Client, self))
        self.asked: list[dict[str, Any]] = []
        self.looked_up: list[Key] = []

    async def get(self, kind: ResourceType, key: Key, **_: object) -> dict[str, Any]:
        uid = UIDS.get((kind.kind, key.namespace, key.name))
        if uid is None:
            raise NotFound(404, "NotFound", f"no {kind.plural} {key}")
        self.looked_up.append(key)
        owners = [{"kind": "JobFlow", "name": "flow"}] if key.name == "own" else []
        return {"metadata": {"name": key.name, "uid": uid, "ownerReferences": owners}}

    async def request(self, _: str, path: str, *, body: bytes, **__: object) -> bytes:
        assert path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        if self.is_down:
            raise KubeError("no answer")
        spec = orjson.loads(body)["spec"]
        self.asked.append(spec)
        what = spec["resourceAttributes"]
        right = (spec["user"], what["resource"], what.get("namespace", ""), what["name"])
        verb = "use" if what["resource"] == "queues" and what["name"] != "default" else "update"
        return orjson.dumps({"status": {"allowed": what["verb"] == verb and right in self._may}})


async def answer(
    server: Server, path: str, command: dict[str, Any], user: dict[str, Any] | None = None, **request: Any
) -> dict[str, Any]:
    state = known(*QUEUES, options=Options(namespace="ours"))
    engine = Engine(
        WEBHOOKS,
        lambda: state,
        reader(state),
        authorize=Authorizer(cast(Client, server), "ours").refusal,
        may_use=None if server.is_open else server.use.refusal,
        overload=Overload(),
        metrics=ReviewMetrics(CollectorRegistry()),
    )
    try:
        reply = await engine.reply(path, orjson.dumps(review(path, object=command, userInfo=user or ALICE, **request)))
    finally:
        engine.close()
    response: dict[str, Any] = orjson.loads(reply.body)["response"]
    return response


def command(action: str, kind: str, name: str, uid: str, **annotations: str) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}, "action": action, "target": {"kind": kind, "name": name, "uid": uid}}


CLOSE = command("CloseQueue", "Queue", "default", "q-1")
ABORT = command("AbortJob", "Job", "own", "j-1")
OF_QUEUE = ("alice", "queues", "", "default")
OF_JOB = ("alice", "jobs", "team-a", "own")


@pytest.mark.parametrize(("given", "right"), [(CLOSE, OF_QUEUE), (ABORT, OF_JOB)])
@pytest.mark.parametrize("forged", ["", "q-1/OpenQueue", "someone"])
async def test_command_is_marked_only_for_a_user_who_may_update_its_target(
    given: dict[str, Any], right: tuple[str, str, str, str], forged: str
) -> None:
    given = {**given, "metadata": {"annotations": {AUTHORIZED_FOR: forged}}} if forged else given
    server = Server(right)
    allowed = await answer(server, "/commands/mutate", given)
    marked, submitter = orjson.loads(base64.b64decode(allowed["patch"]))
    assert (marked["value"], submitter["value"]) == (f"{given['target']['uid']}/{given['action']}", "alice")
    (spec,) = server.asked
    assert {name: spec[name] for name in ("user", "groups", "uid", "extra")} == {
        "user": "alice",
        "groups": ["team-a"],
        "uid": "7",
        "extra": {"scopes": ["a"]},
    }
    denied = (await answer(Server(), "/commands/mutate", given))["status"]
    assert (denied["code"], denied["reason"]) == (403, "Forbidden")
    assert denied["message"].startswith('user "alice" may not update ')


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (command("CloseQueue", "Queue", "default", "q-0"), 422, "the Queue default has the uid q-1"),
        (command("CloseQueue", "Queue", "default", ""), 422, "target.uid: Required value"),
        (command("AbortJob", "Job", "gone", "j-9"), 422, "there is no Job team-a/gone"),
        (command("AbortJob", "Job", "other", "j-2"), 422, "there is no Job team-a/other"),
    ],
)
async def test_command_without_its_very_target_is_refused_even_for_the_powerful(
    given: dict[str, Any], code: int, told: str
) -> None:
    server = Server(OF_QUEUE, OF_JOB, ("alice", "jobs", "team-a", "gone"), ("alice", "jobs", "team-a", "other"))
    status = (await answer(server, "/commands/mutate", given))["status"]
    assert status["code"] == code
    assert told in status["message"]


@pytest.mark.parametrize(
    ("path", "owner", "told"),
    [
        ("/ownedpods/validate", {"kind": "Job", "name": "own", "uid": "j-1"}, ""),
        ("/ownedpods/validate", {"kind": "Job", "name": "own", "uid": "j-0"}, "there is no Job team-a/own with the uid j-0"),
        ("/ownedpods/validate", {"kind": "Job", "name": "other", "uid": "j-2"}, "there is no Job team-a/other"),
        ("/ownedjobs/validate", {"kind": "JobFlow", "name": "gone", "uid": "f-1"}, "there is no JobFlow team-a/gone"),
        ("/ownedjobs/validate", {}, ""),  # a Job of a HyperJob elsewhere; policies look at its label
    ],
)
async def test_what_a_controller_creates_needs_an_owner_that_exists_in_its_namespace(
    path: str, owner: dict[str, Any], told: str
) -> None:
    server = Server()
    body = {"metadata": {"ownerReferences": [{**owner, "controller": True}] if owner else []}}
    found = await answer(server, path, body, {"username": "system:serviceaccount:ours:pyroclast-controllers"})
    assert found["allowed"] is not bool(told)
    assert told in found.get("status", {}).get("message", "")


async def test_an_owner_that_exists_is_looked_up_once_for_many_pods() -> None:
    server = Server()
    authorizer = Authorizer(cast(Client, server), "ours")
    owner = {"kind": "Job", "name": "own", "uid": "j-1", "controller": True}
    body = decode(orjson.dumps(review("/ownedpods/validate", object={"metadata": {"ownerReferences": [owner]}})))
    assert [await authorizer.refusal(body) for _ in range(3)] == [None] * 3
    assert server.looked_up == [Key("team-a", "own")]


async def test_validation_alone_checks_rights_and_marks_too() -> None:
    marked = {**CLOSE, "metadata": {"annotations": {AUTHORIZED_FOR: "q-1/CloseQueue"}}}
    assert (await answer(Server(OF_QUEUE), "/commands/validate", marked))["allowed"]
    assert (await answer(Server(), "/commands/validate", marked))["status"]["code"] == 403
    wrong = {**CLOSE, "metadata": {"annotations": {AUTHORIZED_FOR: "q-1/OpenQueue"}}}
    assert (await answer(Server(OF_QUEUE), "/commands/validate", wrong))["status"]["code"] == 422


async def test_command_is_refused_for_now_while_the_api_server_does_not_answer() -> None:
    status = (await answer(Server(is_down=True), "/commands/mutate", CLOSE))["status"]
    assert (status["code"], status["details"]["retryAfterSeconds"]) == (503, 1)


async def test_only_our_jobflow_controller_needs_no_right_and_only_for_jobs() -> None:
    assert (await answer(Server(), "/commands/mutate", ABORT, {"username": FLOWS}))["allowed"]
    assert not (await answer(Server(), "/commands/mutate", CLOSE, {"username": FLOWS}))["allowed"]
    lone = await answer(Server(), "/commands/mutate", command("AbortJob", "Job", "lone", "j-3"), {"username": FLOWS})
    assert "the Job team-a/lone belongs to no JobFlow" in lone["status"]["message"]
    foreign = {"username": FLOWS.replace(":ours:", ":team-a:")}
    assert not (await answer(Server(), "/commands/mutate", ABORT, foreign))["allowed"]


CONTAINER = {"name": "c", "image": "any"}
TASK = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}
NAMED = {"scheduling.volcano.sh/queue-name": "research"}
JOB = {"metadata": {"name": "it"}, "spec": {"queue": "research", "minAvailable": 1, "tasks": [TASK]}}
USE = ("alice", "queues", "", "research")
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "Job": ("/jobs/validate", JOB),
    "large Job": ("/jobs/validate", {**JOB, "metadata": {"name": "it", "annotations": {"a": "x" * 70_000}}}),
    "CronJob": ("/cronjobs/validate", {"metadata": {"name": "it"}, "spec": {"schedule": "* * * * *", "jobTemplate": JOB}}),
    "JobTemplate": ("/jobtemplates/validate", JOB),
    "HyperJob": (
        "/hyperjobs/validate",
        {"metadata": {"name": "it"}, "spec": {"replicatedJobs": [{"name": "a", "replicas": 1, "templateSpec": JOB["spec"]}]}},
    ),
    "JobFlow": (
        "/jobflows/validate",
        {"metadata": {"name": "it"}, "spec": {"flows": [{"name": "a", "patch": {"spec": {"queue": "research"}}}]}},
    ),
    "PodGroup": ("/podgroups/validate", {"metadata": {"name": "it"}, "spec": {"queue": "research", "minMember": 1}}),
    "pod": ("/workloads/validate", {"metadata": {"name": "it", "annotations": NAMED}}),
    "Deployment": ("/workloads/validate", {"spec": {"template": {"metadata": {"labels": NAMED}}}}),
}


@pytest.mark.parametrize(("path", "given"), CASES.values(), ids=CASES.keys())
async def test_object_in_a_queue_passes_only_for_a_user_who_may_use_the_queue(path: str, given: dict[str, Any]) -> None:
    status = (await answer(Server(), path, given))["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"].startswith('user "alice" may not use queues.scheduling.volcano.sh "research": a ClusterRole with')
    assert "resources: [queues], resourceNames: [research], verbs: [use]}" in status["message"]
    assert (await answer(Server(USE), path, given))["allowed"]
    assert (await answer(Server(is_open=True), path, given))["allowed"]
    assert (await answer(Server(), path, given, operation="UPDATE", oldObject=given))["allowed"]
    status = (await answer(Server(is_down=True), path, given))["status"]
    assert (status["code"], status["details"]["retryAfterSeconds"]) == (503, 1)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(("path", "given"), CASES.values(), ids=CASES.keys())
async def test_queue_for_other_namespaces_is_refused_in_both_modes(is_open: bool, path: str, given: dict[str, Any]) -> None:
    theirs = orjson.loads(orjson.dumps(given).replace(b"research", b"theirs"))
    server = Server(("alice", "queues", "", "theirs"), is_open=is_open)
    told = 'queue "theirs" may not be used in the namespace "team-a"'
    assert told in (await answer(server, path, theirs))["status"]["message"]
    assert (await answer(server, path, theirs, namespace="team-b"))["allowed"]


@pytest.mark.parametrize(
    ("user", "path", "asks"),
    [
        ("system:serviceaccount:ours:pyroclast-controllers", "/jobs/validate", False),
        ("system:serviceaccount:ours:pyroclast-controllers", "/podgroups/validate", False),
        ("system:serviceaccount:kube-system:replicaset-controller", "/workloads/validate", False),
        ("system:serviceaccount:kube-system:other", "/workloads/validate", True),
        ("system:serviceaccount:team-a:replicaset-controller", "/workloads/validate", True),
        ("system:serviceaccount:ours-too:pyroclast-controllers", "/jobs/validate", True),
    ],
)
async def test_what_a_controller_creates_for_an_owner_is_not_asked_again(user: str, path: str, asks: bool) -> None:
    given = next(body for each, body in CASES.values() if each == path)
    assert (await answer(Server(), path, given, {"username": user}))["allowed"] is not asks


async def test_answers_are_used_again_for_the_same_user_and_queue_alone() -> None:
    server = Server(USE)
    path, given = CASES["pod"]
    assert all(each["allowed"] for each in await asyncio.gather(*(answer(server, path, given) for _ in range(9))))
    assert len(server.asked) == 1
    for other in ({**ALICE, "username": "bob"}, {**ALICE, "groups": []}, {**ALICE, "extra": {}}):
        await answer(server, path, given, other)
    assert len(server.asked) == 4
    default = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "default"}}}
    assert not (await answer(server, path, default))["allowed"]


async def test_an_object_with_very_many_queues_asks_nothing() -> None:
    entries = [{"name": f"a{n}", "patch": {"spec": {"queue": f"q{n}"}}} for n in range(33)]
    server = Server()
    status = (await answer(server, "/jobflows/validate", {"metadata": {"name": "it"}, "spec": {"flows": entries}}))["status"]
    assert (status["code"], server.asked) == (403, [])
    assert "33 queues are named here" in status["message"]


@pytest.mark.parametrize(("kind", "allowed"), [("Job", False), ("PodGroup", False), ("CronJob", True), ("HyperJob", True)])
async def test_the_class_of_service_of_what_is_counted_by_it_stays(kind: str, allowed: bool) -> None:
    path, given = CASES[kind]
    changed = {**given, "metadata": {"name": "it", "labels": {SERVICE_CLASS: "interactive"}}}
    answered = await answer(Server(USE), path, changed, operation="UPDATE", oldObject=given)
    assert answered["allowed"] is allowed
    assert allowed or "the class of service cannot be changed" in answered["status"]["message"]
    ours = {"username": "system:serviceaccount:ours:pyroclast-controllers"}
    assert (await answer(Server(USE), path, changed, ours, operation="UPDATE", oldObject=given))["allowed"]
