"""A real Chromium, driven by the WebDriver protocol through its own driver; there is none where neither is installed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import subprocess
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyroclast_standalone.processes import free_port

__all__ = ["Browser", "running_browser", "running_driver", "started"]

QUALITY = 88
"""At which text still has no visible fringes."""

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-device-scale-factor=1"]


class Browser:
    """One window."""

    def __init__(self, driver: str) -> None:
        self._driver, self._session = driver, ""

    async def start(self) -> None:
        """Open the window."""
        chrome = {"binary": shutil.which("chromium"), "args": [*OPTIONS, "--window-size=1280,900"]}
        wanted = {"goog:chromeOptions": chrome, "goog:loggingPrefs": {"browser": "ALL"}}
        found = await self._ask("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/{found['sessionId']}"

    async def stop(self) -> None:
        """Close it."""
        await self._ask("DELETE", "")

    async def forget(self) -> None:
        """Be as at the start, for the next test."""
        await self.without_scripts(are_off=False)
        await self.emulate()
        await self._command("Network.clearBrowserCookies")
        await self.open("about:blank")
        await self.complaints()

    async def open(self, url: str) -> None:
        """Go to a page and wait until it has loaded."""
        await self._ask("POST", "/url", {"url": url})

    async def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return await self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    async def wait(self, script: str, *arguments: Any, seconds: float = 60.0) -> Any:
        """What a script returns, once that is true."""
        async with asyncio.timeout(seconds):
            while not (found := await self.run(script, *arguments)):
                await asyncio.sleep(0.05)
            return found

    async def keys(self, *keys: str) -> None:
        """Press and release keys one after another."""
        presses = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        await self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": presses}]})

    async def complaints(self) -> list[str]:
        """What the console has said since it was asked last."""
        return [entry["message"] for entry in await self._ask("POST", "/se/log", {"type": "browser"})]

    async def emulate(self, *, scheme: str = "light", width: int = 1280, height: int = 900) -> None:
        """Be light or dark, and of a size."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self._command("Emulation.setEmulatedMedia", features=features)
        await self._command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    async def without_scroll_bars(self) -> None:
        """Show none, as on a telephone."""
        await self._command("Emulation.setScrollbarsHidden", hidden=True)

    async def without_scripts(self, *, are_off: bool) -> None:
        """Switch scripts of pages off, or on."""
        await self._command("Emulation.setScriptExecutionDisabled", value=are_off)

    async def picture(self, path: Path) -> None:
        """A picture of the window in WebP, which takes half the bytes of PNG for a page."""
        found = await self._command("Page.captureScreenshot", format="webp", quality=QUALITY)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(found["data"]))

    async def _command(self, name: str, **parameters: Any) -> Any:
        return await self._ask("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._driver}/session{self._session}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")

        def answered() -> Any:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]

        return await asyncio.to_thread(answered)


@contextlib.contextmanager
def running_driver() -> Iterator[str]:
    """The URL of a driver. Tests are left out where there is no Chromium."""
    driver = shutil.which("chromedriver")
    if driver is None or shutil.which("chromium") is None:
        pytest.skip("there is no Chromium with its driver; on Debian: apt-get install chromium chromium-driver")
    port = free_port()
    with subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


async def started(driver: str) -> Browser:
    """A window of a Chromium of its own, once the driver answers."""
    browser = Browser(driver)
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(OSError):
                await browser.start()
                return browser
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """A window that is closed at the end."""
    with running_driver() as driver:
        browser = await started(driver)
        try:
            yield browser
        finally:
            await browser.stop()
