"""Loads structlog without rich.

structlog imports rich, where it is installed, for a kind of traceback that we do not print. That costs each process 0.1 s and
7 MB, so it is hidden while structlog loads; others import it as usual afterwards.
"""

from __future__ import annotations

import sys

__all__: list[str] = []

if "structlog" not in sys.modules and "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]  # how Python marks what cannot be imported
    try:
        import structlog  # noqa: F401 - loaded for whoever comes next
    finally:
        del sys.modules["rich"]
