"""What a node knows of a pod it runs: the life of the pod and of each of its containers. Times are seconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from pyroclast_standalone.nodes import records

from .probes import ProbeKind, ProbeState, Verdict

__all__ = [
    "AskProbe",
    "ContainerLife",
    "Effect",
    "Ending",
    "Execution",
    "Kill",
    "Phase",
    "PodLife",
    "Role",
    "Start",
    "Stopping",
    "Terminate",
    "Trouble",
    "born",
]


class Phase(StrEnum):
    """Phases of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_over(self) -> bool:
        """Whether nothing can happen to the pod any more."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


class Role(StrEnum):
    """What a container is for: sidecars are init containers that go on as long as the pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a container waits; `reason` as in the API, `CreateContainerConfigError` or `ErrImagePull`, say."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """How one run of a container ended."""

    exit_code: int
    started_at: float
    finished_at: float
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class Execution:
    """One run of a container, as far as it is known; the runtime that carries it out writes here.

    `ends_at` may lie ahead where the end is known beforehand. `trouble` says why the container could not be started.
    """

    started_at: float | None = None
    ends_at: float | None = None
    exit_code: int = 0
    trouble: Trouble | None = None
    message: str = ""  # what the container left as its termination message


@dataclass(slots=True)
class ContainerLife:
    """A container through all its restarts. `retry_at`: when it may be started again."""

    spec: records.Container
    role: Role
    restarts: int = 0
    execution: Execution | None = None
    ending: Ending | None = None
    last: Ending | None = None
    retry_at: float | None = None
    trouble: Trouble | None = None
    probes: dict[ProbeKind, ProbeState] = field(default_factory=dict)
    terminating_since: float | None = None
    is_killed: bool = False

    @property
    def name(self) -> str:
        """Name of the container."""
        return self.spec.name

    @property
    def is_alive(self) -> bool:
        """Whether something of it runs, or is being started."""
        return self.execution is not None

    @property
    def is_done(self) -> bool:
        """Whether it has ended well."""
        return self.ending is not None and self.ending.exit_code == 0

    @property
    def is_started(self) -> bool:
        """Whether it runs and its startup probe, if any, has succeeded."""
        startup = self.probes.get(ProbeKind.STARTUP)
        runs = self.execution is not None and self.execution.started_at is not None
        return runs and (startup is None or startup.verdict is Verdict.SUCCESS)

    @property
    def is_ready(self) -> bool:
        """Whether it takes part in the pod's readiness now; readiness gates and injections are the pod's."""
        readiness = self.probes.get(ProbeKind.READINESS)
        return self.is_started and (readiness is None or readiness.verdict is Verdict.SUCCESS)


@dataclass(slots=True)
class Stopping:
    """The pod is being stopped. With a `reason` it will have failed; otherwise its containers decide."""

    kill_at: float
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class PodLife:
    """A pod from its arrival at the node to its end. `conditions`: type to (status, since)."""

    uid: str
    accepted_at: float
    pod_ip: str
    containers: list[ContainerLife]
    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    stopping: Stopping | None = None
    conditions: dict[str, tuple[str, float]] = field(default_factory=dict)
    wake_at: float | None = None
    may_be_deleted: bool = False

    def of_role(self, *roles: Role) -> list[ContainerLife]:
        """The containers of these roles, in the order of the specification."""
        return [container for container in self.containers if container.role in roles]

    def container(self, name: str) -> ContainerLife:
        """The container of that name."""
        return next(container for container in self.containers if container.name == name)


@dataclass(frozen=True, slots=True)
class Start:
    """Start the container; its `execution` is to be filled."""

    container: str


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ask the container to end (its preStop hook first)."""

    container: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End the container at once."""

    container: str


@dataclass(frozen=True, slots=True)
class AskProbe:
    """Run a probe and give its result to the container's probe state."""

    container: str
    kind: ProbeKind


Effect: TypeAlias = Start | Terminate | Kill | AskProbe


def born(pod: records.Pod, pod_ip: str, now: float) -> PodLife:
    """The life of a pod that has just been bound to the node."""
    inits = [
        ContainerLife(spec, Role.SIDECAR if spec.restart_policy == "Always" else Role.INIT) for spec in pod.spec.init_containers
    ]
    mains = [ContainerLife(spec, Role.MAIN) for spec in pod.spec.containers]
    return PodLife(pod.metadata.uid, now, pod_ip, [*inits, *mains])
