"""Requests to the other servers of Pyroclast: the recorder and the board."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urlsplit

import orjson

from pyroclast.api.types import CONFIG_MAPS, Key
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, KubeError
from pyroclast.kube.credentials.authorization import Anonymous
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import Flag

UNREACHABLE: Final = 5
"""The exit status of a command whose server cannot be reached."""


def path_of(prefix: str, *parts: str) -> str:
    """Return the path of a request, with each segment escaped, because the segments come from users."""
    return prefix + "/".join(quote(part, safe="") for part in parts)


@dataclass(frozen=True, slots=True)
class Server:
    """One server.

    Attributes:
        name: the name of the server and of its flag.
        variable: the environment variable with its URL.
        written_down: the ConfigMap in which `pyroclast up` writes its `url`.
        how: the advice for a user when the URL is unknown.
    """

    name: str
    variable: str
    written_down: Key
    how: str

    @property
    def flag(self) -> Flag:
        """The flag for the URL of the server."""
        return Flag(
            self.name, "", "", f"the URL of the {self.name}, by default what {self.variable} says or `pyroclast up` wrote down"
        )

    async def find(self, context: Context) -> str:
        """Return the URL of the server. Empty when the flag, the variable and the ConfigMap are missing.

        Raises:
            Failure: the given address is not a URL.
        """
        given = context.text(self.name) or os.environ.get(self.variable, "")
        if not given:
            try:
                written = await context.client.get(CONFIG_MAPS, self.written_down)
                given = str((written.get("data") or {}).get("url") or "")
            except KubeError:  # the ConfigMap does not exist or the user may not read it
                given = ""
        if given and (urlsplit(given).scheme not in {"http", "https"} or not urlsplit(given).netloc):
            raise Failure(f'--{self.name}: "{given}" is no URL like http://127.0.0.1:8090')
        return given.rstrip("/")

    async def asked(self, context: Context, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the answer of the server.

        Raises:
            Failure: the URL is unknown, or the server does not answer or refuses the request.
        """
        server = await self.find(context)
        if not server:
            raise Failure(f"it is not known where the {self.name} is: {self.how}", status=UNREACHABLE)
        try:
            return await self.request(context, server, path, query)
        except ApiError as error:
            raise Failure(f"the {self.name} refuses: {error.message}") from error
        except (ConnectionFailed, orjson.JSONDecodeError) as error:
            raise Failure(f"the {self.name} at {server} does not answer: {error}; try {self.how}", status=UNREACHABLE) from error

    async def request(
        self, context: Context, server: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the answer of the server at the URL `server`. With `body`, the request is a POST.

        Raises:
            KubeError: as for the API server.
            JSONDecodeError: the answer is not JSON, so that another server has this address.
        """
        from pyroclast.kube.http.client import Client  # noqa: PLC0415 - commands without requests do not need it

        config = ClusterConfig(server, credentials=context.client.config.credentials)
        if not server.startswith("https:"):  # without TLS, a token could be read on the way
            config = replace(config, credentials=Anonymous())
        given = {name: value for name, value in query.items() if value}
        async with Client(config, max_attempts=2, user_agent="vcctl") as client:
            method, content = ("GET", b"") if body is None else ("POST", orjson.dumps(body))
            answer: dict[str, Any] = orjson.loads(await client.request(method, path, query=given, body=content or None))
            return answer
