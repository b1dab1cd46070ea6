"""Commands in containers: `exec` of the API server over a WebSocket with the channels of `v4.channel.k8s.io`.

Each message begins with a byte: 0 standard input, 1 output, 2 error output, 3 the end as a Status, 4 the size of the terminal.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import orjson

from pyroclast.api.types import PODS, Key
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed
from pyroclast.kube.http.client import Client

STDIN, STDOUT, STDERR, END, SIZE, CLOSE = 0, 1, 2, 3, 4, 255
PROTOCOL: Final = "v4.channel.k8s.io"
CLOSING_PROTOCOL: Final = "v5.channel.k8s.io"
"""The same, and message 255 closes a channel: newer kubectl speaks only this one."""
ALIVE_SECONDS: Final = 30.0
UNKNOWN_CODE: Final = 255
LONGEST_REFUSAL: Final = 64 * 1024
_UPGRADE: Final = (
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "cHlyb2NsYXN0LWV4ZWMtLQ=="),
    ("Sec-WebSocket-Protocol", PROTOCOL),
)


@asynccontextmanager
async def attached(
    client: Client, pod: Key, container: str, command: Sequence[str], *, tty: bool
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """Run a command in a container; yield the socket of its channels.

    Raises:
        ApiError: the API server refuses; the text is its own.
        ConnectionFailed: it does not answer, or the connection cannot be upgraded.
    """
    config, path = client.config, PODS.path(pod.namespace, pod.name, "exec")
    flags = {"container": container, "stdin": "true", "stdout": "true", "stderr": str(not tty).lower(), "tty": str(tty).lower()}
    query = [*flags.items(), *(("command", word) for word in command)]
    authorization = await config.credentials.authorization()
    headers = [*config.impersonation, *([("Authorization", authorization)] if authorization else [])]
    url, tls, name = f"{config.server}{path}?{urlencode(query)}", config.ssl_context() or True, config.server_name or None
    proxy = config.proxy or None
    async with aiohttp.ClientSession() as session:
        try:
            socket = await session.ws_connect(
                url,
                protocols=(PROTOCOL,),
                headers=headers,
                ssl=tls,
                server_hostname=name,
                proxy=proxy,
                heartbeat=ALIVE_SECONDS,
            )
        except aiohttp.WSServerHandshakeError as error:
            # aiohttp drops the body of the refusal, so the same request is sent once more
            async with session.get(
                url, headers=[*headers, *_UPGRADE], ssl=tls, server_hostname=name, proxy=proxy, allow_redirects=False
            ) as again:
                raise _refusal(error.status, await again.content.read(LONGEST_REFUSAL), path) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionFailed(str(error) or "no answer in time", verb="GET", path=path) from error
        async with socket:
            yield socket


def _refusal(code: int, body: bytes, path: str) -> ApiError:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = {"message": body.decode(errors="replace").strip()}
    return ApiError.from_status(code, status if isinstance(status, dict) else {}, verb="GET", path=path)


def status_of(code: int, message: str = "") -> dict[str, Any]:
    """Return the Status with which a command ends, as a kubelet writes it."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    text = message or f"command terminated with non-zero exit code: exit status {code}"
    return {"metadata": {}, "status": "Failure", "message": text, "reason": "NonZeroExitCode", "details": {"causes": causes}}


def exit_code_of(message: bytes) -> tuple[int, str]:
    """Return the exit code of the Status at the end, and its text if there is no code."""
    try:
        status = orjson.loads(message)
        if status.get("status") == "Success":
            return 0, ""
        causes = (status.get("details") or {}).get("causes") or ()
        code = next((int(each["message"]) for each in causes if each.get("reason") == "ExitCode"), None)
    except (ValueError, AttributeError, KeyError, TypeError):
        return UNKNOWN_CODE, message.decode(errors="replace")
    return (UNKNOWN_CODE, str(status.get("message", ""))) if code is None else (code, "")
