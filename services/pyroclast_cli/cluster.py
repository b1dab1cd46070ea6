"""Finds the API server as kubectl does: flags, environment, the usual file, and at last the pod's own account."""

from __future__ import annotations

from pyroclast import lean

lean.prepare()

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from pyroclast.kube.client import Client
from pyroclast.kube.config import ClusterConfig, load_config
from pyroclast.runtime import logs

__all__ = ["configuration", "configuration_files", "connected"]

DEFAULT_SERVER: Final = "http://localhost:8080"
MAX_ATTEMPTS: Final = 3  # a person waits


def configuration(kubeconfig: str, master: str, context: str = "", environ: Mapping[str, str] = os.environ) -> ClusterConfig:
    """Where the API server is and who we are there. Several files in KUBECONFIG are merged; those that do not exist are skipped.

    Raises:
        ConfigError: a kubeconfig that cannot be used.
    """
    if kubeconfig:
        return load_config(kubeconfig, master=master, context=context)
    listed = [Path(each) for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    if found := [path for path in configuration_files("", environ) if path.is_file()]:
        return load_config(found, master=master, context=context)
    if listed:
        return load_config(str(listed[0]), master=master)  # says that there is no such file
    if master or not environ.get("KUBERNETES_SERVICE_HOST"):
        return load_config("", master=master or environ.get("KUBERNETES_MASTER") or DEFAULT_SERVER)
    return load_config()


def configuration_files(kubeconfig: str, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The files that a configuration is read from; they may not exist."""
    if kubeconfig:
        return [Path(kubeconfig).expanduser()]
    listed = [Path(each) for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return listed or [Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"]


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
