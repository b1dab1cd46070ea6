"""Finds the API server as kubectl does: flags, environment, the usual file, and at last the pod's own account."""

from __future__ import annotations

from pyroclast import lean

lean.prepare()

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from pyroclast.kube.credentials.config import ClusterConfig, find_config
from pyroclast.kube.http.client import Client
from pyroclast.runtime import logs

__all__ = ["configuration", "connected"]

DEFAULT_SERVER: Final = "http://localhost:8080"
MAX_ATTEMPTS: Final = 3  # a person waits


def configuration(kubeconfig: str, master: str, context: str = "", environ: Mapping[str, str] = os.environ) -> ClusterConfig:
    """Where the API server is and who we are there. Several files in KUBECONFIG are merged; those that do not exist are skipped.

    Raises:
        ConfigError: a kubeconfig that cannot be used.
    """
    return find_config(kubeconfig, master=master, context=context, environ=environ, default_server=DEFAULT_SERVER)


@asynccontextmanager
async def connected(kubeconfig: str, master: str, context: str = "") -> AsyncIterator[Client]:
    """A client of the API server."""
    logs.set_level("critical")  # users are told in our words
    config = configuration(kubeconfig, master, context)
    async with Client(config, max_attempts=MAX_ATTEMPTS, user_agent="vcctl", on_warning=_warn) as client:
        yield client


def _warn(text: str) -> None:
    """Say what the API server warns of, as kubectl does."""
    sys.stderr.write(f"Warning: {text}\n")
