"""Why containers of placed pods do not run, as their nodes report: an image, a volume, or a container that crashes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyroclast.api.records import Pod
from pyroclast.api.waiting_reasons import PendingReason

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
    """Return the code and a description of stuck containers; empty when no container is stuck.

    The description has the number of pods, and the container of the first pod by name. Times that change with each try are
    left out.
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
