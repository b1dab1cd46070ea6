"""Structured logs: JSON lines, or readable lines on a terminal. The loggers of the standard library write to the same stream."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from functools import partial
from typing import Any, Final, TextIO

import orjson
import structlog

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}


def configure(level: str = "info", style: str = "auto", *, service: str = "", stream: TextIO | None = None) -> None:
    """Set up logging for this process.

    Args:
        level: debug, info, warning, error or critical.
        style: json, console, or auto, which is console when `stream` is a terminal.
        service: the name of the service in each JSON line; empty for none.
        stream: where to write; standard error by default.
    """
    stream = stream or sys.stderr
    console = style == "console" or (style == "auto" and stream.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if console:
        from structlog.dev import ConsoleRenderer, plain_traceback  # noqa: PLC0415 - only for a terminal

        structlog.configure(
            processors=[*shared, ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain_traceback)],
            logger_factory=structlog.PrintLoggerFactory(stream),
        )
    else:
        structlog.configure(
            processors=[*shared, partial(_with_service, service), structlog.processors.format_exc_info, _render],
            logger_factory=structlog.BytesLoggerFactory(stream.buffer),
        )
    set_level(level)
    root = logging.getLogger()
    root.handlers = [_Forward()]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)


def set_level(level: str) -> None:
    """Change the log level, at any time."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]))


def _with_service(service: str, _logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if service:
        event["service"] = service
    return event


def _render(_logger: object, _method: str, event: MutableMapping[str, Any]) -> bytes:
    return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS)


class _Forward(logging.Handler):
    """Passes the log records of libraries on to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger()
        error = record.exc_info if record.exc_info and record.exc_info[0] else None
        log.log(
            record.levelno, "library.log", logger=record.name, text=record.getMessage(), **({"exc_info": error} if error else {})
        )
