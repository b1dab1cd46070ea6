"""Whether the API server has PodGroups of Kubernetes itself, and in which version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from pyroclast.api.types import NATIVE_POD_GROUPS, ResourceType
from pyroclast.kube.basics.errors import NotFound

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # whoever asks has loaded it

__all__ = ["LOOK_SECONDS", "VERSIONS", "kind_served"]

LOOK_SECONDS: Final = 300.0
"""Between two looks whether the API server has them now, or has another version."""

VERSIONS: Final = ("v1", "v1beta1")
"""Those that we serve, the better one first; the alphas were other APIs."""


async def kind_served(client: Client) -> ResourceType | None:
    """What the API server serves them as; None if it does not, or only in a version that is none of ours.

    Raises:
        KubeError: it did not say.
    """
    group = NATIVE_POD_GROUPS.group
    try:
        offered = {each.get("version") for each in (await _document(client, f"/apis/{group}")).get("versions") or ()}
        for version in VERSIONS:
            if version not in offered:
                continue
            listed = (await _document(client, f"/apis/{group}/{version}")).get("resources") or ()
            if any(each.get("name") == NATIVE_POD_GROUPS.plural for each in listed):
                return ResourceType(group, version, NATIVE_POD_GROUPS.plural, NATIVE_POD_GROUPS.kind)
    except NotFound:
        return None
    return None


async def _document(client: Client, path: str) -> dict[str, Any]:
    found = orjson.loads(await client.request("GET", path))
    return found if isinstance(found, dict) else {}
