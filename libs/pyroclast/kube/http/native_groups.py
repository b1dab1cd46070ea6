"""Whether the API server has PodGroups of Kubernetes itself, and in which version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from pyroclast.api.types import COMPOSITE_POD_GROUPS, NATIVE_POD_GROUPS, ResourceType
from pyroclast.kube.basics.errors import NotFound

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # whoever asks has loaded it

__all__ = ["LOOK_SECONDS", "VERSIONS", "composite_kind_served", "kind_served"]

LOOK_SECONDS: Final = 300.0
"""Between two looks whether the API server has them now, or has another version."""

VERSIONS: Final = ("v1", "v1beta1")
"""Those that we serve, the better one first; the alphas were other APIs."""

_COMPOSITE_VERSIONS: Final = ("v1", "v1beta1", "v1alpha3")
"""The same of groups of groups, which so far are there as an alpha alone."""


async def kind_served(client: Client) -> ResourceType | None:
    """What the API server serves them as; None if it does not, or only in a version that is none of ours.

    Raises:
        KubeError: it did not say.
    """
    return await _served(client, NATIVE_POD_GROUPS, VERSIONS)


async def composite_kind_served(client: Client) -> ResourceType | None:
    """The same of CompositePodGroups.

    Raises:
        KubeError: it did not say.
    """
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
