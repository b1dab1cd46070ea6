"""Credentials of the services. Each service has its own ServiceAccount with a token that is renewed long before it expires."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pyroclast.api.types import SERVICE_ACCOUNTS
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.servers import AUDIENCES
from pyroclast_standalone.apiserver.access.identity import kubeconfig, write_private
from pyroclast_standalone.installation import NAMESPACE

LIFETIME_SECONDS = 7 * 24 * 3600  # requested; the server may grant less
RENEW_AT = 0.7  # of the remaining lifetime
LEAST_SECONDS = 60.0  # between two checks


@dataclass(slots=True)
class Accounts:
    """Writes `NAME.kubeconfig` and `NAME.token` into `folder`, for the ServiceAccounts of the services.

    `say` is called with a message for each token that could not be renewed.
    """

    client: Client
    cluster: ClusterConfig
    folder: Path
    say: Callable[[str], None]
    _ends: dict[str, datetime] = field(default_factory=dict, init=False)  # expiry of the token, by account

    async def issue(self, account: str) -> Path:
        """Issue fresh tokens for ServiceAccount `account`. Return the path of its kubeconfig."""
        await self._write_tokens(account)
        path = self.folder / f"{account}.kubeconfig"
        user = {"tokenFile": str(self._token_file(account).resolve())}
        write_private(path, kubeconfig(account, _address(self.cluster), user, namespace=NAMESPACE).encode())
        return path

    async def keep_fresh(self) -> None:
        """Renew all issued tokens before they expire, until cancelled."""
        while True:
            left = min(self._ends.values()).timestamp() - datetime.now(UTC).timestamp()
            await asyncio.sleep(max(LEAST_SECONDS, left * RENEW_AT * random.uniform(0.9, 1.0)))  # noqa: S311 - spreads load
            for account in self._ends:
                try:
                    await self._write_tokens(account)
                except KubeError as error:  # the old token is still valid, and the next check is before it expires
                    self.say(f"the token of {account} was not renewed: {error}")

    async def _write_tokens(self, account: str) -> None:
        for file, audiences in ((self._token_file(account), ()), (self.servers_token(account), AUDIENCES)):
            spec = {"expirationSeconds": LIFETIME_SECONDS, **({"audiences": list(audiences)} if audiences else {})}
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            answer = await self.client.create(SERVICE_ACCOUNTS, body, namespace=NAMESPACE, name=account, subresource="token")
            write_private(file, answer["status"]["token"].encode())
            self._ends[account] = datetime.fromisoformat(answer["status"]["expirationTimestamp"])

    def _token_file(self, account: str) -> Path:
        return self.folder / f"{account}.token"

    def servers_token(self, account: str) -> Path:
        """Return the file with the token that only Pyroclast's own servers take."""
        return self.folder / f"{account}.servers.token"


def _address(cluster: ClusterConfig) -> dict[str, str | bool]:
    """Return the `cluster` entry of a kubeconfig."""
    entry: dict[str, str | bool] = {"server": cluster.server}
    if cluster.authority:
        entry["certificate-authority-data"] = base64.b64encode(cluster.authority.read()).decode()
    if cluster.server_name:
        entry["tls-server-name"] = cluster.server_name
    if cluster.insecure:
        entry["insecure-skip-tls-verify"] = True
    if cluster.proxy:
        entry["proxy-url"] = cluster.proxy
    return entry
