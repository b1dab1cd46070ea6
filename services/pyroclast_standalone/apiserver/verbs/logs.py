"""Pod logs: requested from the endpoint in the status of the pod's node, and streamed to the client."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp

from pyroclast.rules.errors import FieldError, forbidden, invalid
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import Answer, Context, Streamed
from pyroclast_standalone.apiserver.storage.registry import Registry

_ADDRESS_TYPES: Final = ("InternalIP", "ExternalIP", "Hostname")  # simulated nodes have no DNS names
_FORWARDED: Final = ("follow", "previous", "sinceSeconds", "sinceTime", "tailLines", "limitBytes", "timestamps", "stream")
_CONNECT_SECONDS: Final = 10.0


class Logs:
    """Reads logs from node agents. `client` is the certificate with its key by which a node agent knows this server."""

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
        info = context.info
        _check_options(context)
        stored = self._pods.items.get(f"{info.namespace}/{info.name}")
        if stored is None:
            raise status.not_found("", "pods", info.name)
        pod = stored.load()
        container = container_of(pod, context.query.text("container"))
        node_name = pod["spec"].get("nodeName")
        if not node_name:
            return Answer(204, b"", "")
        url = f"{self._agent(node_name)}/containerLogs/{info.namespace}/{info.name}/{container}"
        options = {name: context.query.text(name) for name in _FORWARDED if name in context.query}
        if options:
            url += "?" + urlencode(options)
        return Streamed(await self._open(url), "text/plain")

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

    async def _open(self, url: str) -> AsyncIterator[bytes]:
        if self._session is None:
            context = ssl.create_default_context()
            context.check_hostname = False  # node agents have self-signed certificates, as kubelets do
            context.verify_mode = ssl.CERT_NONE
            context.load_cert_chain(*self._client)
            timeout = aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS)
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0), timeout=timeout)
        try:
            response = await self._session.get(url)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise status.StatusError(500, "InternalError", f"Internal error occurred: Get {url!r}: {error}") from error
        if response.status != 200:
            text = (await response.text()).strip()
            response.release()
            raise (
                status.bad_request(text)
                if response.status == 400
                else status.StatusError(response.status, "NotFound" if response.status == 404 else "InternalError", text)
            )
        return _chunks(response)


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
