"""The features of the API server on which rules depend, by its version."""

from __future__ import annotations

from typing import Final

import msgspec

from pyroclast.kube.http.client import Client

_POD_RESOURCES_SINCE: Final = 34
"""The minor version of Kubernetes from which pod-level resources are enabled by default."""


async def has_pod_resources(client: Client) -> bool:
    """Whether the version of the API server has pod-level resources.

    Raises:
        KubeError: the API server did not answer.
    """
    return _is_since(_POD_RESOURCES_SINCE, await client.request("GET", "/version"))


class _Version(msgspec.Struct):
    minor: str = ""


def _is_since(minor: int, version: bytes) -> bool:
    """Whether `version`, a response to `/version`, is Kubernetes 1.`minor` or later; an unreadable version counts as later."""
    try:
        said = msgspec.json.decode(version, type=_Version).minor.rstrip("+")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
    return not said.isdecimal() or int(said) >= minor
