"""Who may look, and what others may not learn."""

from __future__ import annotations

import contextlib
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from pyroclast.api import keys
from pyroclast.api.types import JOB_FLOWS, PODS, SERVICE_ACCOUNTS, Key
from pyroclast_board.serving.viewers import COOKIE, Sessions

from .conftest import POD, Board, answering, fill, running_board
from .streams import messages

SECRETS = ("hidden-job", "other/", "secret-flow")


@pytest.fixture
async def guarded():
    async with running_board(login="token") as board:
        yield board


async def test_requests_without_a_valid_token_return_401_and_the_login_form(guarded: Board) -> None:
    for path in ("/", "/jobs", "/live/jobs", "/jobs.csv", "/history", "/elsewhere"):
        assert 'name="token"' in await guarded.get(path, 401)
    await guarded.get("/", 401, token="forged")
    await guarded.get("/", 401, **{"X-Forwarded-User": "admin", "X-Remote-User": "admin", "Impersonate-User": "admin"})
    await guarded.get("/", 401, Cookie=f"{COOKIE}=forged")
    assert 'name="token"' in await guarded.get("/login")


async def test_jobs_in_forbidden_namespaces_are_counted_but_not_named(guarded: Board) -> None:
    uids = await fill(guarded)
    secret_flow = {"metadata": {"namespace": "other", "name": "secret-flow"}, "spec": {"flows": [{"name": "a"}]}}
    await guarded.put(JOB_FLOWS, secret_flow)
    token = await guarded.token("member", "team")
    admin = await guarded.token("admin", everywhere=True)
    await guarded.until("/jobs", "hidden-job", token=admin)
    await guarded.until("/flows", "other/secret-flow", token=admin)
    page = await guarded.until("/jobs", "train", token=token)
    assert "1 more of others" in page
    assert "<b>2</b> waiting" in await guarded.get("/", token=token)
    assert "1 of others, which you may not see" in await guarded.get("/queues/research", token=token)
    paths = ["/", "/queues", "/queues/research", "/jobs", "/jobs?group=namespace", "/jobs.csv", "/flows", "/nodes", "/history"]
    paths += [f"/jobs/{uids['train']}", f"/flows/{uids['etl']}", f"/nodes?job={uids['secret']}"]
    for path in paths:
        page = await guarded.get(path, token=token)
        assert not [secret for secret in SECRETS if secret in page], path
    await guarded.get(f"/jobs/{uids['secret']}", 404, token=token)
    for query in ("namespace=other", "text=hidden", "user=eve", "label=x", "flow=y"):
        page = await guarded.get(f"/jobs?{query}", token=token)
        assert "of others" not in page, "a filter must not tell what a Job of others has"
    told = await messages(guarded, "/live/jobs?seen=old", token, 1)
    assert "train" in str(told)
    assert "hidden-job" not in str(told)
    nobody = await guarded.token("nobody")
    assert "<b>0</b> Jobs" in await guarded.get("/jobs", token=nobody)


async def test_log_of_a_failure_is_read_with_the_rights_of_the_viewer(guarded: Board) -> None:
    uid = await guarded.job("team", "broken", phase="Failed")
    hidden = await guarded.job("other", "hidden-job", phase="Failed")
    ended = {
        "name": "c",
        "state": {"terminated": {"exitCode": 3, "reason": "Error"}},
        "image": "i",
        "imageID": "i",
        "ready": False,
        "restartCount": 0,
    }
    metadata = {"namespace": "team", "name": "broken-worker-0", "labels": {keys.JOB_NAME: "broken"}}
    await guarded.put(
        PODS,
        {"metadata": metadata, "spec": {**POD, "nodeName": "n"}, "status": {"phase": "Failed", "containerStatuses": [ended]}},
    )
    member, admin = await guarded.token("member", "team"), await guarded.token("admin", everywhere=True)
    await guarded.until(f"/jobs/{uid}", f"/jobs/{uid}/log", "ended with exit code 3", token=member)
    refused = await guarded.get(f"/jobs/{uid}/log", token=member)
    assert "system:serviceaccount:default:member" in refused.partition("It is not known")[2]
    assert "pods/log" in refused
    assert "Forbidden" not in await guarded.get(f"/jobs/{uid}/log", token=admin)
    await guarded.get(f"/jobs/{hidden}/log", 404, token=member)
    await guarded.get("/jobs/none/log", 404, token=admin)


async def test_login_form_sets_a_secure_session_cookie_and_logout_clears_it(guarded: Board) -> None:
    token = await guarded.token("admin", everywhere=True)
    assert guarded.session is not None
    async with guarded.session.post(f"{guarded.url}/login", data={"token": "forged"}, allow_redirects=False) as answer:
        assert answer.status == 401
        assert "Set-Cookie" not in answer.headers
    foreign = {"Origin": "https://evil.example"}
    async with guarded.session.post(
        f"{guarded.url}/login", data={"token": token}, headers=foreign, allow_redirects=False
    ) as answer:
        assert answer.status == 403
    async with guarded.session.post(f"{guarded.url}/login", data={"token": token}, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        set_cookie = answer.headers["Set-Cookie"]
    assert all(word in set_cookie for word in ("HttpOnly", "Secure", "SameSite=Strict", "Path=/"))
    assert token not in set_cookie
    cookie = set_cookie.partition(";")[0]
    assert "system:serviceaccount:default:admin" in await guarded.get("/", Cookie=cookie)
    async with guarded.session.post(f"{guarded.url}/login", data={"token": "x" * 4000}, allow_redirects=False) as answer:
        assert answer.status == 401
    async with guarded.session.post(f"{guarded.url}/logout", allow_redirects=False) as answer:
        assert answer.status == 303
        assert "Max-Age=0" in answer.headers["Set-Cookie"]
    async with guarded.session.post(f"{guarded.url}/jobs", headers={"Cookie": cookie}) as answer:
        assert answer.status == 405


async def test_a_revoked_token_ends_its_streams() -> None:
    async with running_board(login="token", review_period=timedelta(seconds=0.2)) as board:
        token = await board.token("member", "team")
        assert board.session is not None
        async with board.session.get(f"{board.url}/live/jobs", headers={"Authorization": f"Bearer {token}"}) as stream:
            assert (await stream.content.readline()).startswith(b"retry")
            await board.client.delete(SERVICE_ACCOUNTS, Key("default", "member"))
            rest = await stream.content.read()
        assert b"event: reload" in rest
        await board.get("/jobs", 401, token=token)


async def test_live_streams_are_limited_per_user(guarded: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyroclast_board.serving.streams.MOST_OF_ONE", 2)
    greedy, other = await guarded.token("greedy"), await guarded.token("other")
    assert guarded.session is not None
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            headers = {"Authorization": f"Bearer {greedy}"}
            await stack.enter_async_context(guarded.session.get(f"{guarded.url}/live/", headers=headers))
        await guarded.get("/live/", 503, token=greedy)
        headers = {"Authorization": f"Bearer {other}"}
        async with guarded.session.get(f"{guarded.url}/live/", headers=headers) as answer:
            assert answer.status == 200


def test_session_cookie_is_refused_when_expired_altered_or_of_another_key() -> None:
    sessions = Sessions(b"k" * 32, 3600)
    cookie = sessions.seal("the-token", 1000.0)
    assert sessions.open(cookie, 1000.0) == "the-token"
    assert sessions.open(cookie, 4700.0) is None
    assert Sessions(b"l" * 32, 3600).open(cookie, 1000.0) is None
    for wrong in ("", "x", cookie[:-4], cookie.swapcase(), "A" * 5000, "ü"):
        assert sessions.open(wrong, 1000.0) is None
    assert sessions.seal("the-token", 1000.0) != cookie


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"kind": "Job", "metadata": {"name": "new", "namespace": "team"}}, 200, "it would start at once"),
        ({"kind": "Job", "metadata": {"name": "new", "namespace": "secret"}}, 403, "namespace secret"),
        ({"kind": "Job", "metadata": {"name": "new"}}, 403, "namespace default"),
        ([], 403, "namespace default"),
        ("x" * (1 << 20), 413, "at most 1048576 bytes"),
    ],
    ids=["own namespace", "forbidden namespace", "default namespace", "no object", "too large"],
)
async def test_board_passes_on_the_question_whether_a_job_would_start(body: Any, status: int, words: str) -> None:
    asked: list[tuple[str, str, str, bytes]] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append((request.method, request.path, request.query_string, await request.read()))
        return web.json_response({"sentence": "it would start at once"})

    async with answering(answer) as url, running_board(login="token", scheduler_url=url) as board:
        await fill(board)
        token = await board.token("member", "team")
        assert board.session is not None
        headers = {"Authorization": f"Bearer {token}"}
        async with board.session.post(
            f"{board.url}/explain/fits", data=io.BytesIO(json.dumps(body).encode()), headers=headers
        ) as answered:
            assert (answered.status, words in await answered.text()) == (status, True)
        async with board.session.post(f"{board.url}/explain/fits", json={}) as answered:
            assert answered.status == 401, "without a user"
    want = [("POST", "/explain/fits", "namespaces=team", json.dumps(body).encode())] if status == 200 else []
    assert asked == want
