"""Finds the API server as kubectl does: from flags, the environment, the default kubeconfig, or the pod's service account."""

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

DEFAULT_SERVER: Final = "http://localhost:8080"
MAX_ATTEMPTS: Final = 3  # few, because a person waits


def configuration(kubeconfig: str, master: str, context: str = "", environ: Mapping[str, str] = os.environ) -> ClusterConfig:
    """Return the address of the API server and the user's credentials.

    Several files in KUBECONFIG are merged. A file that does not exist is skipped.

    Raises:
        ConfigError: a kubeconfig is invalid.
    """
    return find_config(kubeconfig, master=master, context=context, environ=environ, default_server=DEFAULT_SERVER)


@asynccontextmanager
async def connected(kubeconfig: str, master: str, context: str = "") -> AsyncIterator[Client]:
    """Open a client of the API server."""
    logs.set_level("critical")  # the commands print errors themselves
    config = configuration(kubeconfig, master, context)
    async with Client(config, max_attempts=MAX_ATTEMPTS, user_agent="vcctl", on_warning=_warn) as client:
        yield client


def _warn(text: str) -> None:
    """Print a warning of the API server, as kubectl does."""
    sys.stderr.write(f"Warning: {text}\n")
