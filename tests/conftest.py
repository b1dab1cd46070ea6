"""Options of the test suite, and the line that says what was left out."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections import Counter

import pytest
from hypothesis import settings

from tests.counts import IS_SOAK

# how fast a machine is says nothing of what it ran, and what passed passes again
settings.register_profile("steady", deadline=None, derandomize=not IS_SOAK)
settings.load_profile("steady")

LOOP = pytest.StashKey[asyncio.AbstractEventLoop]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--control-plane",
        choices=("embedded", "real"),
        default="embedded",
        help="what the end-to-end tests run on: the embedded API server, or kube-apiserver and etcd built from source",
    )
    parser.addoption(
        "--bind-pods",
        action="store_true",
        help="have the end-to-end tests bind each pod, as Volcano does, and place no gang before",
    )
    parser.addoption(
        "--one-pod-without-group", action="store_true", help="have the end-to-end tests run Jobs of one pod without PodGroups"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Give the main thread a loop that is closed at the end: looptime asks for one and would leave its own open.

    A run in the background of a shell ignores SIGINT, which the programs that tests start and interrupt would inherit.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[LOOP] = asyncio.new_event_loop()
    asyncio.set_event_loop(config.stash[LOOP])
    gc.disable()


def pytest_collection_finish() -> None:
    """Let garbage collection look at nothing that lives as long as the process: ten thousand tests and what they import."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    if LOOP in config.stash:
        config.stash[LOOP].close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what was left out, and why."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.write_line(
            "left out: " + "; ".join(f"{count} tests ({reason})" for reason, count in sorted(reasons.items()))
        )
