"""The scheduler's answers to "why does my Job wait?": position, names that add up, holders, rights and bounds."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial
from unittest.mock import AsyncMock, PropertyMock, patch

import pytest
from aiohttp.test_utils import make_mocked_request
from jsonschema import Draft202012Validator

from pyroclast.api.types import NAMESPACES, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast.runtime.access import Access
from pyroclast.views.explanation import what_if_summary
from pyroclast.views.queues import explain_queue, queue_lines
from pyroclast_scheduler.explaining.annotations import Start
from pyroclast_scheduler.explaining.answers import Answerer
from pyroclast_scheduler.explaining.book import WaitingBook
from pyroclast_scheduler.explaining.lengths import likely_end
from pyroclast_scheduler.explaining.what_if import Compared
from pyroclast_scheduler.session.session_close import left_out_status
from pyroclast_scheduler.shell import explain_server
from pyroclast_scheduler.shell.explain_server import AT_ONCE, ExplainServer, finder
from tests.scenarios import objects
from tests.unit.cli.test_contract import SCHEMA
from tests.unit.running import running_server
from tests.unit.scheduler import natives
from tests.unit.scheduler.deciding import decided
from tests.unit.scheduler.session.test_causes import CAPACITY, decide, pods

PENDING = {"phase": "Pending"}
CASE = {
    "nodes": [["n1", 64, "99Gi"]],
    "queues": [["q", {"capability": {"cpu": 16}}]],
    "podgroups": [
        [
            "big",
            "q",
            1,
            {"phase": "Running", "minRes": {"cpu": 9}, "annotations": {"scheduling.volcano.sh/running-estimate": "1h"}},
        ],
        ["small", "q", 1, {"phase": "Running", "minRes": {"cpu": 3}}],
        ["hidden", "q", 1, {"phase": "Running", "minRes": {"cpu": 2}, "ns": "other"}],
        ["first", "q", 1, {**PENDING, "minRes": {"cpu": 9}, "class": 9}],
        ["secret", "q", 1, {**PENDING, "minRes": {"cpu": 7}, "class": 8, "ns": "other"}],
        ["third", "q", 1, {**PENDING, "minRes": {"cpu": 5}, "class": 7}],
        ["mine", "q", 1, {**PENDING, "minRes": {"cpu": 4}, "class": 1}],
        ["never", "q", 1, {**PENDING, "minRes": {"cpu": 40}, "class": 0}],
    ],
    "pods": [
        *pods("big", 1, 9, "n1"),
        *pods("small", 1, 3, "n1"),
        *pods("hidden", 1, 2, "n1", ns="other"),
    ],
}


def answerer():
    outcome, cache = decide(CASE, CAPACITY)
    book = WaitingBook()
    book.ranked_by = outcome.ranked_by
    book.take(outcome.records, outcome.seen, objects.NOW, since={})
    starts = "no estimate is made"
    return Answerer(
        book,
        cache.jobs.all_facts(),
        objects.NOW,
        {},
        lambda _: starts,
        partial(likely_end, usual=lambda _: None, now=objects.NOW),
    )


def request_of(path, address="127.0.0.1", token="", method="GET"):
    headers = {"Host": "localhost", **({"Authorization": f"Bearer {token}"} if token else {})}
    request = make_mocked_request(method, path, headers=headers)
    request.transport.get_extra_info.side_effect = lambda name, default=None: (address, 1) if name == "peername" else default
    return request


@pytest.fixture
async def client():
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        yield client


def server_of(client):
    source = answerer()
    return ExplainServer(lambda: source, finder(lambda: source.jobs), Access(client, trusts_local=True))


async def asked(server, *args, **options):
    response = await server(request_of(*args, **options))
    answer = json.loads(response.body)
    if answer.get("kind") == "Explanation":
        Draft202012Validator(SCHEMA).validate(answer)
    return response.status, answer


async def test_job_explanation_lists_position_jobs_ahead_holders_and_the_short_resource(client):
    status, answer = await asked(server_of(client), "/explain/jobs/t/mine")
    assert (status, answer["code"], answer["never"]) == (200, "QueueFull", False)
    assert answer["position"] == {"position": 4, "total": 5}
    assert [(each["namespace"], each["name"]) for each in answer["ahead"]["jobs"]] == [
        ("t", "first"),
        ("other", "secret"),
        ("t", "third"),
    ]
    assert (answer["ahead"]["others"], answer["ahead"]["resource"], answer["ahead"]["amount"]) == (0, "cpu", "21")
    assert [(each["name"], each["amount"]) for each in answer["holders"]] == [("big", "9"), ("small", "3"), ("hidden", "2")]
    (short,) = answer["resources"]
    assert (short["asked"], short["used"], short["limit"]) == ("4", "14", "16")
    assert answer["doc"] == "docs/codes.md#queuefull"
    assert [each["code"] for each in answer["trail"]] == ["QueueFull"]


async def test_ends_of_running_jobs_are_listed_within_the_rights_of_the_reader(client):
    source = replace(answerer(), end=lambda facts: (objects.NOW + 60, "declared") if facts.name == "big" else None)
    server = ExplainServer(lambda: source, finder(lambda: source.jobs), Access(client, trusts_local=True))
    status, answer = await asked(server, "/explain/ends")
    (end,) = answer["items"]
    assert (status, end["name"], end["basis"]) == (200, "big", "declared"), "the others declare nothing"
    assert (await asked(server, "/explain/ends?namespaces=other"))[1]["items"] == []


async def test_a_job_above_its_queue_limit_is_explained_as_never_starting(client):
    status, answer = await asked(server_of(client), "/explain/jobs/t/never")
    assert (status, answer["code"], answer["never"], answer["start"]) == (200, "AboveQueueLimit", True, None)


async def test_queue_explanation_lists_what_each_gang_is_owed_and_why(client):
    owed = {"phase": "Inqueue", "minRes": {"cpu": 3}}
    groups = [
        ["starts", "q", 1, {**owed, "class": 5}],
        ["late", "q", 1, owed],
        ["held", "q", 1, owed],
        ["elsewhere", "r", 1, owed],
        ["secret", "q", 1, {**owed, "class": 7, "ns": "other"}],
    ]
    _, cache = decide({"queues": [["q", {}], ["r", {}]], "podgroups": groups})
    cache.groups.believe("t/held", left_out_status(cache.groups.current("t/held").status, "LeftOut: x", "t"))
    promised = list(cache.snapshot().promised)
    source = replace(answerer(), jobs=cache.jobs.all_facts(), promised=promised, ended={"t/late"})
    server = ExplainServer(lambda: source, finder(lambda: source.jobs), Access(client, trusts_local=True))
    status, order = await asked(server, "/explain/queues/q?namespaces=t")
    answer = explain_queue({"metadata": {"name": "q"}}, [], [], 0.0, order)
    Draft202012Validator(SCHEMA).validate(answer)
    assert (status, queue_lines(answer)[1:]) == (
        200,
        [
            "owed     3 cpu to a gang of a hidden namespace (priority 7): its pods are being created",
            "owed     3 cpu to t/starts (priority 5): its pods are being created",
            "owed     nothing to t/held (priority 0): something other than room holds it up",
            "owed     nothing to t/late (priority 0): its pods found no nodes for too long",
        ],
    )


@pytest.mark.parametrize("path", ["/explain/jobs/t/mine?namespaces=t", "/explain/queues/q?namespaces=t"])
async def test_namespaces_parameter_hides_names_of_other_namespaces(client, path):
    status, answer = await asked(server_of(client), path)
    assert status == 200
    assert "secret" not in json.dumps(answer)
    assert "hidden" not in json.dumps(answer)
    assert "mine" in json.dumps(answer)


async def test_unauthorized_requests_are_denied_and_names_of_unreadable_namespaces_only_counted(client):
    await client.create(NAMESPACES, {"metadata": {"name": "t"}})
    group = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["list"]}
    await client.create(ROLES, {"metadata": {"name": "r", "namespace": "t"}, "rules": [rule]})
    tokens = {}
    for name in ("member", "stranger"):
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name, "namespace": "t"}})
        made = await client.create(SERVICE_ACCOUNTS, {"spec": {}}, namespace="t", name=name, subresource="token")
        tokens[name] = made["status"]["token"]
    reference = {"apiGroup": group, "kind": "Role", "name": "r"}
    subject = {"kind": "ServiceAccount", "name": "member", "namespace": "t"}
    await client.create(ROLE_BINDINGS, {"metadata": {"name": "b", "namespace": "t"}, "roleRef": reference, "subjects": [subject]})
    server, away = server_of(client), "10.0.0.9"
    assert (await asked(server, "/explain/jobs/t/mine", away))[0] == 401
    assert (await asked(server, "/explain/jobs/t/mine", away, "nonsense"))[0] == 401
    assert (await asked(server, "/explain/jobs/t/mine", away, tokens["stranger"]))[0] == 403
    assert (await asked(server, "/explain/jobs/other/secret", away, tokens["member"]))[0] == 403
    status, answer = await asked(server, "/explain/jobs/t/mine", away, tokens["member"])
    assert status == 200
    assert [each["name"] for each in answer["ahead"]["jobs"]] == ["first", "third"]
    assert (answer["ahead"]["others"], answer["ahead"]["amount"]) == (1, "21")
    assert [(each["name"], each["amount"]) for each in answer["holders"]] == [("big", "9"), ("small", "3"), (None, "2")]
    _, rows = await asked(server, "/explain/queues/q", away, tokens["member"])
    assert [row["name"] for row in rows["items"]] == ["first", None, "third", "mine", "never"]
    assert not {"secret", "hidden"} & set(json.dumps([answer, rows]).replace('"', " ").split())


@pytest.mark.parametrize(
    "query", ["limit=-1", "limit=0", "limit=1000000", "limit=1001", "limit=x", "offset=-1", "offset=" + "9" * 40]
)
async def test_limit_or_offset_out_of_bounds_returns_400(client, query):
    status, answer = await asked(server_of(client), f"/explain/queues/q?{query}")
    assert status == 400
    assert "is no whole number from" in answer["message"]


async def test_limit_and_offset_return_a_page_of_the_queue_order_and_the_total(client):
    _, answer = await asked(server_of(client), "/explain/queues/q?offset=1&limit=2")
    assert [(row["position"], row["name"]) for row in answer["items"]] == [(2, "secret"), (3, "third")]
    assert answer["total"] == 5
    assert [row["ranks"]["priority"] for row in answer["items"]] == [-8.0, -7.0]


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        *[(path, "GET", 404) for path in ("/explain/jobs/t/none", "/explain/jobs/t/big", "/explain/nothing", "/explain")],
        ("/explain/queues/q", "POST", 405),
    ],
)
async def test_unknown_paths_and_jobs_that_do_not_wait_return_404_and_other_methods_405(client, path, method, status):
    assert (await asked(server_of(client), path, method=method))[0] == status


async def test_too_many_concurrent_requests_return_429(client):
    with patch.object(ExplainServer, "is_busy", new_callable=PropertyMock, return_value=True):
        status, answer = await asked(server_of(client), "/explain/queues/q")
    assert status == 429
    assert str(AT_ONCE) in answer["message"]


async def test_clients_that_send_no_body_keep_nobody_from_answers_and_get_408(client, monkeypatch):
    server = server_of(client)

    async def never(*_):
        await asyncio.Event().wait()

    async def silent():
        return (await server(request_of("/explain/fits", method="POST"))).status

    monkeypatch.setattr(explain_server, "read_at_most", never)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(silent()) for _ in range(AT_ONCE + 1)]
        await asyncio.sleep(0)
        assert (await asked(server, "/explain/queues/q"))[0] == 200
        for task in waiting:
            task.cancel()
    monkeypatch.setattr(explain_server, "BODY_SECONDS", 0)
    assert await silent() == 408


async def test_a_kubernetes_podgroup_is_explained_under_its_plain_name(client):
    cache = natives.world({"n": 1})
    cache.natives.group_changed(None, natives.gang())
    for i in range(2):
        cache.pod_changed(None, natives.pod(f"p{i}"))
    outcome, _ = decided(cache, natives.SETTINGS)
    book = WaitingBook()
    book.take(outcome.records, outcome.seen, objects.NOW, since={})
    source = Answerer(book, cache.jobs.all_facts(), objects.NOW, {}, lambda _: "no estimate is made", lambda _: None)
    server = ExplainServer(lambda: source, finder(lambda: source.jobs), Access(client, trusts_local=True))
    status, answer = await asked(server, "/explain/podgroups/t/g")
    assert (status, answer["code"], answer["metadata"]["name"]) == (200, "PodsMissing", "g")
    _, rows = await asked(server, "/explain/queues/default")
    assert [(row["name"], row["object"]) for row in rows["items"]] == [("g", "podgroups.scheduling.k8s.io")]
    assert (await asked(server, "/explain/podgroups/t/other"))[0] == 404


async def test_a_standby_scheduler_returns_503(client):
    source = answerer()
    server = ExplainServer(lambda: source, finder(lambda: source.jobs), Access(client, trusts_local=True), leads=lambda: False)
    status, answer = await asked(server, "/explain/jobs/t/mine")
    assert status == 503
    assert "stands by" in answer["message"]


async def test_what_if_names_only_jobs_that_the_reader_may_see(client, monkeypatch):
    source = answerer()
    start = Start(objects.NOW, objects.NOW + 60, objects.NOW + 120, "basis")
    rows = [Compared("t/mine", "not known", start, "earlier"), Compared("other/secret", start, "never", "later")]

    async def what_if(body):
        if "bad" in body:
            raise ValueError('there is no "bad"')
        return rows, {"starts": True, "evictions": 2, "code": None, "sentence": ""}

    server = ExplainServer(lambda: source, lambda *_: "", Access(client, trusts_local=True), what_if=what_if)

    async def put(body, path="/explain/what-if"):
        monkeypatch.setattr(explain_server, "read_at_most", AsyncMock(return_value=body))
        return await asked(server, path, method="POST")

    status, answer = await put(b'{"add": {"cpu": "1"}}', "/explain/what-if?namespaces=t")
    assert (status, answer["earlier"], answer["later"], answer["hidden"]) == (200, 1, 1, 1)
    assert [(each["name"], each["before"] is None, each["effect"]) for each in answer["items"]] == [("mine", True, "earlier")]
    assert what_if_summary(answer) == [
        "the Job would start at the next session, and 2 pods would be evicted for it",
        "of 2 waiting Jobs, 1 would start earlier and 1 later",
        "room is counted as sums of the cluster and its queues, not node by node",
        "1 of them are of others, which you may not see",
    ]
    assert (await put(b'{"bad": 1}'))[0] == 400
    assert (await put(b"[]"))[0] == 400
