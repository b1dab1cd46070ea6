"""Telling the API server whom to trust: the bundle goes into our webhook configurations, and goes there again when it is lost."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import structlog

from pyroclast.api.records.meta import ObjectRecord, Wire
from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.client import Client, PatchKind
from pyroclast.kube.errors import Conflict, Invalid, KubeError, NotFound
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
    """Keeps the CA bundle of the named configurations what it should be; those that are not installed are left out.

    Each has an informer of its own: a role that names the objects it is for allows no other watch.

    Args:
        client: the API server.
        names: names of our configurations, by the type they have.
        now: the time, UTC.
    """

    def __init__(
        self,
        client: Client,
        names: Mapping[ResourceType, Iterable[str]],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._now = now
        self._known: tuple[bytes, datetime] | None = None
        self._bundle = ""
        self._wake = asyncio.Event()
        self.informers = {
            name: Informer(client, kind, Configuration, field_selector=f"metadata.name={name}")
            for kind, of_kind in names.items()
            for name in of_kind
        }
        for informer in self.informers.values():
            informer.on_change(lambda _old, _new: self._wake.set())

    def tell(self, bundle: bytes) -> None:
        """From now on the API server shall trust `bundle` (PEM)."""
        self._bundle = base64.b64encode(bundle).decode()
        self._wake.set()

    def pending(self) -> str | None:
        """What keeps the API server from trusting us; None when nothing does."""
        if not self._bundle:
            return "no certificates yet"
        if not all(informer.has_synced for informer in self.informers.values()):
            return "webhook configurations are not listed yet"
        if self.informers and not any(len(informer) for informer in self.informers.values()):
            return "none of our webhook configurations is installed"
        behind = next(self._behind(), None)
        return f"webhook configuration {behind.metadata.name} has no CA bundle yet" if behind else None

    def known_since(self, authority: bytes) -> datetime | None:
        """From when on every bundle that is installed was seen to hold `authority` (PEM); None: one does not, or is not seen."""
        holds = all(informer.has_synced for informer in self.informers.values()) and all(
            authority.strip() in _decoded(entry.client_config.ca_bundle)
            for informer in self.informers.values()
            for configuration in informer.values()
            for entry in configuration.webhooks
        )
        if not holds:
            self._known = None
        elif self._known is None or self._known[0] != authority:
            self._known = (authority, self._now())
        return self._known[1] if self._known is not None else None

    async def run(self) -> None:
        """Keep the bundles right until cancelled. The informers must be running."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self._bundle:
                continue
            written = [await self._bring(configuration) for configuration in list(self._behind())]
            if not all(written):
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()

    def _behind(self) -> Iterator[Configuration]:
        """The configurations that are installed and do not have the bundle."""
        for informer in self.informers.values():
            for configuration in informer.values():
                if any(entry.client_config.ca_bundle != self._bundle for entry in configuration.webhooks):
                    yield configuration

    async def _bring(self, configuration: Configuration) -> bool:
        """Write the bundle into one configuration; whether that is done, or the change that prevented it will wake us."""
        name, version = configuration.metadata.name, configuration.metadata.resource_version
        bundle = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": self._bundle}
            for index in range(len(configuration.webhooks))
        ]
        guard = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
        try:
            await self._client.patch(self.informers[name].kind, Key("", name), [guard, *bundle], PatchKind.JSON)
        except NotFound:
            return True
        except (Conflict, Invalid):
            return False  # somebody changed it; the event comes, or has come
        except KubeError as error:
            log.warning("bundle.refused", configuration=name, error=str(error))
            return False
        log.info("bundle.injected", configuration=name)
        return True


def _decoded(bundle: str) -> bytes:
    try:
        return base64.b64decode(bundle)
    except ValueError:  # binascii.Error is one, and so is what text that is not ASCII raises
        return b""
