"""Makes the pictures of the documentation: each page of the web page, light and dark, over `showcase`.

Left out unless PYROCLAST_SCREENSHOTS names a folder: `PYROCLAST_SCREENSHOTS=docs/reference/web-page`. The window is as wide as
PYROCLAST_SCREENSHOTS_WIDTH says, such as 375 for a telephone.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.board.showcase import CONFIGURATION, FLAGS, NODES, SETTINGS, Showcase
from tests.e2e.support.board import shows, url
from tests.e2e.support.cluster import Cluster, running
from tests.unit.board.browser import running_browser
from tests.unit.board.conftest import running_board

pytestmark = [
    pytest.mark.skipif("PYROCLAST_SCREENSHOTS" not in os.environ, reason="PYROCLAST_SCREENSHOTS names no folder"),
    pytest.mark.timeout(900),
]
TALLEST = 1100
"""Pixels of a page that are shown."""


async def test_every_web_page_is_captured_in_light_and_dark_for_the_documentation(
    control_plane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    with running(control_plane, tmp_path / "plane", nodes=NODES, prefix="gpu-", scheduler=CONFIGURATION, flags=FLAGS) as cluster:
        showcase = Showcase(cluster)
        showcase.begin()
        past = showcase.past_runs()
        showcase.crowd()
        board = url(cluster)
        urls = {name: f"{board}{path}" for name, path in paths(cluster, showcase, past).items()}
        async with running_board(login="token") as guarded:
            await take({**urls, "login": f"{guarded.url}/login"})


def paths(cluster: Cluster, showcase: Showcase, past: str) -> dict[str, str]:
    """The pages by the name of their picture, once they show what they are to show."""
    found = {
        "overview": "/",
        "queues": "/queues",
        "queue": "/queues/research",
        "jobs": "/jobs",
        "job": f"/jobs/{showcase.uid('vcjob', 'train-llm', 'speech')}",
        "running-job": f"/jobs/{showcase.uid('vcjob', 'serve', 'serving')}",
        "deleted-job": f"/jobs/{past}",
        "flows": "/flows",
        "flow": f"/flows/{showcase.uid('jobflow', 'nightly', 'vision')}",
        "nodes": "/nodes",
        "node": "/nodes/gpu-0",
        "what-if": "/what-if?add=nvidia.com%2Fgpu%3D64",
        "history": "/history?queue=research",
    }
    shows(cluster, found["flow"], "train-medium: Failed", "train-small: Completed", "report: Completed")
    shows(cluster, found["job"], "Why it waits", "by the scheduler's order")
    shows(cluster, found["queues"], "research nvidia.com/gpu: borrowed")
    shows(cluster, found["nodes"], "serving/retrain", "kept for a Job", "row-0 / rack-0")
    shows(cluster, found["overview"], "NoNodeBigEnough", "QueueFull")
    shows(cluster, found["deleted-job"], "This Job was deleted", "would do")
    return found


async def take(urls: dict[str, str]) -> None:
    """A picture of each page in each scheme, in which nothing is wider than the window."""
    folder, width = Path(os.environ["PYROCLAST_SCREENSHOTS"]), int(os.environ.get("PYROCLAST_SCREENSHOTS_WIDTH", "1200"))
    async with running_browser() as browser:
        await browser.without_scroll_bars()
        for scheme in ("light", "dark"):
            await browser.emulate(scheme=scheme, width=width, height=600)
            for name, url in urls.items():
                await browser.open(url)
                assert await browser.complaints() == [], name
                wide, tall = await browser.run(
                    "const page = document.documentElement; return [page.scrollWidth, page.getBoundingClientRect().height]"
                )
                assert wide <= width, f"{name} is {wide} pixels wide"
                await browser.emulate(scheme=scheme, width=width, height=min(TALLEST, round(tall)))
                await browser.picture(folder / f"{name}-{scheme}.webp")
                await browser.emulate(scheme=scheme, width=width, height=600)
