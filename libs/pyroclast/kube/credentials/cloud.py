"""Credentials that come from a program or a provider (exec plugins, OIDC, cloud accounts).

The one module that imports kubernetes_asyncio, which costs half a second and 70 MB: loaded only for kubeconfigs that need it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import structlog
import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config.exec_provider import ExecProvider
from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger
from kubernetes_asyncio.config.openid import OpenIDRequestor

from pyroclast.kube.basics.backoff import Backoff
from pyroclast.kube.basics.errors import ConnectionFailed
from pyroclast.kube.credentials.certificates import Identity

__all__ = ["CloudCredentials"]

log = structlog.get_logger()

LOOK_SECONDS: Final = 60.0
"""How often the loader is asked for a token that does not say when it ends; it asks the provider if need be."""

REFUSED_SECONDS: Final = 5.0
"""How long after it was asked a plugin is not asked again, though the server refuses what it gave."""

LEEWAY_SECONDS: Final = 10.0
"""Credentials that end so soon are not used any more."""

ASK_SECONDS: Final = 60.0
"""A plugin that takes longer is ended."""

WATCHED: Final = """
import subprocess, sys
try:
    sys.exit(subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL, timeout=float(sys.argv[1]), check=False).returncode)
except subprocess.TimeoutExpired:
    sys.exit(f"no answer within {sys.argv[1]} s")
"""
"""Runs a plugin so that it ends in time and cannot wait for what nobody types."""


@dataclass(frozen=True, slots=True)
class _Given:
    """What plugin or provider gave; `until` in seconds since the epoch."""

    header: str = field(repr=False)
    identity: Identity | None
    until: float
    asked: float


class CloudCredentials:
    """What the user of a kubeconfig's current context gets from its plugin or provider: a token, or a client certificate.

    One caller at a time asks it, for all who wait, and again only when what it gave ends or the server refuses it.
    """

    def __init__(
        self, kubeconfig: Path, context: str, clock: Callable[[], float] = time.time, *, files: Sequence[Path] = ()
    ) -> None:
        """`kubeconfig` has the user; `files` are all that are merged, by default that one alone."""
        self._kubeconfig = kubeconfig
        self._files = files or (kubeconfig,)
        self._context = context
        self._clock = clock
        self._given: _Given | None = None
        self._asking: asyncio.Task[_Given] | None = None
        self._loader: _Loader | None = None
        self._backoff = Backoff(1.0, 30.0)
        self._failure = ""
        self._not_before = 0.0

    @property
    def identity(self) -> Identity | None:
        """The client certificate, if that is what was given."""
        return self._given.identity if self._given is not None else None

    async def authorization(self, *, refused: str | None = None) -> str:
        """The header; asks the plugin or provider when there is none yet, it ends, or the server refused just this one."""
        given, now = self._given, self._clock()
        if given is not None and now < given.until and (refused != given.header or now < given.asked + REFUSED_SECONDS):
            return given.header
        if self._asking is None:
            if now < self._not_before:
                raise ConnectionFailed(self._failure, sent=False)
            self._asking = asyncio.get_running_loop().create_task(self._ask(refused=refused is not None))
            self._asking.add_done_callback(self._answered)
        return (await asyncio.shield(self._asking)).header

    def _answered(self, asking: asyncio.Task[_Given]) -> None:
        self._asking = None
        if asking.cancelled():
            return
        error = asking.exception()
        if error is None:
            self._given = asking.result()
            self._backoff.reset()
        else:
            self._failure = str(error)
            self._not_before = self._clock() + self._backoff.next()

    async def _ask(self, *, refused: bool) -> _Given:
        if self._loader is None:
            self._loader = _Loader.of(self._kubeconfig, self._files, self._context)
        try:
            async with asyncio.timeout(ASK_SECONDS + LEEWAY_SECONDS):  # a plugin ends before
                return await (
                    self._run_plugin(self._loader) if self._loader.plugin else self._load(self._loader, refused=refused)
                )
        except TimeoutError:
            raise self._failed("no answer in time") from None
        except Exception as error:  # whatever the library, the plugin or the provider came up with
            self._loader = None  # the file may be right by the next time
            raise self._failed(str(error) or type(error).__name__) from error

    async def _run_plugin(self, loader: _Loader) -> _Given:
        provider = ExecProvider(loader.plugin)
        command = provider.args[0]
        if os.sep in command and not os.path.isabs(command):
            provider.args[0] = str(self._kubeconfig.parent / command)
        provider.args = [sys.executable, "-c", WATCHED, str(ASK_SECONDS), *provider.args]
        status: dict[str, Any] = await provider.run()
        token, certificate, key = (str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData"))
        if not token and not (certificate and key):
            raise ValueError("the plugin gave neither token nor clientCertificateData with clientKeyData")
        ends = status.get("expirationTimestamp")
        now = self._clock()
        until = datetime.fromisoformat(ends).timestamp() - LEEWAY_SECONDS if ends else float("inf")
        identity = Identity(certificate.encode(), key.encode()) if certificate else None
        return _Given(f"Bearer {token}" if token else "", identity, until, now)

    async def _load(self, loader: _Loader, *, refused: bool) -> _Given:
        if refused:
            await loader.renew()
        configuration: Any = Configuration()
        await loader.load_and_set(configuration)
        header = str(configuration.api_key.get("BearerToken", ""))
        if not header:
            raise ValueError("the provider gave no token")
        now = self._clock()
        return _Given(header, None, now + LOOK_SECONDS, now)

    def _failed(self, why: str) -> ConnectionFailed:
        return ConnectionFailed(f"kubeconfig {self._kubeconfig}: no credentials: {why}", sent=False)


class _Loader(KubeConfigLoader):
    """The library's loader, whose refreshed tokens are kept in the file, and who trusts a provider by its certificate."""

    @classmethod
    def of(cls, kubeconfig: Path, files: Sequence[Path], context: str) -> _Loader:
        merger = KubeConfigMerger(os.pathsep.join(map(str, files)))
        return cls(
            merger.config,
            active_context=context,
            config_persister=lambda _: _save(kubeconfig, merger.config_files[str(kubeconfig)]),
        )

    @property
    def plugin(self) -> Any:  # noqa: ANN401 - a node of the library
        """How to run the exec plugin; None when the user has none."""
        return self._user["exec"] if self._user is not None and "exec" in self._user else None

    async def renew(self) -> None:
        """Ask an OIDC provider for another token, though the one there is has not ended."""
        if self.provider == "oidc" and self._user is not None:
            await self._refresh_oidc(self._user["auth-provider"])

    async def _refresh_oidc(self, provider: Any) -> None:  # noqa: ANN401 - a node of the library
        """As the library does, but the provider's certificate is checked, and it need not give a new refresh token."""
        config: dict[str, str] = provider["config"].value
        if "refresh-token" not in config:
            raise ValueError("oidc: the id-token has ended, and there is no refresh-token")
        requestor = _Requestor(config["client-id"], config.get("client-secret", ""), config["idp-issuer-url"])
        requestor.tls = _trust(config)
        answer = await requestor.refresh_token(config["refresh-token"])
        config["id-token"] = answer["id_token"]
        config["refresh-token"] = answer.get("refresh_token") or config["refresh-token"]
        self._config_persister(None)


class _Requestor(OpenIDRequestor):
    """The library's client of an OIDC provider, with TLS that is checked."""

    tls: ssl.SSLContext

    def _client_session(self) -> aiohttp.ClientSession:
        who = base64.b64encode(f"{self._client_id}:{self._client_secret}".encode()).decode()
        return aiohttp.ClientSession(
            headers={**self._default_headers, "Authorization": f"Basic {who}"},
            connector=aiohttp.TCPConnector(ssl=self.tls),
            raise_for_status=True,
            trust_env=True,
        )


def _trust(config: dict[str, str]) -> ssl.SSLContext:
    if data := config.get("idp-certificate-authority-data"):
        return ssl.create_default_context(cadata=base64.b64decode(data).decode())
    return ssl.create_default_context(cafile=config.get("idp-certificate-authority"))


def _save(kubeconfig: Path, document: Any) -> None:  # noqa: ANN401 - a document
    """Keep a token that replaced another in the file, for after a restart: many providers take a refresh token only once."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=kubeconfig.parent, delete=False) as file:
            yaml.safe_dump(document, file, sort_keys=False)
        Path(file.name).replace(kubeconfig)
    except OSError as error:
        log.warning("kubeconfig.not_saved", file=str(kubeconfig), error=str(error))
