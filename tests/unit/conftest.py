"""The programs run in the process of the tests: what they change of it is set back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A program tells users in its own words and turns the logs off; services turn them on."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
