"""Pod logs and commands in containers: requested from the endpoint in the status of the pod's node."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

import aiohttp
from aiohttp import WSMsgType, web

from pyroclast.rules.errors import FieldError, forbidden, invalid
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import Answer, Context, Streamed, Upgraded
from pyroclast_standalone.apiserver.storage.registry import Registry

_ADDRESS_TYPES: Final = ("InternalIP", "ExternalIP", "Hostname")  # simulated nodes have no DNS names
_FORWARDED: Final = ("follow", "previous", "sinceSeconds", "sinceTime", "tailLines", "limitBytes", "timestamps", "stream")
_CONNECT_SECONDS: Final = 10.0
_ALIVE_SECONDS: Final = 30.0
_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")  # those of `kube.http.exec`, whose client the server does not load
_Socket: TypeAlias = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


class Logs:
    """Reads logs from node agents, and starts commands there.

    `client` is the certificate with its key by which a node agent knows this server.
    """

    def __init__(self, registry: Registry, client: tuple[Path, Path]) -> None:
        self._client = client
        self._pods = registry.require("", "v1", "pods").collection
        self._nodes = registry.require("", "v1", "nodes").collection
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections to the nodes."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def answer(self, context: Context) -> Answer | Streamed:
        """Return the log of a container as text."""
        _check_options(context)
        node_name, path = self._place(context)
        if not node_name:
            return Answer(204, b"", "")
        url = f"{self._agent(node_name)}/containerLogs/{path}"
        options = {name: context.query.text(name) for name in _FORWARDED if name in context.query}
        if options:
            url += "?" + urlencode(options)
        return Streamed(await self._open(url), "text/plain")

    def execute(self, context: Context) -> Upgraded:
        """Return the connection of the client with a command in a container."""
        node_name, path = self._place(context)
        if not node_name:
            raise status.bad_request(f"pod {context.info.name} does not have a host assigned")
        url = f"{self._agent(node_name)}/exec/{path}"

        async def serve(request: web.BaseRequest) -> web.StreamResponse:
            target = f"{url}?{request.query_string}"
            try:
                node = await self._opened().ws_connect(target, protocols=_PROTOCOLS)
            except aiohttp.WSServerHandshakeError as error:
                async with self._opened().get(target) as again:  # aiohttp drops the text of the refusal
                    refusal = status.StatusError(error.status, "", (await again.text()).strip())
                return web.json_response(refusal.body(), status=refusal.code)
            except (aiohttp.ClientError, TimeoutError) as error:
                refusal = status.internal(f"error dialing backend: {error}")
                return web.json_response(refusal.body(), status=refusal.code)
            client = web.WebSocketResponse(protocols=_PROTOCOLS, heartbeat=_ALIVE_SECONDS)
            await client.prepare(request)
            async with node, asyncio.TaskGroup() as tasks:
                copies = {tasks.create_task(_messages(client, node)), tasks.create_task(_messages(node, client))}
                await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
                await node.close()
                await client.close()
            return client

        return Upgraded(serve)

    def _place(self, context: Context) -> tuple[str, str]:
        """Return the node of the requested pod, empty before it has one, and the path of its container there."""
        info = context.info
        stored = self._pods.items.get(f"{info.namespace}/{info.name}")
        if stored is None:
            raise status.not_found("", "pods", info.name)
        pod = stored.load()
        container = container_of(pod, context.query.text("container"))
        return pod["spec"].get("nodeName") or "", f"{info.namespace}/{info.name}/{container}"

    def _agent(self, node_name: str) -> str:
        stored = self._nodes.items.get(node_name)
        if stored is None:
            raise status.not_found("", "pods", node_name)
        state: dict[str, Any] = stored.load().get("status") or {}
        endpoint = ((state.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        addresses = {each["type"]: each["address"] for each in state.get("addresses") or ()}
        host = next((addresses[kind] for kind in _ADDRESS_TYPES if kind in addresses), None)
        if not endpoint or host is None:
            raise status.internal(f"no preferred addresses found; known addresses: {sorted(addresses.values())}")
        return f"https://{host}:{endpoint}"

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            context = ssl.create_default_context()
            context.check_hostname = False  # node agents have self-signed certificates, as kubelets do
            context.verify_mode = ssl.CERT_NONE
            context.load_cert_chain(*self._client)
            timeout = aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS)
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0), timeout=timeout)
        return self._session

    async def _open(self, url: str) -> AsyncIterator[bytes]:
        try:
            response = await self._opened().get(url)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise status.StatusError(500, "InternalError", f"Internal error occurred: Get {url!r}: {error}") from error
        if response.status != 200:
            text = (await response.text()).strip()
            response.release()
            reason = {400: "BadRequest", 404: "NotFound"}.get(response.status, "InternalError")
            raise status.StatusError(response.status, reason, text)
        return _chunks(response)


async def _messages(source: _Socket, target: _Socket) -> None:
    """Copy the messages of one side to the other until the side goes."""
    async for message in source:
        if message.type is WSMsgType.BINARY:
            try:
                await target.send_bytes(message.data)
            except ConnectionError:
                return


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    finally:
        response.close()


def _check_options(context: Context) -> None:
    """Reject invalid numbers."""
    faults: list[FieldError] = []
    for name, least in (("tailLines", 0), ("limitBytes", 1), ("sinceSeconds", 1)):
        value = context.query.number(name)
        if value is not None and value < least:
            text = "must be greater than 0" if least else "must be greater than or equal to 0"
            faults.append(invalid(name, value, text))
    if "stream" in context.query:
        faults.append(forbidden("stream", "may not be specified"))
    if faults:
        raise status.invalid("", "PodLogOptions", context.info.name, faults)


def container_of(pod: dict[str, Any], wanted: str) -> str:
    """Return the container whose log is requested."""
    name = pod["metadata"]["name"]
    spec = pod["spec"]
    containers = [each["name"] for each in spec.get("containers") or ()]
    inits = [each["name"] for each in spec.get("initContainers") or ()]
    others = [each["name"] for each in spec.get("ephemeralContainers") or ()]
    if not wanted:
        if len(containers) == 1:
            return str(containers[0])
        known = f"[{' '.join(containers)}]"
        text = f"a container name must be specified for pod {name}, choose one of: {known}"
        if inits:
            text += f" or one of the init containers: [{' '.join(inits)}]"
        raise status.bad_request(text)
    if wanted not in {*containers, *inits, *others}:
        raise status.bad_request(f"container {wanted} is not valid for pod {name}")
    return wanted
