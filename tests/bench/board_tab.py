"""What a person feels who works in a tab of Chromium while the page changes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from tests.unit.board.browser import running_browser

__all__ = ["Tab", "worked_in"]

ENTER, BACKSPACE = "\ue007", "\ue003"
OBSERVE: Final = """
window.figures = { tasks: [], interactions: [], changes: 0 };
new PerformanceObserver((list) => list.getEntries().forEach((each) => figures.tasks.push(each.duration)))
  .observe({ type: "longtask" });
new PerformanceObserver((list) => list.getEntries().forEach((each) => {
  if (each.interactionId) figures.interactions.push(each.duration);
})).observe({ type: "event", durationThreshold: 16 });
new MutationObserver(() => { figures.changes += 1; }).observe(document, { childList: true, subtree: true });
"""
FOCUS: Final = """document.querySelector('input[name="text"]').focus()"""
HEAD: Final = """document.querySelectorAll("th a[data-swap]")[arguments[0]].focus()"""


@dataclass(frozen=True, slots=True)
class Tab:
    """What a tab noted: milliseconds of tasks over 50 and of interactions over 16, how often the page changed, keys pressed."""

    tasks: list[float]
    interactions: list[float]
    changes: int
    keys: int


async def worked_in(url: str, seconds: float) -> Tab:
    """Filter and order the list of Jobs at `url` by keys for so long."""
    keys = 0
    async with running_browser() as browser:
        await browser.open(url)
        await browser.run(OBSERVE)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for number in range(3):
                await browser.run(FOCUS)
                for key in (*"job", ENTER, *(BACKSPACE,) * 3, ENTER):
                    await browser.keys(key)
                    await asyncio.sleep(0.2)
                await browser.run(HEAD, number)
                await browser.keys(ENTER)
                await asyncio.sleep(0.5)
                keys += 9
        return Tab(**await browser.run("return figures"), keys=keys)
