"""Credentials from a program or a provider (exec plugins, OIDC, cloud accounts).

No other module imports kubernetes_asyncio, which costs half a second and 70 MB. This module is only loaded for kubeconfigs that
need it.
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

from pyroclast.kube.basics.errors import ConnectionFailed
from pyroclast.kube.basics.retry import jittered_backoff
from pyroclast.kube.credentials.certificates import Identity

log = structlog.get_logger()

LOOK_SECONDS: Final = 60.0
"""Seconds between two requests to the loader for a token without an expiry; the loader contacts the provider if necessary."""

REFUSED_SECONDS: Final = 5.0
"""Seconds for which a plugin is not called again after a call, even if the server refuses the credentials."""

LEEWAY_SECONDS: Final = 10.0
"""Seconds before their expiry at which credentials are no longer used."""

ASK_SECONDS: Final = 60.0
"""Seconds after which a plugin is stopped."""

WATCHED: Final = """
import subprocess, sys
try:
    sys.exit(subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL, timeout=float(sys.argv[1]), check=False).returncode)
except subprocess.TimeoutExpired:
    sys.exit(f"no answer within {sys.argv[1]} s")
"""
"""Runs a plugin with a time limit and without input, so that the plugin cannot wait for a user."""


@dataclass(frozen=True, slots=True)
class _Given:
    """Credentials from a plugin or provider.

    `until` and `asked` (expiry and time of the request) are in seconds since the epoch.
    """

    header: str = field(repr=False)
    identity: Identity | None
    until: float
    asked: float


class CloudCredentials:
    """The credentials that a plugin or provider gives to the user of a kubeconfig's current context: a token or a client
    certificate.

    One request at a time serves all waiting callers. A new request is made only when the credentials expire or the server refuses
    them.
    """

    def __init__(
        self, kubeconfig: Path, context: str, clock: Callable[[], float] = time.time, *, files: Sequence[Path] = ()
    ) -> None:
        """`kubeconfig` contains the user; `files` are all merged files, by default only `kubeconfig`."""
        self._kubeconfig = kubeconfig
        self._files = files or (kubeconfig,)
        self._context = context
        self._clock = clock
        self._given: _Given | None = None
        self._asking: asyncio.Task[_Given] | None = None
        self._loader: _Loader | None = None
        self._backoff = jittered_backoff(1.0, 30.0)
        self._failure = ""
        self._not_before = 0.0

    @property
    def identity(self) -> Identity | None:
        """The client certificate; None when the credentials are a token."""
        return self._given.identity if self._given is not None else None

    async def authorization(self, *, refused: str | None = None) -> str:
        """Return the header. Asks the plugin or provider when there is no header, it has expired, or the server refused this
        header.
        """
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
            async with asyncio.timeout(ASK_SECONDS + LEEWAY_SECONDS):  # a plugin is stopped earlier than that
                return await (
                    self._run_plugin(self._loader) if self._loader.plugin else self._load(self._loader, refused=refused)
                )
        except TimeoutError:
            raise self._failed("no answer in time") from None
        except Exception as error:  # the library, the plugin or the provider may raise any error
            self._loader = None  # the file may have been corrected before the next attempt
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
    """The library's loader, which also writes refreshed tokens to the file, and checks the certificate of a provider."""

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
        """The configuration of the exec plugin; None when the user has no plugin."""
        return self._user["exec"] if self._user is not None and "exec" in self._user else None

    async def renew(self) -> None:
        """Request a new token from an OIDC provider, even if the present token has not expired."""
        if self.provider == "oidc" and self._user is not None:
            await self._refresh_oidc(self._user["auth-provider"])

    async def _refresh_oidc(self, provider: Any) -> None:  # noqa: ANN401 - a node of the library
        """Refresh like the library, but check the provider's certificate, and accept a response without a new refresh token."""
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
    """The library's client of an OIDC provider, with verified TLS."""

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
    """Write a refreshed token to the file for the next start, because many providers accept a refresh token only once."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=kubeconfig.parent, delete=False) as file:
            yaml.safe_dump(document, file, sort_keys=False)
        Path(file.name).replace(kubeconfig)
    except OSError as error:
        log.warning("kubeconfig.not_saved", file=str(kubeconfig), error=str(error))
