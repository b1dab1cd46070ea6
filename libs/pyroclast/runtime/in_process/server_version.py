"""What rules must know of the version of the API server."""

from __future__ import annotations

from typing import Final

import msgspec

from pyroclast.kube.http.client import Client

__all__ = ["has_pod_resources"]

_POD_RESOURCES_SINCE: Final = 34
"""Minor version of Kubernetes from which pods have resources of their own by default."""


async def has_pod_resources(client: Client) -> bool:
    """Whether the API server is of a version whose pods have resources of their own.

    Raises:
        KubeError: it does not say.
    """
    return _is_since(_POD_RESOURCES_SINCE, await client.request("GET", "/version"))


class _Version(msgspec.Struct):
    minor: str = ""


def _is_since(minor: int, version: bytes) -> bool:
    """Whether an answer to `/version` is of Kubernetes 1.`minor` or later; one that does not tell is taken for new."""
    try:
        said = msgspec.json.decode(version, type=_Version).minor.rstrip("+")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
    return not said.isdecimal() or int(said) >= minor
