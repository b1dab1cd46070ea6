"""Health of the pods of a running Job: how many work, on how many nodes, and which problems they have."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final

Pod = Mapping[str, Any]
REFUSED_IMAGES: Final = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"})
RESTARTING: Final = "CrashLoopBackOff"
ENDED: Final = frozenset({"Succeeded", "Failed"})


def nodes_of(pods: Iterable[Pod]) -> int:
    """Return how many nodes have at least one of the pods that have not ended."""
    at_work = (pod for pod in pods if (pod.get("status") or {}).get("phase") not in ENDED)
    return len({name for pod in at_work if (name := (pod.get("spec") or {}).get("nodeName"))})


def health_of(wanted: int, pods: Sequence[Pod]) -> str:
    """Return `ok`, or the problems of the `wanted` pods with the number of pods for each, the worst first."""
    counts = {
        "failed": sum(_phase(pod) == "Failed" for pod in pods),
        "crash": sum(_waits_for(pod, {RESTARTING}) for pod in pods),
        "without image": sum(_waits_for(pod, REFUSED_IMAGES) for pod in pods),
        "missing": max(0, wanted - len(pods)),
        "not placed": sum(_phase(pod) == "Pending" and not (pod.get("spec") or {}).get("nodeName") for pod in pods),
    }
    known = sum(counts.values())
    counts["not ready"] = max(0, wanted - known - sum(_is_well(pod) for pod in pods))
    counts["restarted"] = sum(_restarts(pod) > 0 for pod in pods if _is_well(pod))
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "ok"


def _is_well(pod: Pod) -> bool:
    """Whether a pod works or has succeeded."""
    if _phase(pod) == "Succeeded":
        return True
    conditions = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    return _phase(pod) == "Running" and is_ready


def _waits_for(pod: Pod, reasons: Container[str]) -> bool:
    states = (each.get("state") or {} for each in _statuses(pod))
    return any(str((state.get("waiting") or {}).get("reason")) in reasons for state in states)


def _restarts(pod: Pod) -> int:
    return sum(int(each.get("restartCount", 0)) for each in _statuses(pod))


def _statuses(pod: Pod) -> Sequence[Mapping[str, Any]]:
    return (pod.get("status") or {}).get("containerStatuses") or ()


def _phase(pod: Pod) -> str:
    return str((pod.get("status") or {}).get("phase", ""))
