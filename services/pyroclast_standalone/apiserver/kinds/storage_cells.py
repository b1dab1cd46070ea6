"""What volumes and claims share: pieces of their rows, and the finalizers that protect them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["class_of", "modes_text", "protected"]

_SHORT_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def modes_text(modes: list[str] | None) -> str:
    """Access modes by their short names."""
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in (modes or ()))


def class_of(document: Mapping[str, Any]) -> str:
    """The storage class that an object names, the old way or the new."""
    annotations = document["metadata"].get("annotations") or {}
    return str(annotations.get("volume.beta.kubernetes.io/storage-class") or document["spec"].get("storageClassName") or "")


def protected(finalizer: str, document: dict[str, Any]) -> None:
    """Give `document` a finalizer that it does not have yet."""
    metadata = document["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer not in finalizers:
        metadata["finalizers"] = [*finalizers, finalizer]
