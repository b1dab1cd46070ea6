"""A Command passes only for a user who may update its target, and only while the target is the one that it means."""

from __future__ import annotations

import base64
from typing import Any, cast

import orjson
import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api.keys import AUTHORIZED_FOR
from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.http.client import Client
from pyroclast_admission.authorization import Authorizer
from pyroclast_admission.engine import Engine, Overload, ReviewMetrics
from pyroclast_admission.handlers import WEBHOOKS
from tests.bench.admission_server import known, reader
from tests.unit.admission.clients import review

ALICE = {"username": "alice", "groups": ["team-a"], "uid": "7", "extra": {"scopes": ["a"]}}
FLOWS = "system:serviceaccount:ours:pyroclast-jobflow"


UIDS = {("Queue", "", "default"): "q-1", ("Job", "team-a", "own"): "j-1", ("Job", "team-b", "other"): "j-2"}


class Server:
    """An API server with a queue, a Job in team-a and a Job in team-b; `may` holds who may update what."""

    def __init__(self, *may: tuple[str, str, str, str], is_down: bool = False) -> None:
        self._may, self._is_down = may, is_down
        self.asked: list[dict[str, Any]] = []

    async def get(self, kind: ResourceType, key: Key, **_: object) -> dict[str, Any]:
        uid = UIDS.get((kind.kind, key.namespace, key.name))
        if uid is None:
            raise NotFound(404, "NotFound", f"no {kind.plural} {key}")
        return {"metadata": {"name": key.name, "uid": uid}}

    async def request(self, _: str, path: str, *, body: bytes, **__: object) -> bytes:
        assert path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        if self._is_down:
            raise KubeError("no answer")
        spec = orjson.loads(body)["spec"]
        self.asked.append(spec)
        what = spec["resourceAttributes"]
        right = (spec["user"], what["resource"], what.get("namespace", ""), what["name"])
        return orjson.dumps({"status": {"allowed": what["verb"] == "update" and right in self._may}})


async def answer(server: Server, path: str, command: dict[str, Any], user: dict[str, Any] | None = None) -> dict[str, Any]:
    state = known()
    engine = Engine(
        WEBHOOKS,
        lambda: state,
        reader(state),
        authorize=Authorizer(cast(Client, server), "ours").refusal,
        overload=Overload(),
        metrics=ReviewMetrics(CollectorRegistry()),
    )
    try:
        reply = await engine.reply(path, orjson.dumps(review(path, object=command, userInfo=user or ALICE)))
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
    (operation,) = orjson.loads(base64.b64decode(allowed["patch"]))
    assert operation["value"] == f"{given['target']['uid']}/{given['action']}"
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
    foreign = {"username": FLOWS.replace(":ours:", ":team-a:")}
    assert not (await answer(Server(), "/commands/mutate", ABORT, foreign))["allowed"]
