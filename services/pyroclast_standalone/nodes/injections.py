"""Failures that a user requests with annotations. Times are durations in Go's format (`500ms`, `5s`, `1m30s`).

On a pod, each with the prefix `nodes.pyroclast.dev/`. A change takes effect at once:

    run-for            the containers run for this time, whatever their command, and end with `exit-code`, or 0
    fail-after         the containers end this time after their start, with `exit-code`, or 1
    exit-code          the code for the two above; alone, the code with which the command ends
    fail-times         only this many first starts of a container fail by these annotations
    container          the annotations above apply only to the container of this name
    start-delay        the pod stays Pending (ContainerCreating) for this time
    image-pull         `fail`: the images cannot be pulled (ErrImagePull, then ImagePullBackOff)
    never-ready        `true`: the pod runs and never becomes ready
    fail-probe         `startup`, `liveness` or `readiness`: this probe fails
    evict-after        the node evicts the pod this time after its start (phase Failed, reason Evicted)
    stuck-terminating  `true`: after its deletion, the pod is never removed

On a node:

    state      `ready`; `not-ready`: the condition Ready is False and the pods continue; `lost`: no heartbeat, Ready is Unknown,
               and the pods do not change until the node is `ready` again
    simulated  `true`: this process simulates the Node although it did not register it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pyroclast.runtime import fields

_PREFIX: Final = "nodes.pyroclast.dev/"
SIMULATED: Final = _PREFIX + "simulated"
"""Annotation of a Node object that this process simulates although it did not register the node."""

MACHINE: Final = "machine"
"""The value of that annotation for a node that is this machine."""


class NodeState(StrEnum):
    """The state of a simulated node, which an annotation can set."""

    READY = "ready"
    NOT_READY = "not-ready"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Injection:
    """The failures that the annotations of one pod request. Times are in seconds."""

    run_for: float | None = None
    fail_after: float | None = None
    exit_code: int | None = None
    fail_times: int | None = None
    container: str = ""
    start_delay: float = 0.0
    image_pull_fails: bool = False
    never_ready: bool = False
    fail_probe: str = ""
    evict_after: float | None = None
    stuck_terminating: bool = False

    def ending(self, container: str, attempt: int) -> tuple[float | None, int] | None:
        """Return when this start of `container` ends and with which exit code. None when no annotation applies to the container.

        The time is in seconds after the start, None for the end of the command.
        """
        if (self.container and self.container != container) or (self.fail_times is not None and attempt >= self.fail_times):
            return None
        if self.fail_after is not None:
            return self.fail_after, 1 if self.exit_code is None else self.exit_code
        if self.run_for is not None:
            return self.run_for, self.exit_code or 0
        return None if self.exit_code is None else (None, self.exit_code)


NONE: Final = Injection()


def of_pod(annotations: Mapping[str, str]) -> Injection:
    """Return the failures in the annotations of a pod. An invalid value is ignored."""
    asked = {key.removeprefix(_PREFIX): value.strip() for key, value in annotations.items() if key.startswith(_PREFIX)}
    if not asked:
        return NONE
    return Injection(
        run_for=_seconds(asked.get("run-for")),
        fail_after=_seconds(asked.get("fail-after")),
        exit_code=_integer(asked.get("exit-code")),
        fail_times=_integer(asked.get("fail-times")),
        container=asked.get("container", ""),
        start_delay=_seconds(asked.get("start-delay")) or 0.0,
        image_pull_fails=asked.get("image-pull") == "fail",
        never_ready=asked.get("never-ready") == "true",
        fail_probe=asked.get("fail-probe", ""),
        evict_after=_seconds(asked.get("evict-after")),
        stuck_terminating=asked.get("stuck-terminating") == "true",
    )


def of_node(annotations: Mapping[str, str]) -> NodeState:
    """Return the state in the annotations of a node."""
    try:
        return NodeState(annotations.get(_PREFIX + "state", NodeState.READY))
    except ValueError:
        return NodeState.READY


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return fields.parse_duration(text).total_seconds()
    except ValueError:
        return None


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
