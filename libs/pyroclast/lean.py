"""Loads structlog and aiohttp without the work that our processes have no use for.

structlog imports rich, where it is installed, for a kind of traceback that we do not print: 0.1 s and 7 MB for each process.

aiohttp reads the CAs that the system trusts twice, although our API servers have their own. That takes as long as all of its
code.

Modules stay in memory. Python's search for garbage among them takes a tenth of the time of loading, and again when the process
ends.
"""

from __future__ import annotations

import atexit
import gc
import ssl
import sys
from typing import Any, Final

__all__ = ["COLLECTIONS", "SWITCH_SECONDS", "TrustsWhenUsed", "load_aiohttp", "load_structlog", "prepare"]

COLLECTIONS: Final = (5_000, 5, 800)
"""Objects before a young collection, young ones before a middle one, middle ones before a full one.

A middle one looks through 25,000 objects, which holds the loop for some 4 ms.

What our processes hold for long, records and documents, is in no cycle, nor is what a request makes and drops.
"""

SWITCH_SECONDS: Final = 0.001
"""How long another thread, which decides or imports, may keep the event loop waiting for the interpreter."""


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
        self.set_default_verify_paths()
        return self


def _load_later(context: ssl.SSLContext) -> None:
    context.__class__ = TrustsWhenUsed


def load_structlog() -> None:
    """Import structlog, for whoever comes next."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # how Python marks what cannot be imported
    try:
        import structlog  # noqa: F401, PLC0415 - see above
    finally:
        del sys.modules["rich"]


def load_aiohttp() -> None:
    """Import aiohttp, for whoever comes next."""
    if "aiohttp" in sys.modules:
        return
    ssl.SSLContext.set_default_verify_paths = _load_later  # type: ignore[assignment, method-assign]
    try:
        import aiohttp  # noqa: F401, PLC0415 - see above
    finally:
        del ssl.SSLContext.set_default_verify_paths  # what it inherits


def prepare(*, logs: bool = True) -> None:
    """Make this process lean: for the first lines of a program, before it loads anything else. `logs`: it will load structlog.

    What is changed belongs to the whole process, so no library does this.
    """
    gc.set_threshold(*COLLECTIONS)
    sys.setswitchinterval(SWITCH_SECONDS)
    atexit.register(gc.freeze)  # Python collects at the end, but not what is frozen
    if logs:
        load_structlog()
    load_aiohttp()
