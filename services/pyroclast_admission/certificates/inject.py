"""Telling the API server whom to trust: the bundle goes into our webhook configurations, and goes there again when it is lost."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Collection, Mapping
from typing import Final

import structlog

from pyroclast.api.records.meta import ObjectRecord, Wire
from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.client import Client
from pyroclast.kube.errors import Conflict, KubeError, NotFound
from pyroclast.kube.informer import Informer

__all__ = ["BundleInjector", "Configuration"]

log = structlog.get_logger()

RETRY_SECONDS: Final = 1.0


class ClientConfig(Wire, frozen=True, kw_only=True):
    """How the API server reaches a webhook."""

    ca_bundle: str = ""


class Entry(Wire, frozen=True, kw_only=True):
    """One webhook of a configuration."""

    name: str = ""
    client_config: ClientConfig = ClientConfig()


class Configuration(ObjectRecord, frozen=True, kw_only=True):
    """A mutating or validating webhook configuration."""

    webhooks: tuple[Entry, ...] = ()


class BundleInjector:
    """Keeps the CA bundle of the named configurations what it should be.

    Args:
        client: the API server.
        names: names of our configurations, by the type they have.
    """

    def __init__(self, client: Client, names: Mapping[ResourceType, Collection[str]]) -> None:
        self._client = client
        self._names = names
        self._bundle = b""
        self._wake = asyncio.Event()
        self.informers = {kind: Informer(client, kind, Configuration) for kind in names}
        for informer in self.informers.values():
            informer.on_change(lambda _old, _new: self._wake.set())

    def tell(self, bundle: bytes) -> None:
        """From now on the API server shall trust `bundle` (PEM)."""
        self._bundle = bundle
        self._wake.set()

    def pending(self) -> str | None:
        """What keeps the API server from trusting us; None when nothing does."""
        if not self._bundle:
            return "no certificates yet"
        for kind, names in self._names.items():
            for name in names:
                configuration = self.informers[kind].get(Key("", name))
                if configuration is None:
                    return f"{kind.kind} {name} is not installed"
                if not self._is_told(configuration):
                    return f"{kind.kind} {name} has no CA bundle yet"
        return None

    async def run(self) -> None:
        """Keep the bundles right until cancelled. The informers must be running."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            failed = [
                not await self._bring(kind, name)
                for kind, names in self._names.items()
                for name in names
                if self._bundle and self._is_behind(kind, name)
            ]
            if any(failed):
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()

    def _is_behind(self, kind: ResourceType, name: str) -> bool:
        configuration = self.informers[kind].get(Key("", name))
        return configuration is not None and not self._is_told(configuration)

    def _is_told(self, configuration: Configuration) -> bool:
        wanted = base64.b64encode(self._bundle).decode()
        return all(entry.client_config.ca_bundle == wanted for entry in configuration.webhooks)

    async def _bring(self, kind: ResourceType, name: str) -> bool:
        """Write the bundle into one configuration; whether it is there now."""
        wanted = base64.b64encode(self._bundle).decode()
        try:
            configuration = await self._client.get(kind, Key("", name))
            for entry in configuration.get("webhooks") or []:
                entry["clientConfig"] = {**entry["clientConfig"], "caBundle": wanted}
            await self._client.update(kind, configuration)
        except NotFound:
            return True  # it will come as an event when it is installed
        except Conflict:
            return False
        except KubeError as error:
            log.warning("bundle.refused", configuration=name, error=str(error))
            return False
        log.info("bundle.injected", configuration=name)
        return True
