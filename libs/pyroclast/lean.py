"""Loads structlog and aiohttp without the work that our processes have no use for.

structlog imports rich, where it is installed, for a kind of traceback that we do not print: 0.1 s and 7 MB for each process.
aiohttp reads the authorities that the system trusts, twice the time of all its code, though our API servers have their own.
"""

from __future__ import annotations

import ssl
import sys
from typing import Any

__all__ = ["TrustsWhenUsed"]


class TrustsWhenUsed(ssl.SSLContext):
    """A TLS context that reads the authorities of the system before its first connection, and is a usual one from then on."""

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:  # noqa: ANN401 - whatever a context takes
        """As of any context."""
        return self._ready().wrap_bio(*arguments, **options)

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:  # noqa: ANN401 - whatever a context takes
        """As of any context."""
        return self._ready().wrap_socket(*arguments, **options)

    def _ready(self) -> ssl.SSLContext:
        self.__class__ = ssl.SSLContext  # type: ignore[assignment]  # mypy does not know that layouts are the same
        self.load_default_certs()
        return self


def _load_later(context: ssl.SSLContext, _purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> None:
    context.__class__ = TrustsWhenUsed


def _load_structlog() -> None:
    sys.modules["rich"] = None  # type: ignore[assignment]  # how Python marks what cannot be imported
    try:
        import structlog  # noqa: F401, PLC0415 - loaded for whoever comes next
    finally:
        del sys.modules["rich"]


def _load_aiohttp() -> None:
    usual = ssl.SSLContext.load_default_certs
    ssl.SSLContext.load_default_certs = _load_later  # type: ignore[assignment, method-assign]
    try:
        import aiohttp  # noqa: F401, PLC0415 - loaded for whoever comes next
    finally:
        ssl.SSLContext.load_default_certs = usual  # type: ignore[method-assign]


if "structlog" not in sys.modules and "rich" not in sys.modules:
    _load_structlog()
if "aiohttp" not in sys.modules:
    _load_aiohttp()
