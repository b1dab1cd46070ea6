"""The PersistentVolumeClaim of a store `pvc://CLAIM/folder`, and whether this machine mounts the claim."""

from __future__ import annotations

import re
from typing import Final

from pyroclast_client.errors import Usage
from pyroclast_client.runner import sealing

_STORE: Final = re.compile(r"pvc://(?P<claim>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)(?P<path>/.*)?")


def claim_of(store: str | None) -> str:
    """Return the claim of a store. The name is empty for a store outside of claims.

    Raises:
        Usage: the URL names no claim, or its path contains `..`.
    """
    if not store or not store.startswith(sealing.CLAIM):
        return ""
    found = _STORE.fullmatch(store)
    if found is None or ".." in (found["path"] or "").split("/"):
        raise Usage(f"store: {store!r} names no claim; give `pvc://CLAIM/folder` with the name of a PersistentVolumeClaim")
    return found["claim"]


def is_elsewhere(store: str) -> bool:
    """Whether the store is in a claim that this machine does not mount."""
    try:
        sealing.folder_of(store)
    except sealing.NotMounted:
        return True
    return False
