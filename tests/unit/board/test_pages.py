"""The pages over an embedded API server."""

from __future__ import annotations

import json
import re

import aiohttp
import pytest
from aiohttp import web
from pydantic import ValidationError

from pyroclast.api import keys
from pyroclast.api.budgets import Spent, period_at, read_budget, written_spent
from pyroclast.api.keys import QUEUE_BUDGET, QUEUE_BUDGET_SPENT
from pyroclast.api.types import HYPER_NODES, JOBS, NATIVE_POD_GROUPS, POD_GROUPS, QUEUES, Key, ResourceType
from pyroclast.kube.http.client import PatchKind
from pyroclast.views.groups import WAITING_ANNOTATION
from pyroclast_board.pages.base import Templates
from pyroclast_board.pages.job import past_job, trace_of
from pyroclast_board.pages.overview import history, history_questions
from pyroclast_board.serving import server
from pyroclast_board.settings import BoardSettings

from .conftest import FULL, Board, answering, fill, running_board

ALL = ["/", "/queues", "/queues/research", "/jobs", "/flows", "/nodes", "/history"]


async def test_pages_show_the_queues_jobs_flows_and_nodes_of_the_cluster(board: Board) -> None:
    uids = await fill(board)
    await board.until("/", "<b>2</b> waiting", "<b>1</b> running", "<b>1</b> failed", ">QueueFull</a>")
    page = await board.until("/queues", "research cpu: borrowed 3", "research cpu: guarantee 2")
    assert 'href="/queues/research"' in page
    page = await board.get("/queues/research")
    assert f'href="/jobs/{uids["train"]}">team/train</a>' in page
    page = await board.until(f"/jobs/{uids['train']}", "QueueFull", "may use 8 cpu and uses 7")
    assert "the last that the scheduler wrote: it gives no answer now" in page
    assert "by ann" in page
    page = await board.until(f"/jobs/{uids['big']}", "big-worker-0: waiting from", "node-0")
    assert "image: i" in page
    page = await board.until("/flows", "team/etl")
    page = await board.until(f"/flows/{uids['etl']}", "on the critical path")
    assert "bad: Failed" in page
    page = await board.until("/nodes?resource=cpu&by=rack", "node-0: 6 of 8 cpu free, 1 pods")
    assert ">r0<" in page
    assert "critical" in await board.get(f"/nodes?resource=cpu&job={uids['big']}")
    assert "the board was not told where the recorder is" in await board.get("/history")


async def test_nodes_are_shown_by_the_tiers_of_the_network(board: Board) -> None:
    await fill(board)
    for name, tier, kind, member in (("rack-1", 1, "Node", "node-0"), ("row-1", 2, "HyperNode", "rack-1")):
        members = [{"type": kind, "selector": {"exactMatch": {"name": member}}}]
        await board.put(HYPER_NODES, {"metadata": {"name": name}, "spec": {"tier": tier, "members": members}})
    page = await board.until("/nodes", ">row-1 / rack-1</text>")
    assert '<th scope="row">row-1 / rack-1</th><td class="number">1</td>' in page


async def test_queue_page_shows_the_remaining_budget_or_why_it_is_invalid(board: Board) -> None:
    await fill(board)
    assert "Budget" not in await board.get("/queues/research")
    text = '{"period":"year","limits":{"cpu":"100h","memory":"64Gih"},"atEnd":"low"}'
    now = board.client.now()
    begin = period_at(read_budget(text).period, "UTC", now).begin
    spent = written_spent(Spent(int(now), begin, {"cpu": 112.5, "memory": 2.0**34}, {"cpu": 0.5}))
    body = {"metadata": {"annotations": {QUEUE_BUDGET: text, QUEUE_BUDGET_SPENT: spent}}}
    await board.client.patch(QUEUES, Key("", "research"), body, PatchKind.MERGE)
    row = '<th scope="row">cpu</th><td>year</td><td class="number">100</td><td class="number">112</td>'
    page = await board.until("/queues/research", row, '<td class="number">0.50</td><td class="number">-12.50</td>')
    assert (
        '<td class="number">64.00</td><td class="number">16.00</td><td class="number">–</td><td class="number">48.00</td>' in page
    )
    assert "<td>low</td>" in page
    body = {"metadata": {"annotations": {QUEUE_BUDGET: "<b>"}}}
    await board.client.patch(QUEUES, Key("", "research"), body, PatchKind.MERGE)
    await board.until("/queues/research", "The budget makes no sense: &#39;&lt;b&gt;&#39;: is no JSON")


WAITING = {
    "code": "QueueFull",
    "ahead": 0,
    "start": ["2030-05-01T14:20:00Z", "2030-05-01T15:05:00Z", "2030-05-01T18:40:00Z"],
    "basis": "9 declared run times",
}
TRACE = "0af7651916cd43dd8448eb211c80319c"


async def test_the_estimated_start_of_a_job_and_its_trace_are_shown() -> None:
    async with running_board(trace_url="https://traces.example.org/t/{trace}?from=board") as board:
        await fill(board)
        parent = {keys.TRACEPARENT: f"00-{TRACE}-b7ad6b7169203331-01"}
        uid = await board.job("team", "soon", code=FULL.partition("; ")[2], metadata={"annotations": parent})
        page = await board.until("/jobs?text=soon", ">soon</a>")
        assert "most likely" not in page
        patch = {"metadata": {"annotations": {WAITING_ANNOTATION: json.dumps(WAITING)}}}
        await board.client.patch(POD_GROUPS, Key("team", f"soon-{uid[:8]}"), patch, PatchKind.MERGE)
        page = await board.until("/jobs?text=soon&sort=start", "2030-05-01T14:20:00Z", "2030-05-01T18:40:00Z")
        assert "most likely" in page
        csv = await board.get("/jobs.csv?text=soon&columns=name,start")
        assert "soon,2030-05-01T14:20:00Z/2030-05-01T18:40:00Z," in csv
        page = await board.get(f"/jobs/{uid}")
        assert "by 9 declared run times" in page
        assert f'href="https://traces.example.org/t/{TRACE}?from=board"' in page


def test_history_page_shows_how_many_estimates_held_or_were_early_or_late() -> None:
    counts = {"predictions": 200, "held": 158, "early": 12, "late": 30, "p50WidthSeconds": 5400, "p50ErrorSeconds": 600}
    page = history(Templates(), {}, {"estimates": {"items": [{"queue": "research", **counts}]}}, "")
    (section,) = [section.html for section in page.sections if section.id == "estimates"]
    for text in (">research</th>", ">200</td>", ">79 %</td>", ">6 %</td>", ">15 %</td>", ">90m</td>", ">10m</td>"):
        assert text in section, section
    assert "estimates" in history_questions({})


def test_history_page_shows_which_queue_took_room_from_which() -> None:
    counted = [("red", "blue", "reclaim", 3), ("red", "blue", "preempt", 1), ("blue", "", "shuffle", 2)]
    items = [{"queue": queue, "for": taker, "action": action, "pods": pods} for queue, taker, action, pods in counted]
    page = history(Templates(), {}, {"evictions": {"items": items}}, "")
    (section,) = [section.html for section in page.sections if section.id == "evictions"]
    assert "".join(section.split("<tbody>")[1].split()).startswith('<tr><thscope="row">blue</th><tdclass="number">2</td>')
    assert ">4</td>" in section


@pytest.mark.parametrize(
    ("kind", "row", "title", "why"),
    [
        (JOBS, "team/gang</a></th>", "Job team/gang, deleted", "This Job was deleted"),
        (NATIVE_POD_GROUPS, "team/gang</a> (PodGroup of Kubernetes)</th>", "PodGroup team/gang", "described by a PodGroup"),
    ],
)
def test_history_page_distinguishes_native_podgroups_from_jobs(kind: ResourceType, row: str, title: str, why: str) -> None:
    told = {"object": kind.qualified, "namespace": "team", "name": "gang", "uid": "u", "queue": "red", "user": "ann"}
    told |= {"state": "Completed", "submitted": None, "ended": None, "waitedSeconds": 1, "elapsedSeconds": 2}
    told |= {"pods": 3, "nodes": 1}
    page = history(Templates(), {}, {"jobs": {"items": [told]}}, "")
    assert row in next(section.html for section in page.sections if section.id == "jobs")
    steps = {"phases": [], "causes": [], "evictions": [], "tasks": [], "asked": {}}
    past = past_job(Templates(), {**told, **steps, "retries": 0, "exitCode": 0, "reason": None, "owner": None}, [])
    assert past.title == title
    assert why in next(section.html for section in past.sections if section.id == "job")


def test_trace_id_is_shown_without_a_trace_url_and_an_invalid_traceparent_is_ignored() -> None:
    whole = {keys.TRACEPARENT: f"00-{TRACE}-b7ad6b7169203331-01"}
    assert trace_of(whole, "") == {"id": TRACE, "url": ""}
    for broken in ({}, {keys.TRACEPARENT: '00-"><script>-b7ad6b7169203331-01'}):
        assert trace_of(broken, "https://a/{trace}") is None


@pytest.mark.parametrize("url", ["javascript:{trace}", "https://a/", "/t/{trace}"])
def test_trace_url_without_an_http_host_or_placeholder_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="is no URL with"):
        BoardSettings(trace_url=url)


FILTERS = [
    ("", {"big", "train", "hidden-job", "lost"}),
    ("state=waiting", {"train", "hidden-job"}),
    ("namespace=team&state=waiting", {"train"}),
    ("code=QueueFull&text=hidden", {"hidden-job"}),
    ("user=ann", {"train"}),
    ("label=project=llm", {"train"}),
    ("label=project", {"train"}),
    ("label=project=other", set()),
    ("phase=Failed", {"lost"}),
    ("age=1d", set()),
    ("age=<1d&queue=research&sort=-name&columns=name,label:project", {"big", "train", "hidden-job", "lost"}),
    ("group=state", {"big", "train", "hidden-job", "lost"}),
    ("page=2", set()),
]
WRONG = [
    ("/jobs?color=red", 400, "there is no parameter &#34;color&#34;"),
    ("/jobs?state=odd", 400, "there are waiting, running"),
    ("/jobs?sort=secret", 400, "there is no column"),
    ("/jobs?age=soon", 400, "is no duration"),
    ("/jobs?page=0", 400, "is no number from 1"),
    ("/jobs?text=" + "x" * 400, 400, "at most 317 characters"),
    ("/nodes?resource=gold", 400, "no node has"),
    ("/queues?x=1", 400, "there is no parameter"),
    ("/jobs/none", 503, "the board was not told where the recorder is"),
    ("/queues/none", 404, "or you may not see it"),
    ("/flows/none", 404, "or you may not see it"),
    ("/elsewhere", 404, "there is no /elsewhere"),
    ("/static/../settings.py", 404, "there is no"),
    ("/live/none", 404, "there is no"),
]


async def test_job_list_is_filtered_by_query_parameters(filled: Board) -> None:
    for query, names in FILTERS:
        page = await filled.get(f"/jobs?{query}")
        assert {name for name in ("big", "train", "hidden-job", "lost") if f">{name}</a></th>" in page} == names, query


async def test_invalid_query_parameters_and_paths_return_an_error_with_the_reason(filled: Board) -> None:
    for path, status, words in WRONG:
        assert words in await filled.get(path, status)


async def test_write_methods_return_405_and_head_has_no_body(filled: Board) -> None:
    assert filled.session is not None
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        async with filled.session.request(method, f"{filled.url}/jobs") as answer:
            assert answer.status == 405
    async with filled.session.head(f"{filled.url}/jobs") as answer:
        assert (answer.status, await answer.read()) == (200, b"")


async def test_every_response_has_strict_security_headers_and_no_inline_styles(filled: Board) -> None:
    assert filled.session is not None
    for path in (*ALL, "/static/board.js", "/none", "/jobs?x=1"):
        async with filled.session.get(f"{filled.url}{path}") as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'self'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            text = await answer.text()
            assert "<style" not in text
            assert " style=" not in text
            assert " onload=" not in text


async def test_csv_export_escapes_spreadsheet_formulas(filled: Board) -> None:
    await filled.job("team", "calc", metadata={"labels": {"sum": "x"}, "annotations": {"pyroclast.dev/submitted-by": "=1+1"}})
    await filled.until("/jobs", "calc")
    lines = (await filled.get("/jobs.csv?columns=name,user&sort=name")).splitlines()
    assert lines[0] == "name,user,created"
    assert [line.rpartition(",")[0] for line in lines[1:]] == ["big,", "calc,'=1+1", "hidden-job,", "lost,", "train,ann"]


HOSTILE = ["<script>alert(1)</script>", '"onload="alert(1)', "javascript:alert(1)", "{{ 7 * 7 }}"]


async def test_hostile_text_is_escaped_on_all_pages(board: Board) -> None:
    await fill(board)
    for text in HOSTILE:
        await check_stays_text(board, text, f"evil-{HOSTILE.index(text)}")


async def check_stays_text(board: Board, text: str, name: str) -> None:
    annotations = {"pyroclast.dev/submitted-by": text}
    uid = await board.job("team", name, metadata={"annotations": annotations}, code=f"LeftOut: {text}")
    await board.client.patch(QUEUES, Key("", "research"), {"metadata": {"annotations": {"note": text}}}, PatchKind.MERGE)
    await board.until("/jobs", name)
    for path in (*ALL, "/jobs?group=user", f"/jobs/{uid}", f"/jobs?text={text}".replace(" ", "+"), "/nodes?by=rack"):
        page = await board.get(path)
        assert "<script>alert" not in page
        assert '"onload=' not in page
        assert 'href="javascript' not in page
        assert ">49<" not in page


async def test_local_login_refuses_a_foreign_host_header_and_a_foreign_address(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "localhost or 127.0.0.1" in await board.get("/", 403, Host="evil.example")
    assert await board.get("/", 200, Host="localhost:80")
    monkeypatch.setattr("pyroclast.runtime.access.is_local", lambda address: address is None)
    assert "localhost or 127.0.0.1" in await board.get("/", 403)


async def test_a_job_that_is_deleted_leaves_the_list(filled: Board) -> None:
    await filled.client.delete(JOBS, Key("team", "lost"))
    async with aiohttp.ClientSession() as session:
        for _ in range(200):
            async with session.get(f"{filled.url}/jobs") as answer:
                if ">lost</a></th>" not in await answer.text():
                    return
    raise AssertionError("it is still there")


@pytest.fixture
async def filled():
    async with running_board() as board:
        await fill(board)
        await board.until("/jobs", "lost", "hidden-job", ">QueueFull<")
        await board.until("/nodes", "node-2")
        yield board


async def test_stale_cache_is_announced_while_the_api_server_does_not_answer(
    filled: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "OLD_SECONDS", 0.5)
    assert "does not answer" not in await filled.get("/jobs")
    for _ in range(100):
        filled.server.fail_next("watch", "jobs", 503)
        filled.server.fail_next("list", "jobs", 503)
    filled.server.drop_watches()
    page = await filled.until("/jobs", "The API server does not answer: jobs as of")
    assert ">train</a></th>" in page, "what was last known is still shown"
    filled.server._planned.clear()
    await filled.job("team", "afterwards")
    page = await filled.until("/jobs", "afterwards")
    assert "does not answer" not in page


async def test_pages_report_an_unreachable_recorder() -> None:
    async with running_board(recorder_url="http://127.0.0.1:1") as board:
        assert "the recorder does not answer" in await board.get("/history")
        assert "the recorder does not answer" in await board.get("/jobs/gone", 503)
        uid = await board.job("team", "here")
        assert "history is not known, because" in await board.until(f"/jobs/{uid}", "team/here")


async def test_page_of_a_queue_shows_the_positions_that_the_scheduler_gives() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        names = [(None, None), ("team", "second"), (None, None), ("team", "train")]
        items = [{"position": at, "namespace": space, "name": name} for at, (space, name) in enumerate(names, 1)]
        return web.json_response({"items": items if request.path == "/explain/queues/research" else []})

    async with answering(answer) as url, running_board(scheduler_url=url) as board:
        await fill(board)
        for name in ("second", "new"):
            await board.job("team", name, code=FULL.partition("; ")[2])
        page = await board.until("/queues/research", "team/second", "in the order of the scheduler", "2 more")
        section = page.partition("in the order of the scheduler")[2].partition("</section>")[0]
        assert re.findall(r'<td class="number">(\d+)</td><th scope="row">.*?team/(\w+)', section) == [
            ("2", "second"),
            ("4", "train"),
        ]


async def test_page_of_a_queue_shows_the_stored_positions_without_a_scheduler() -> None:
    async with running_board() as board:
        await board.put(QUEUES, {"metadata": {"name": "research"}, "spec": {"weight": 1}})
        for at, name in enumerate(("first", "second")):
            said = json.dumps({"code": "QueueFull", "ahead": 1 - at})
            spec = {"queue": "research", "minMember": 1}
            meta = {"namespace": "team", "name": name, "annotations": {WAITING_ANNOTATION: said}}
            await board.put(POD_GROUPS, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})
        page = await board.until("/queues/research", "in the order that the scheduler wrote last", "team/first")
        assert page.index("team/second") < page.index("team/first")
        await board.put(POD_GROUPS, {"metadata": {"namespace": "team", "name": "new"}, "spec": {"queue": "research"}})
        await board.until("/queues/research", "oldest first: no order is known", "team/new")
