"""Decides when a probe of a container is due and what its results mean. The runtimes run the probes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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
