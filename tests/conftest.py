"""Options of the test suite, and the line that says what was left out."""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--control-plane",
        choices=("embedded", "real"),
        default="embedded",
        help="what the end-to-end tests run on: the embedded API server, or kube-apiserver and etcd built from source",
    )


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
