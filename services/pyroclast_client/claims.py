"""Which PersistentVolumeClaim a store `pvc://CLAIM/folder` is in, and whether that is mounted here."""

from __future__ import annotations

import re
from typing import Final

from pyroclast_client.errors import Usage
from pyroclast_client.runner import sealing

__all__ = ["claim_of", "is_elsewhere"]

_STORE: Final = re.compile(r"pvc://(?P<claim>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)(?P<path>/.*)?")


def claim_of(store: str | None) -> str:
    """The claim that a store is in; empty for other stores.

    Raises:
        Usage: the URL names no claim, or leaves its folder.
    """
    if not store or not store.startswith(sealing.CLAIM):
        return ""
    found = _STORE.fullmatch(store)
    if found is None or ".." in (found["path"] or "").split("/"):
        raise Usage(f"store: {store!r} names no claim; give `pvc://CLAIM/folder` with the name of a PersistentVolumeClaim")
    return found["claim"]


def is_elsewhere(store: str) -> bool:
    """Whether the store is in a claim that is not mounted here."""
    try:
        sealing.folder_of(store)
    except sealing.NotMounted:
        return True
    return False
