"""Whether an API server answers at all, said at once and in one line."""

from __future__ import annotations

from pyroclast.kube.basics.errors import ApiError, ConnectionFailed
from pyroclast.kube.http.client import Client

from .errors import CommandError

__all__ = ["require_answer"]


async def require_answer(client: Client, source: str) -> None:
    """Ask once, whatever the answer is. `source` is the option that named the server.

    Raises:
        CommandError: nothing answers there.
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
