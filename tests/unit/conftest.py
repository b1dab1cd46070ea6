"""The programs run in the process of the tests: what they change of it is set back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


def pytest_configure() -> None:
    """Show exceptions in the logs of tests as Python does: with each variable of each frame they take a hundred times as long."""
    *before, _ = structlog.get_config()["processors"]
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*before, plain])


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A program tells users in its own words and turns the logs off; services turn them on."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
