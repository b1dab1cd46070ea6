from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator

import pytest
import structlog

from pyroclast.runtime import logs


class Stream(io.TextIOWrapper):
    """A text stream like standard error, on bytes that can be looked at."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def text(self) -> str:
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
    yield
    structlog.reset_defaults()
    logging.captureWarnings(capture=False)
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)


def test_log_lines_are_json_with_timestamp_and_exception() -> None:
    stream = Stream()
    logs.configure("info", "auto", service="prog", stream=stream)
    structlog.get_logger().info("job.phase", job="ns/a", when=object)
    try:
        int("oh\nno")
    except ValueError:
        structlog.get_logger().exception("job.failed")
    structlog.get_logger().debug("unseen")
    first, second = map(json.loads, stream.text.splitlines())
    assert (first["event"], first["level"], first["service"], first["job"]) == ("job.phase", "info", "prog", "ns/a")
    assert first["timestamp"].endswith("Z")
    assert "ValueError: invalid literal" in second["exception"]


def test_log_lines_on_a_terminal_are_plain_text() -> None:
    stream = Stream(terminal=True)
    logs.configure("info", "auto", service="prog", stream=stream)
    structlog.get_logger().info("job.phase", job="ns/a")
    assert "job.phase" in stream.text
    assert not stream.text.startswith("{")


def test_the_level_can_be_changed_at_any_time() -> None:
    stream = Stream()
    logs.configure("error", "json", stream=stream)
    log = structlog.get_logger()
    log.info("one")
    logs.set_level("debug")
    log.debug("two")
    logs.set_level("warning")
    log.info("three")
    assert [json.loads(line)["event"] for line in stream.text.splitlines()] == ["two"]


def test_log_records_and_warnings_of_libraries_are_logged() -> None:
    stream = Stream()
    logs.configure("info", "json", stream=stream)
    logging.getLogger("aiohttp").warning("careful %s", "now")
    logging.getLogger("aiohttp").info("unseen")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    first, second = map(json.loads, stream.text.splitlines())
    assert (first["event"], first["logger"], first["text"], first["level"]) == (
        "library.log",
        "aiohttp",
        "careful now",
        "warning",
    )
    assert "old" in second["text"]


def test_bound_context_variables_are_in_the_log_line() -> None:
    stream = Stream()
    logs.configure("info", "json", stream=stream)
    with structlog.contextvars.bound_contextvars(trace="t1"):
        structlog.get_logger().info("x")
    assert json.loads(stream.text)["trace"] == "t1"
