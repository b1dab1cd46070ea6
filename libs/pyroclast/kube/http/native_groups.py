"""Whether the API server serves the native PodGroups of Kubernetes, and in which version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from pyroclast.api.types import COMPOSITE_POD_GROUPS, NATIVE_POD_GROUPS, ResourceType
from pyroclast.kube.basics.errors import NotFound

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # the caller has loaded this module


LOOK_SECONDS: Final = 300.0
"""Seconds between two checks whether the API server serves native PodGroups, and in which version."""

VERSIONS: Final = ("v1", "v1beta1")
"""The versions that Pyroclast supports, the preferred one first; the alpha versions have a different API."""

_COMPOSITE_VERSIONS: Final = ("v1", "v1beta1", "v1alpha3")
"""The supported versions of CompositePodGroups, which so far exist only as an alpha."""


async def kind_served(client: Client) -> ResourceType | None:
    """Return the served resource type of native PodGroups; None if the API server serves none, or no supported version."""
    return await _served(client, NATIVE_POD_GROUPS, VERSIONS)


async def composite_kind_served(client: Client) -> ResourceType | None:
    """Return the served resource type of CompositePodGroups; None if the API server serves none, or no supported version."""
    return await _served(client, COMPOSITE_POD_GROUPS, _COMPOSITE_VERSIONS)


async def _served(client: Client, kind: ResourceType, versions: Sequence[str]) -> ResourceType | None:
    try:
        offered = {each.get("version") for each in (await _document(client, f"/apis/{kind.group}")).get("versions") or ()}
        for version in versions:
            if version not in offered:
                continue
            listed = (await _document(client, f"/apis/{kind.group}/{version}")).get("resources") or ()
            if any(each.get("name") == kind.plural for each in listed):
                return ResourceType(kind.group, version, kind.plural, kind.kind)
    except NotFound:
        return None
    return None


async def _document(client: Client, path: str) -> dict[str, Any]:
    found = orjson.loads(await client.request("GET", path))
    return found if isinstance(found, dict) else {}
