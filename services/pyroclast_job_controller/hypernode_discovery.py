"""Creates the HyperNodes that the configured sources discover, and deletes the HyperNodes that the sources no longer discover."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final

import aiohttp
import structlog

from pyroclast.api.records import ConfigMap, HyperNode, NodeMeta
from pyroclast.api.types import CONFIG_MAPS, HYPER_NODES, SECRETS, Key
from pyroclast.kube.basics.errors import ApiError, NotFound
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.http.client import PatchKind
from pyroclast.kube.http.response_records import has_deleted, record_of
from pyroclast.kube.workqueue.rejections import Refusals
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.hypernodes import configuration, labels
from pyroclast.lifecycle.hypernodes.configuration import ConfigurationError, Port, Source, read_ports, read_sources
from pyroclast.lifecycle.hypernodes.discovered import Found, changes
from pyroclast.runtime.bodies import read_at_most
from pyroclast_job_controller.caches import Shared
from pyroclast_job_controller.hypernode_status import HyperNodeCaches

_PATH: Final = "/ufmRest/resources/ports"
_SECONDS: Final = 30.0
_LARGEST: Final = 100 << 20
"""Most bytes of an answer. The answer for a fabric of ten thousand nodes has a tenth of that."""


class UfmError(Exception):
    """UFM gave no usable answer. The message says why."""


def login_of(secret: dict[str, Any]) -> str:
    """Return the header with the user name and the password in a Secret, for basic authentication.

    Raises UfmError: `username` or `password` is missing, or is not base64 of text.
    """
    data = secret.get("data") or {}
    if missing := [name for name in ("username", "password") if not data.get(name)]:
        raise UfmError(f"the Secret has no {' and no '.join(missing)}")
    try:
        name, password = (base64.b64decode(data[name], validate=True).decode() for name in ("username", "password"))
    except ValueError:
        raise UfmError("username and password in the Secret must be text") from None
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


async def fetch_ports(endpoint: str, login: str, *, verify: bool = True) -> list[Port]:
    """Return the ports of the fabric. `endpoint` is host and port, with https as the default scheme.

    Raises UfmError: UFM cannot be reached, refuses the request, or returns an invalid answer.
    """
    url = (endpoint if "://" in endpoint else f"https://{endpoint}").rstrip("/") + _PATH
    try:
        async with (
            aiohttp.ClientSession(headers={"Authorization": login}, timeout=aiohttp.ClientTimeout(_SECONDS)) as session,
            session.get(url, ssl=verify, allow_redirects=False) as response,
        ):
            if response.status != 200:
                raise UfmError(f"{url} answered {response.status} {response.reason}")
            body = await read_at_most(response.content, _LARGEST)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise UfmError(f"{url}: {error or type(error).__name__}") from error
    if body is None:
        raise UfmError(f"{url} answered more than {_LARGEST >> 20} MiB")
    try:
        return read_ports(body)
    except ValueError as error:
        raise UfmError(f"{url}: {error}") from None


log = structlog.get_logger()

_GATHERING: Final = 0.05
"""Seconds in which changes of nodes are collected before a source is queried."""


class DiscoveryController:
    """Reconciles HyperNodes with the sources. The keys of its queue are names of sources."""

    def __init__(self, shared: Shared, queue: ShardedQueue[Key], watched: HyperNodeCaches) -> None:
        self._client, self._recorder, self._shards = shared.client, shared.recorder, shared.shards
        self._queue, self._hyper_nodes, self._nodes = queue, watched.hyper_nodes, watched.nodes
        self._refusals: Refusals[Key] = Refusals(shared.recorder, lambda key: watched.about(key) or watched.about_source(key))
        shared.shards.on_give(self._refusals.clear)
        self._sources: dict[str, Source] = {}
        self._ask: dict[str, Callable[[Source], Awaitable[list[Found] | None]]] = {
            labels.SOURCE: self._by_labels,
            configuration.SOURCE: self._by_ufm,
        }
        self._configuration: ConfigMap | None = None
        self._fault = ""  # the reason why the configuration is invalid
        watched.configuration.on_change(self._configured)
        self._nodes.on_change(self._node)
        self._hyper_nodes.informer.on_change(self._hyper_node)

    def enqueue_all(self) -> None:
        """Query every source of HyperNodes, after this replica became the leader."""
        if self._fault:
            self._complain("InvalidConfiguration", self._fault)
        for name in self._sources:
            self._queue.add(Key("", name))

    async def reconcile(self, key: Key) -> None:
        """Query the source named `key` and update its HyperNodes. If the source gives no answer, nothing changes."""
        source = self._sources.get(key.name)
        if source is None:
            return
        self._queue.add_after(key, source.interval)
        found = await self._ask[source.name](source)
        if found is not None:
            await self._apply(found, source.name)

    async def _by_labels(self, source: Source) -> list[Found]:
        nodes = {node.metadata.name: node.metadata.labels for node in self._nodes.values()}
        return labels.discover(labels.read_types(source.config), nodes, self._there())

    async def _by_ufm(self, source: Source) -> list[Found] | None:
        try:
            login = await self._login(source)
            verify = source.config.get("insecureSkipVerify") is not True
            return configuration.discover(await fetch_ports(str(source.config["endpoint"]), login, verify=verify))
        except UfmError as error:
            self._complain("DiscoveryFailed", f"source ufm: {error}; tried again in {source.interval:.0f} s")
            return None

    async def _login(self, source: Source) -> str:
        namespace, name = source.secret
        try:
            secret = await self._client.get(SECRETS, Key(namespace, name))
        except NotFound:
            raise UfmError(f"credentials.secretRef: there is no Secret {namespace}/{name}") from None
        except ApiError as error:
            if error.status != 403:
                raise
            raise UfmError(f"credentials.secretRef: the Secret {namespace}/{name} may not be read") from None
        return login_of(secret)

    async def _apply(self, found: list[Found], source: str) -> None:
        """Apply the changes. A refused write does not stop the others, and is tried again."""
        todo = changes(found, self._there(), source)
        for name in todo.foreign:
            log.warning("hypernode.foreign", hypernode=name, source=source)
        writes = [
            *((body["metadata"]["name"], partial(self._create, body)) for body in todo.create),
            *((old.metadata.name, partial(self._patch, old, patch)) for old, patch in todo.patch),
            *((old.metadata.name, partial(self._delete, old)) for old in todo.delete),
        ]
        key = Key("", source)

        def each() -> Iterator[tuple[Key, Callable[[], Awaitable[None]]]]:
            for name, write in writes:
                yield Key("", name), write
                self._queue.gets_on(key)

        if pause := await self._refusals.attempt_all(each()):
            self._queue.add_after(key, pause)

    async def _create(self, body: dict[str, object]) -> None:
        made = record_of(await self._client.create(HYPER_NODES, body), HyperNode)
        self._hyper_nodes.put(made)
        log.info("hypernode.created", hypernode=made.metadata.name)

    async def _patch(self, old: HyperNode, patch: dict[str, object]) -> None:
        answer = await self._client.patch(HYPER_NODES, old.key, patch, PatchKind.MERGE)
        self._hyper_nodes.put(record_of(answer, HyperNode))
        log.info("hypernode.updated", hypernode=old.metadata.name)

    async def _delete(self, old: HyperNode) -> None:
        if await has_deleted(self._client.delete(HYPER_NODES, old.key, uid=old.metadata.uid)):
            log.info("hypernode.deleted", hypernode=old.metadata.name)
        self._hyper_nodes.gone(old.key, old.metadata.uid)

    def _there(self) -> list[HyperNode]:
        known = (self._hyper_nodes.get(each.key) for each in self._hyper_nodes.informer.values())
        return [each for each in known if each is not None]

    def _configured(self, _: ConfigMap | None, new: ConfigMap | None) -> None:
        """Apply a changed configuration. When it is invalid, the previous configuration stays in effect."""
        self._configuration, self._fault = new, ""
        try:
            self._sources = read_sources(new.data if new is not None else None)
        except ConfigurationError as error:
            self._fault = f"{error}; the last configuration stays in force"
        else:
            log.info("discovery.configured", sources=sorted(self._sources))
        self.enqueue_all()

    def _node(self, old: NodeMeta | None, new: NodeMeta | None) -> None:
        source = self._sources.get(labels.SOURCE)
        if source is None:
            return
        relevant = {key for kind in labels.read_types(source.config) for key in kind.labels}
        before, after = ({key: each.metadata.labels.get(key) for key in relevant} if each else None for each in (old, new))
        if before != after:
            self._queue.add_after(Key("", labels.SOURCE), _GATHERING)

    def _hyper_node(self, _: HyperNode | None, new: HyperNode | None) -> None:
        if new is None and labels.SOURCE in self._sources:
            self._queue.add_after(Key("", labels.SOURCE), _GATHERING)

    def _complain(self, reason: str, message: str) -> None:
        log.warning("discovery.failed", reason=reason, error=message)
        if self._configuration is not None and self._shards.owns(self._configuration.key):
            self._recorder.event(Reference.of(self._configuration, CONFIG_MAPS), "Warning", reason, message)
