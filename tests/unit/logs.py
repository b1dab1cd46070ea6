"""What a module logs, also where an earlier test had structlog keep its loggers."""

from types import ModuleType
from typing import Any

import pytest
import structlog


def captured(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[dict[str, Any]]:
    """The events that `module` logs from now on; the list grows."""
    capture = structlog.testing.LogCapture()
    monkeypatch.setattr(module, "log", structlog.wrap_logger(structlog.PrintLogger(), processors=[capture]))
    return capture.entries
