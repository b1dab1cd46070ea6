"""What keeps containers of placed pods from running, as nodes tell it: an image, a volume, or that they end at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyroclast.api.records import Pod
from pyroclast.api.waiting_reasons import PendingReason

__all__ = ["stuck"]

_CODES: Final = {
    "ErrImagePull": PendingReason.IMAGE_REFUSED,
    "ImagePullBackOff": PendingReason.IMAGE_REFUSED,
    "ErrImageNeverPull": PendingReason.IMAGE_REFUSED,
    "InvalidImageName": PendingReason.IMAGE_REFUSED,
    "ImageInspectError": PendingReason.IMAGE_REFUSED,
    "RegistryUnavailable": PendingReason.IMAGE_REFUSED,
    "SignatureValidationFailed": PendingReason.IMAGE_REFUSED,
    "CreateContainerConfigError": PendingReason.VOLUME_NOT_MOUNTED,
    "CrashLoopBackOff": PendingReason.CRASHING,
}
_MOST: Final = 200
_WORDS: Final = {
    PendingReason.IMAGE_REFUSED: "an image cannot be pulled",
    PendingReason.VOLUME_NOT_MOUNTED: "a ConfigMap, Secret or volume cannot be used",
    PendingReason.CRASHING: "containers end and are started again",
}


def stuck(pods: Iterable[Pod]) -> str:
    """The code and a sentence: on how many pods, and what the first of them by name says; empty where nothing is stuck.

    Times that change with each try are left away.
    """
    found: dict[PendingReason, dict[str, str]] = {}
    for pod in pods:
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            waiting = status.state.waiting
            if waiting is not None and (code := _CODES.get(waiting.reason)) is not None:
                message = f": {waiting.message[:_MOST]}" if waiting.message and code is PendingReason.VOLUME_NOT_MOUNTED else ""
                found.setdefault(code, {}).setdefault(pod.metadata.name, f"container {status.name}{message}")
    if not found:
        return ""
    code = min(found, key=list(_WORDS).index)
    name, container = min(found[code].items())
    count = len(found[code])
    return f"{code}: {_WORDS[code]} on {count} {'pod' if count == 1 else 'pods'}; {name}, {container}"
