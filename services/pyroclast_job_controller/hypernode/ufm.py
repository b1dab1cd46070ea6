"""A client of UFM, which reads the ports of the fabric."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final

import aiohttp

from pyroclast.lifecycle.hypernodes.ufm import Port, read_ports
from pyroclast.runtime.bodies import read_at_most

_PATH: Final = "/ufmRest/resources/ports"
_SECONDS: Final = 30.0
_LARGEST: Final = 100 << 20
"""Most bytes of an answer. The answer for a fabric of ten thousand nodes has a tenth of that."""


class UfmError(Exception):
    """UFM gave no usable answer. The message says why."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """User name and password for basic authentication."""

    username: str
    password: str

    @classmethod
    def from_secret(cls, data: dict[str, str]) -> Credentials:
        """Read the credentials from the `data` of a Secret.

        Raises:
            UfmError: `username` or `password` is missing, or is not base64 of text.
        """
        missing = [name for name in ("username", "password") if not data.get(name)]
        if missing:
            raise UfmError(f"the Secret has no {' and no '.join(missing)}")
        try:
            return cls(*(base64.b64decode(data[name], validate=True).decode() for name in ("username", "password")))
        except ValueError:
            raise UfmError("username and password in the Secret must be text") from None


async def fetch_ports(endpoint: str, credentials: Credentials, *, verify: bool = True) -> list[Port]:
    """Return the ports of the fabric. `endpoint` is host and port, with https as the default scheme.

    Raises:
        UfmError: UFM cannot be reached, refuses the request, or returns an invalid answer.
    """
    url = (endpoint if "://" in endpoint else f"https://{endpoint}").rstrip("/") + _PATH
    login = base64.b64encode(f"{credentials.username}:{credentials.password}".encode()).decode()
    headers = {"Authorization": f"Basic {login}"}
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(_SECONDS)) as session,
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
