"""The Jobs with pods whose containers crash repeatedly, updated with each change of a pod."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyroclast.api.types import Key
from pyroclast_board.cluster.records import ShownPod

BACK_OFF: Final = "CrashLoopBackOff"


class CrashingPods:
    """The pods of Jobs with a container whose restart the kubelet delays because the container crashed too often."""

    def __init__(self) -> None:
        self._jobs: dict[str, set[Key]] = {}

    @property
    def jobs(self) -> Collection[str]:
        """The UIDs of the Jobs with pods that crash repeatedly, as a live view."""
        return self._jobs.keys()

    def put_pod(self, old: ShownPod | None, new: ShownPod | None) -> None:
        """Handle an added, updated or deleted pod."""
        pod = new or old
        controller = pod.metadata.controller if pod else None
        if pod is None or controller is None:
            return
        if new is not None and _is_crashing(new):
            self._jobs.setdefault(controller.uid, set()).add(new.key)
        elif (known := self._jobs.get(controller.uid)) is not None:
            known.discard(pod.key)
            if not known:
                del self._jobs[controller.uid]


def _is_crashing(pod: ShownPod) -> bool:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(each.state.waiting is not None and each.state.waiting.reason == BACK_OFF for each in statuses)
