"""What a module logs, also where an earlier test had structlog keep its loggers."""

import logging
from types import ModuleType
from typing import Any

import pytest
import structlog


def captured(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[dict[str, Any]]:
    """The events that `module` logs from now on; the list grows."""
    capture = structlog.testing.LogCapture()
    every = structlog.make_filtering_bound_logger(logging.NOTSET)  # whatever level the process has from another test
    logger = structlog.wrap_logger(structlog.PrintLogger(), processors=[capture], wrapper_class=every)
    monkeypatch.setattr(module, "log", logger)
    return capture.entries
