"""Credentials that come from a program or a provider (exec plugins, OIDC, cloud accounts).

The one module that imports kubernetes_asyncio, which costs half a second and 70 MB: loaded only for kubeconfigs that need it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_kube_config

from pyroclast.kube.errors import ConnectionFailed

__all__ = ["CloudCredentials"]

REFRESH_SECONDS: Final = 60.0  # the loader itself looks at the expiry; this only bounds how often it is asked


class CloudCredentials:
    """The token that the user of a kubeconfig's current context gets from its plugin or provider."""

    def __init__(self, kubeconfig: Path, context: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._clock = clock
        self._asked = float("-inf")
        self._header = ""

    async def authorization(self, *, refresh: bool = False) -> str:
        """The header; asks the plugin or provider again when the token may have ended."""
        now = self._clock()
        if refresh or now - self._asked >= REFRESH_SECONDS:
            self._header = await self._ask()
            self._asked = now
        return self._header

    async def _ask(self) -> str:
        configuration: Any = Configuration()
        try:
            await load_kube_config(
                config_file=str(self._kubeconfig), context=self._context, client_configuration=configuration, persist_config=False
            )
        except (ConfigException, OSError, ValueError) as error:
            raise ConnectionFailed(f"kubeconfig {self._kubeconfig}: no credentials: {error}", sent=False) from error
        token = configuration.api_key.get("BearerToken", "")
        if not token:
            raise ConnectionFailed(f"kubeconfig {self._kubeconfig}: the credential plugin gave no token", sent=False)
        return str(token)
