"""The table rows of pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.views.readable import human_duration
from pyroclast_standalone.apiserver.kinds.rules import age_of
from pyroclast_standalone.times import parse_time

_ENDINGS: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def pod_conditions(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the condition of the table row that says that a pod has ended; empty if it has not."""
    phase = (pod.get("status") or {}).get("phase", "")
    message = _ENDINGS.get(phase)
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}] if message else []


class _Restarts:
    """Counts restarts, with the time of the latest."""

    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count = 0
        self.last = 0.0

    def add(self, status: Mapping[str, Any]) -> None:
        self.count += status.get("restartCount") or 0
        ended = (status.get("lastState") or {}).get("terminated")
        if ended:
            self.last = max(self.last, parse_time(ended.get("finishedAt")) or 0.0)

    def text(self, now: float) -> str:
        return f"{self.count} ({human_duration(now - self.last)} ago)" if self.count and self.last else str(self.count)


def _ending(ended: Mapping[str, Any]) -> str:
    """Return the reason why a container ended."""
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


class _Summary:
    """Computes the cells of a pod's row from its containers."""

    def __init__(self, pod: Mapping[str, Any]) -> None:
        self.spec = pod["spec"]
        self.status = pod.get("status") or {}
        self.restarts = _Restarts()
        self.ready = 0
        initial = self.spec.get("initContainers") or ()
        self.sidecars = {each["name"] for each in initial if each.get("restartPolicy") == "Always"}
        self.total = len(self.spec.get("containers") or ()) + len(self.sidecars)
        self.reason = self.status.get("reason") or self.status.get("phase", "")
        if any(
            each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated"
            for each in self.status.get("conditions") or ()
        ):
            self.reason = "SchedulingGated"
        sidecar_restarts = _Restarts()
        if not self._initializing(sidecar_restarts) or self._condition("Initialized"):
            self.restarts = sidecar_restarts
            self._running()
        self._ending(pod)

    def _condition(self, kind: str) -> bool:
        return any(each.get("type") == kind and each.get("status") == "True" for each in self.status.get("conditions") or ())

    def _initializing(self, sidecar_restarts: _Restarts) -> bool:
        for index, container in enumerate(self.status.get("initContainerStatuses") or ()):
            self.restarts.add(container)
            is_sidecar = container.get("name") in self.sidecars
            if is_sidecar:
                sidecar_restarts.add(container)
            state = container.get("state") or {}
            ended, waiting = state.get("terminated"), state.get("waiting")
            if ended is not None and not ended.get("exitCode"):
                continue
            if is_sidecar and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            if ended is not None:
                self.reason = f"Init:{_ending(ended)}"
            elif waiting is not None and waiting.get("reason") and waiting["reason"] != "PodInitializing":
                self.reason = f"Init:{waiting['reason']}"
            else:
                self.reason = f"Init:{index}/{len(self.spec.get('initContainers') or ())}"
            return True
        return False

    def _running(self) -> None:
        running = False
        failure = ""
        for container in reversed(self.status.get("containerStatuses") or ()):
            self.restarts.add(container)
            state = container.get("state") or {}
            ended, waiting = state.get("terminated"), state.get("waiting")
            if waiting is not None and waiting.get("reason"):
                self.reason = waiting["reason"]
            elif ended is not None:
                self.reason = _ending(ended)
                if ended.get("exitCode"):
                    failure = self.reason
            elif container.get("ready") and "running" in state:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and self._condition("Ready"):
                self.reason = "Running"
            elif failure:
                self.reason = failure
            elif running:
                self.reason = "NotReady"

    def _ending(self, pod: Mapping[str, Any]) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            if self.status.get("reason") == "NodeLost":
                self.reason = "Unknown"
            elif self.status.get("phase") not in {"Succeeded", "Failed"}:
                self.reason = "Terminating"


def pod_cells(pod: Mapping[str, Any], now: float) -> list[Any]:
    """Return the cells of the table row of a pod, one for each of `COLUMNS`."""
    summary = _Summary(pod)
    spec, status = summary.spec, summary.status
    addresses = status.get("podIPs") or ()
    return [
        pod["metadata"]["name"],
        f"{summary.ready}/{summary.total}",
        summary.reason,
        summary.restarts.text(now),
        age_of(pod, now),
        (addresses[0].get("ip") if addresses else "") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        _gates(spec, status),
    ]


def _gates(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    gates = spec.get("readinessGates")
    if not gates:
        return "<none>"
    states = {each.get("type"): each.get("status") for each in reversed(status.get("conditions") or ())}
    met = sum(states.get(gate.get("conditionType")) == "True" for gate in gates)
    return f"{met}/{len(gates)}"
