"""The pages in a real Chromium: they load without complaints, change while they are open, and can be used by everybody."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyroclast.api.types import JOBS, NODES, Key
from pyroclast.kube.http.client import PatchKind

from .browser import Browser, running_driver, started
from .conftest import Board, fill, running_board

TAB, ENTER = "\ue004", "\ue007"
PLACES = {
    "overview": "/",
    "queues": "/queues",
    "queue": "/queues/research",
    "jobs": "/jobs",
    "job": "/jobs/{train}",
    "gang": "/jobs/{big}",
    "flows": "/flows",
    "flow": "/flows/{etl}",
    "nodes": "/nodes?resource=cpu&by=rack&hole=2x4",
    "node": "/nodes/node-0",
    "what-if": "/what-if?drain=node-0",
    "history": "/history",
}
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    """One for all tests, as a Chromium takes longer to start than most of them."""
    with running_driver() as driver:
        browser = do(started(driver))
        yield browser
        do(browser.stop())


def do(work: Coroutine[Any, Any, Any]) -> Any:
    """Outside of a test, whose loop ends with it."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


@pytest.fixture
async def browser(window: Browser) -> AsyncIterator[Browser]:
    yield window
    await window.forget()


@pytest.fixture
async def seen(browser: Browser) -> AsyncIterator[tuple[Board, Browser, dict[str, str]]]:
    async with running_board() as board:
        uids = await fill(board)
        await board.until("/jobs", "lost", "hidden-job", ">QueueFull<")
        await board.until("/nodes", "node-2")
        await board.until("/flows", "team/etl")
        yield board, browser, uids


def paths(uids: dict[str, str]) -> dict[str, str]:
    return {name: path.format(**uids) for name, path in PLACES.items()}


async def test_pages_load_in_chromium_without_console_messages(seen: Any) -> None:
    board, browser, uids = seen
    for name, path in paths(uids).items():
        await browser.open(board.url + path)
        assert await browser.run("return document.querySelector('h1').textContent"), name
        assert await browser.run("return document.title.endsWith('Pyroclast')"), name
        assert await browser.complaints() == [], name
    transferred = await browser.run(
        "return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".reduce((sum, each) => sum + each.transferSize, 0)"
    )
    assert 0 < transferred < 150_000


async def test_open_job_list_updates_without_reload_and_keeps_the_focus(seen: Any) -> None:
    board, browser, uids = seen
    await browser.open(f"{board.url}/jobs")
    await browser.run("window.same = true")
    row = f"document.getElementById('job-{uids['train']}')"
    assert "Pending" in await browser.run(f"return {row}.textContent")
    await browser.run(f"{row}.querySelector('th a').focus()")
    status = {"status": {"state": {"phase": "Completed", "message": ""}}}
    await board.client.patch(JOBS, Key("team", "train"), status, PatchKind.MERGE, subresource="status")
    await browser.wait(f"return {row}.textContent.includes('Completed')")
    assert await browser.run("return document.activeElement.getAttribute('href')") == f"/jobs/{uids['train']}"
    later = await board.job("team", "later")
    await browser.wait(f"return document.getElementById('job-{later}')?.parentElement.hasAttribute('data-rows')")
    await board.client.delete(JOBS, Key("team", "later"))
    await browser.wait(f"return !document.getElementById('job-{later}')")
    assert await browser.run("return window.same"), "it was not loaded anew"
    assert "4</b> Jobs" in await browser.run("return document.getElementById('counts').innerHTML")
    assert await browser.complaints() == []


async def test_page_update_keeps_scroll_position_and_focus(seen: Any) -> None:
    board, browser, _ = seen
    await browser.emulate(width=375, height=640)
    await browser.open(f"{board.url}/")
    region = "document.querySelector('#resources .scroll:last-of-type')"
    await browser.run(f"{region}.scrollLeft = 20; {region}.focus(); window.region = {region}")
    status = {"allocatable": {"cpu": "8", "memory": "16Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}
    await board.put(NODES, {"metadata": {"name": "late"}, "status": status})
    await browser.wait(f"return {region}.textContent.includes('64Gi')")
    assert await browser.run(f"return [window.region === {region}, document.activeElement === {region}]") == [True, True]
    assert await browser.run(f"return {region}.scrollLeft") == 20


async def test_job_filter_updates_the_list_and_the_url_without_reload(seen: Any) -> None:
    board, browser, _ = seen
    await browser.open(f"{board.url}/jobs")
    await browser.run("window.same = true; document.querySelector('input[name=text]').focus()")
    await browser.keys(*"hidden")
    await browser.wait(
        "return location.search === '?text=hidden' && document.querySelectorAll('tbody[data-rows] tr').length === 1"
    )
    assert await browser.run("return [window.same, document.activeElement.name, document.activeElement.value]") == [
        True,
        "text",
        "hidden",
    ]
    await browser.run("history.back()")
    await browser.wait("return document.querySelectorAll('tbody[data-rows] tr').length === 4")
    await browser.run("document.querySelector('thead a').click()")
    await browser.wait("return document.querySelector('th[aria-sort=ascending]')")
    assert await browser.run("return window.same")
    assert await browser.complaints() == []


async def test_job_list_filters_and_links_are_reachable_by_keyboard(seen: Any) -> None:
    board, browser, _ = seen
    await browser.open(f"{board.url}/jobs")
    await browser.keys(TAB)
    assert await browser.run("return document.activeElement.className") == "skip"
    await browser.keys(ENTER)
    assert await browser.run("return location.hash") == "#main"
    reached = set()
    for _step in range(60):
        await browser.keys(TAB)
        reached.add(await browser.run("return document.activeElement.name || document.activeElement.getAttribute('href') || ''"))
    assert {"text", "state", "namespace", "group"} <= reached
    assert any(each.startswith("/jobs/") for each in reached)
    outline = await browser.run(
        "document.querySelector('tbody th a').focus(); return getComputedStyle(document.activeElement).outlineStyle"
    )
    assert outline != "none"


async def test_pages_have_headings_and_the_job_filter_reloads_the_list_with_scripts_disabled(seen: Any) -> None:
    board, browser, uids = seen
    await browser.without_scripts(are_off=True)
    for name, path in paths(uids).items():
        await browser.open(board.url + path)
        assert await browser.run("return document.querySelector('h1').textContent"), name
    await browser.open(f"{board.url}/jobs")
    await browser.run(
        "window.same = true; const form = document.querySelector('form[role=search]');"
        "form.elements.text.value = 'hidden'; form.querySelector('button').click()"
    )
    await browser.wait("return new URLSearchParams(location.search).get('text') === 'hidden'")
    found = "return [window.same ?? false, document.querySelectorAll('tbody[data-rows] tr').length]"
    assert await browser.run(found) == [False, 1]


async def test_state_of_a_job_is_in_the_window_of_a_telephone(seen: Any) -> None:
    board, browser, uids = seen
    await browser.emulate(width=390, height=844)
    await browser.open(f"{board.url}/jobs")
    script = f"return document.querySelector('#job-{uids['train']} .state').getBoundingClientRect()"
    place = await browser.run(script)
    assert place["width"] > 0
    assert 0 <= place["left"] < place["right"] <= 390
    before = "return getComputedStyle(document.querySelector('td[data-label=State]'), '::before').content"
    assert "State" in await browser.run(before)


async def test_keys_open_the_help_and_pages_and_the_header_stays(seen: Any) -> None:
    board, browser, _ = seen
    await browser.open(f"{board.url}/")
    await browser.keys("?")
    assert await browser.run("return document.getElementById('help').open")
    await browser.keys("\ue00c")
    assert not await browser.run("return document.getElementById('help').open")
    await browser.keys("3")
    await browser.wait("return location.pathname === '/jobs'")
    await browser.keys("/")
    assert await browser.run("return document.activeElement.name") == "text"
    await browser.emulate(height=300)
    await browser.run("scrollTo(0, 9999)")
    assert await browser.run("return document.querySelector('header').getBoundingClientRect().top") == 0


async def test_pages_fit_a_narrow_window(seen: Any) -> None:
    board, browser, uids = seen
    await browser.emulate(width=320, height=640)
    for name, path in paths(uids).items():
        await browser.open(board.url + path)
        wide = await browser.run("return document.documentElement.scrollWidth")
        assert wide <= 320, f"{name} scrolls in two directions: {wide}"


@pytest.mark.parametrize("width", [390, 720, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_no_accessibility_violation(seen: Any, scheme: str, width: int) -> None:
    board, browser, uids = seen
    script = await asyncio.to_thread(axe)
    await browser.emulate(scheme=scheme, width=width)
    for name, path in paths(uids).items():
        await browser.open(board.url + path)
        await browser.run(f"{script};window.found = null; axe.run(document).then((each) => {{ window.found = each; }})")
        await browser.wait("return window.found !== null", seconds=60)
        findings = await browser.run(
            "return window.found.violations"
            ".map((each) => [each.id, each.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))])"
        )
        assert findings == [], name


def axe() -> str:
    """The script of axe-core, from the package that carries it. That package is not imported: it would need its own browser."""
    found = importlib.util.find_spec("axe_playwright_python")
    assert found is not None
    assert found.submodule_search_locations
    return (Path(found.submodule_search_locations[0]) / "axe.min.js").read_text()


async def test_users_log_in_and_out_through_a_forwarded_port(browser: Browser) -> None:
    async with running_board(login="token") as board:
        token = await board.token("member", "team")
        url = board.url.replace("127.0.0.1", "localhost")
        await browser.open(f"{url}/jobs")
        await browser.run("document.querySelector('[name=token]').value = arguments[0]; document.forms[0].submit()", token)
        await browser.wait("return document.querySelector('h1')?.textContent === 'Overview'")
        assert "default:member" in await browser.run("return document.querySelector('.viewer').textContent")
        assert await browser.run("return document.cookie") == "", "no script can read the session"
        await browser.open(f"{url}/jobs")
        await board.job("team", "mine")
        await browser.wait("return document.body.textContent.includes('mine')")
        await browser.run("document.querySelector('.viewer button').click()")
        await browser.wait("return document.querySelector('h1')?.textContent === 'Log in'")
        await browser.open(f"{url}/jobs")
        assert await browser.run("return document.querySelector('h1').textContent") == "Log in"
