"""Writes the CA bundle into our webhook configurations, and writes it again after it was lost.

Each configuration is written twice, because kube-apiserver compiles it and keeps the result until the next change. When a change
arrives during the compilation, kube-apiserver keeps the result from before it, without our bundle, for good. So CONFIRM_SECONDS
later the injector adds a digest of the bundle as an annotation: this change makes kube-apiserver compile it with the bundle.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from pyroclast.api import keys
from pyroclast.api.records.meta import ObjectRecord, Wire
from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.errors import Conflict, Invalid, KubeError, NotFound
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.watch.informer import Informer

log = structlog.get_logger()

RETRY_SECONDS: Final = 1.0
CONFIRM_SECONDS: Final = 1.0
DIGEST: Final = "pyroclast.dev/ca-bundle"


class ClientConfig(Wire, frozen=True, kw_only=True):
    """The `clientConfig` of a webhook: how the API server reaches the webhook."""

    ca_bundle: str = ""


class Entry(Wire, frozen=True, kw_only=True):
    """One webhook of a configuration."""

    name: str = ""
    client_config: ClientConfig = ClientConfig()


class Configuration(ObjectRecord, frozen=True, kw_only=True):
    """A mutating or validating webhook configuration."""

    webhooks: tuple[Entry, ...] = ()

    def holds(self, bundle: str) -> bool:
        """Whether each webhook of the configuration has `bundle` (base64)."""
        return all(entry.client_config.ca_bundle == bundle for entry in self.webhooks)

    def confirms(self, bundle: str) -> bool:
        """Whether the configuration has the digest of `bundle` (base64) as an annotation."""
        return self.metadata.annotations.get(DIGEST) == _digest(bundle)


class BundleInjector:
    """Keeps the CA bundle in the configurations in `names`, by resource type, that are installed.

    Each has an informer of its own, because a role by object name allows only a watch of one named object.
    """

    def __init__(self, client: Client, names: Mapping[ResourceType, Iterable[str]]) -> None:
        self._client = client
        self._known: tuple[bytes, datetime] | None = None
        self._bundle = ""
        self._held_since: dict[tuple[str, str], float] = {}
        self._wake = asyncio.Event()
        self.informers = {
            name: Informer(client, kind, Configuration, field_selector=f"metadata.name={name}")
            for kind, of_kind in names.items()
            for name in of_kind
        }
        for informer in self.informers.values():
            informer.on_change(self._changed)

    def _changed(self, old: Configuration | None, new: Configuration | None) -> None:
        if old is not None and new is None:
            log.error("webhooks.deleted", configuration=old.metadata.name, help="helm upgrade installs it again")
        self._wake.set()

    def trust(self, bundle: bytes) -> None:
        """Write `bundle` (PEM) into the configurations from now on."""
        self._bundle = base64.b64encode(bundle).decode()
        self._wake.set()

    def pending(self) -> str | None:
        """Return the reason why the API server does not trust our certificates yet. None when it trusts them."""
        if not self._bundle:
            return "no certificates yet"
        if not all(informer.has_synced for informer in self.informers.values()):
            return "webhook configurations are not listed yet"
        if self.informers and not any(len(informer) for informer in self.informers.values()):
            return "none of our webhook configurations is installed"
        behind = next(self._behind(), None)
        return f"webhook configuration {behind.metadata.name} has no CA bundle yet" if behind else None

    def missing(self) -> list[str]:
        """Return the configurations that are not installed, although their webhooks are served: nobody reviews their objects."""
        return [name for name, informer in self.informers.items() if informer.has_synced and not len(informer)]

    def known_since(self, authority: bytes) -> datetime | None:
        """Return the time since which every configuration has `authority` (PEM) and its bundle is confirmed; else None."""
        holds = all(informer.has_synced for informer in self.informers.values()) and all(
            authority.strip() in _decoded(entry.client_config.ca_bundle) and configuration.confirms(entry.client_config.ca_bundle)
            for configuration in self._installed()
            for entry in configuration.webhooks
        )
        if not holds:
            self._known = None
        elif self._known is None or self._known[0] != authority:
            self._known = (authority, datetime.now(UTC))
        return self._known[1] if self._known is not None else None

    async def run(self) -> None:
        """Keep the bundles current until cancelled. The informers must be running."""
        while True:
            pause = await self._write_what_is_due() if self._bundle else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            self._wake.clear()

    async def _write_what_is_due(self) -> float | None:
        """Write what is due. Return the seconds until the next confirmation; None when a configuration must change first."""
        written = [await self._inject(configuration) for configuration in list(self._behind())]
        now = asyncio.get_running_loop().time()
        held = [each for each in self._installed() if each.holds(self._bundle) and not each.confirms(self._bundle)]
        keys = [(each.metadata.name, self._bundle) for each in held]
        self._held_since = {key: self._held_since.get(key, now) for key in keys}
        waits = [self._held_since[key] + CONFIRM_SECONDS - now for key in keys]
        written += [await self._confirm(each) for each, wait in zip(held, waits, strict=True) if wait <= 0]
        if not all(written):
            return RETRY_SECONDS
        return min((wait for wait in waits if wait > 0), default=None)

    def _installed(self) -> Iterator[Configuration]:
        for informer in self.informers.values():
            yield from informer.values()

    def _behind(self) -> Iterator[Configuration]:
        return (configuration for configuration in self._installed() if not configuration.holds(self._bundle))

    async def _inject(self, configuration: Configuration) -> bool:
        guard = {"op": "test", "path": "/metadata/resourceVersion", "value": configuration.metadata.resource_version}
        bundle = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": self._bundle}
            for index in range(len(configuration.webhooks))
        ]
        return await self._patch(configuration, [guard, *bundle], PatchKind.JSON, "bundle.injected")

    async def _confirm(self, configuration: Configuration) -> bool:
        annotations = {DIGEST: _digest(self._bundle), keys.WEBHOOKS: str(len(self.informers))}
        metadata = {"resourceVersion": configuration.metadata.resource_version, "annotations": annotations}
        return await self._patch(configuration, {"metadata": metadata}, PatchKind.MERGE, "bundle.confirmed")

    async def _patch(
        self,
        configuration: Configuration,
        patch: Any,  # noqa: ANN401 - a JSON value
        kind: PatchKind,
        done: str,
    ) -> bool:
        """Patch a configuration. Return False when the patch failed and must be tried again."""
        name = configuration.metadata.name
        try:
            await self._client.patch(self.informers[name].kind, Key("", name), patch, kind)
        except NotFound:
            return True
        except (Conflict, Invalid):
            return False  # another client changed the configuration: its watch event follows, or has arrived
        except KubeError as error:
            log.warning("bundle.refused", configuration=name, error=str(error))
            return False
        log.info(done, configuration=name)
        return True


def _digest(bundle: str) -> str:
    return hashlib.sha256(bundle.encode()).hexdigest()[:16]


def _decoded(bundle: str) -> bytes:
    try:
        return base64.b64decode(bundle)
    except ValueError:  # binascii.Error is a ValueError, and text that is not ASCII raises ValueError too
        return b""
