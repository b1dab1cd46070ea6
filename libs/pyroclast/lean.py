"""Loads structlog and aiohttp without work that the Pyroclast processes do not need.

structlog imports rich, if installed, for a kind of traceback that Pyroclast does not print. That costs each process 0.1 s and 7
MB.

aiohttp reads the CAs that the system trusts twice, although Pyroclast's API servers have their own CAs. Reading the CAs takes as
long as loading all of aiohttp's code.

Modules stay in memory. When Python's garbage collector scans the modules, the scan takes a tenth of the loading time. Without
`gc.freeze`, Python scans the modules again when the process ends.
"""

from __future__ import annotations

import atexit
import gc
import ssl
import sys
from typing import Any, Final

COLLECTIONS: Final = (5_000, 5, 800)
"""Thresholds of the garbage collector: new objects before a young collection, young collections before a middle one, middle
collections before a full one.

A middle collection scans 25,000 objects, which blocks the event loop for about 4 ms.

Long-lived objects (records and documents) are in no reference cycle, and neither are the objects that a request creates and
drops.
"""

SWITCH_SECONDS: Final = 0.001
"""Seconds for which another thread, such as a deciding or importing one, may keep the interpreter while the event loop waits."""


class TrustsWhenUsed(ssl.SSLContext):
    """A TLS context that reads the CAs of the system before its first connection, and is an ordinary context afterwards."""

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:  # noqa: ANN401 - arguments of SSLContext
        """Read the CAs of the system, then do what `ssl.SSLContext.wrap_bio` does."""
        return self._ready().wrap_bio(*arguments, **options)

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:  # noqa: ANN401 - arguments of SSLContext
        """Read the CAs of the system, then do what `ssl.SSLContext.wrap_socket` does."""
        return self._ready().wrap_socket(*arguments, **options)

    def _ready(self) -> ssl.SSLContext:
        self.__class__ = ssl.SSLContext  # type: ignore[assignment]  # mypy does not know that layouts are the same
        self.set_default_verify_paths()
        return self


def _load_later(context: ssl.SSLContext) -> None:
    context.__class__ = TrustsWhenUsed


def load_structlog() -> None:
    """Import structlog without rich, so that later imports find it loaded."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # how Python marks what cannot be imported
    try:
        import structlog  # noqa: F401, PLC0415 - see above
    finally:
        del sys.modules["rich"]


def load_aiohttp() -> None:
    """Import aiohttp without reading the CAs of the system, so that later imports find it loaded."""
    if "aiohttp" in sys.modules:
        return
    ssl.SSLContext.set_default_verify_paths = _load_later  # type: ignore[assignment, method-assign]
    try:
        import aiohttp  # noqa: F401, PLC0415 - see above
    finally:
        del ssl.SSLContext.set_default_verify_paths  # the inherited method applies again


def prepare(*, logs: bool = True) -> None:
    """Make this process lean. A program calls this function first, before it loads anything else.

    `logs`: whether the program will load structlog. The changes apply to the whole process, so no library makes them.
    """
    gc.set_threshold(*COLLECTIONS)
    sys.setswitchinterval(SWITCH_SECONDS)
    atexit.register(gc.freeze)  # Python collects at its end, but does not scan frozen objects
    if logs:
        load_structlog()
    load_aiohttp()
