"""The state of a pod on a node: its life and each container's, and the results of probes. Times are seconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from pyroclast_standalone.nodes import records


class ProbeKind(StrEnum):
    """The kinds of probes. The startup probe runs before the other two."""

    STARTUP = "startup"
    LIVENESS = "liveness"
    READINESS = "readiness"


class Verdict(StrEnum):
    """The verdict of a probe that follows from all its results so far."""

    UNDECIDED = "Undecided"
    SUCCESS = "Success"
    FAILURE = "Failure"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of one run of a probe.

    `is_constant`: whether all runs have this result, so that the probe is not repeated after its verdict.
    """

    ok: bool
    message: str = ""
    is_constant: bool = False


@dataclass(slots=True)
class ProbeState:
    """The results of one probe of a running container. Times are in seconds since the epoch.

    `next_at` is None when no run is due.
    """

    kind: ProbeKind
    spec: records.Probe
    next_at: float | None
    verdict: Verdict = Verdict.UNDECIDED
    message: str = ""
    is_asked: bool = False  # a probe is running
    _in_row: int = 0
    _last_ok: bool | None = None

    @classmethod
    def begin(cls, kind: ProbeKind, spec: records.Probe, since: float) -> ProbeState:
        """Return the state of a probe of a container that runs since `since`."""
        return cls(kind, spec, since + spec.initial_delay_seconds)

    def take(self, result: ProbeResult, now: float) -> None:
        """Add the result of one run of the probe."""
        self.is_asked = False
        self._in_row = self._in_row + 1 if result.ok is self._last_ok else 1
        self._last_ok = result.ok
        self.message = result.message
        threshold = (self.spec.success_threshold if result.ok else self.spec.failure_threshold) or 1
        if self._in_row >= threshold:
            self.verdict = Verdict.SUCCESS if result.ok else Verdict.FAILURE
        is_over = self.verdict is not Verdict.UNDECIDED and (result.is_constant or self.kind is ProbeKind.STARTUP)
        self.next_at = None if is_over else now + max(1, self.spec.period_seconds or 10)


class Phase(StrEnum):
    """The phases of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_over(self) -> bool:
        """Whether the phase is final."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


class Role(StrEnum):
    """The role of a container. Sidecars are init containers that run as long as the pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


@dataclass(frozen=True, slots=True)
class Trouble:
    """The reason why a container waits. `reason` is as in the API, such as `CreateContainerConfigError` or `ErrImagePull`.

    `event` is the reason of the event that reports it. The status of a container does not show what its event says of a volume.
    """

    reason: str
    message: str = ""
    event: str = "Failed"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one run of a container."""

    exit_code: int
    started_at: float
    finished_at: float
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class Execution:
    """The known state of one run of a container. The runtime of the container writes it.

    `ends_at` may be in the future if the end is known in advance. `trouble` is the reason why the container could not start.
    """

    started_at: float | None = None
    ends_at: float | None = None
    exit_code: int = 0
    trouble: Trouble | None = None
    message: str = ""  # the container's termination message
    reason: str = ""  # of the end, where the exit code alone does not say it: OOMKilled


@dataclass(slots=True)
class ContainerLife:
    """A container with all its restarts. `retry_at` is the earliest time of the next start."""

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
        """The name of the container."""
        return self.spec.name

    @property
    def is_alive(self) -> bool:
        """Whether the container runs or is being started."""
        return self.execution is not None

    @property
    def is_done(self) -> bool:
        """Whether the container has ended successfully."""
        return self.ending is not None and self.ending.exit_code == 0

    @property
    def is_started(self) -> bool:
        """Whether the container runs and its startup probe, if any, has succeeded."""
        startup = self.probes.get(ProbeKind.STARTUP)
        runs = self.execution is not None and self.execution.started_at is not None
        return runs and (startup is None or startup.verdict is Verdict.SUCCESS)

    @property
    def is_ready(self) -> bool:
        """Whether the container is ready. Readiness gates and injections are evaluated for the pod."""
        readiness = self.probes.get(ProbeKind.READINESS)
        return self.is_started and (readiness is None or readiness.verdict is Verdict.SUCCESS)


@dataclass(slots=True)
class Stopping:
    """The pod is being stopped. With a `reason` its phase will be Failed. Otherwise the exit codes of its containers decide."""

    kill_at: float
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class PodLife:
    """A pod from its start on the node to its end. `conditions` maps each type to (status, since)."""

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
        """Return the containers of these roles in the order of the spec."""
        return [container for container in self.containers if container.role in roles]

    def container(self, name: str) -> ContainerLife:
        """Return the container with that name."""
        return next(container for container in self.containers if container.name == name)


@dataclass(frozen=True, slots=True)
class Start:
    """Start the container. The runtime sets its `execution`."""

    container: str


@dataclass(frozen=True, slots=True)
class Terminate:
    """Run the container's preStop hook, then send it SIGTERM."""

    container: str


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill the container at once."""

    container: str


@dataclass(frozen=True, slots=True)
class AskProbe:
    """Run a probe and add its result to the container's probe state."""

    container: str
    kind: ProbeKind


Effect: TypeAlias = Start | Terminate | Kill | AskProbe


def born(pod: records.Pod, pod_ip: str, now: float) -> PodLife:
    """Return the life of a pod that was just bound to the node."""
    inits = [
        ContainerLife(spec, Role.SIDECAR if spec.restart_policy == "Always" else Role.INIT) for spec in pod.spec.init_containers
    ]
    mains = [ContainerLife(spec, Role.MAIN) for spec in pod.spec.containers]
    return PodLife(pod.metadata.uid, now, pod_ip, [*inits, *mains])
