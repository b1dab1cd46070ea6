"""Checks whether an API server answers, with a single request and a message of one line."""

from __future__ import annotations

from pyroclast.kube.basics.errors import ApiError, ConnectionFailed
from pyroclast.kube.http.client import Client
from pyroclast_standalone.errors import CommandError


async def require_answer(client: Client, source: str) -> None:
    """Send one request. Any answer is enough. `source` is the option that named the server.

    Raises:
        CommandError: no server answers.
    """
    try:
        await client.request("GET", "/readyz", once=True)
    except ApiError:
        return
    except ConnectionFailed as error:
        why = "" if not error.sent else f" ({error.message})"
        raise CommandError(
            f"{source}: no API server answers at {client.config.server}{why}; start it, or give another file"
        ) from error
