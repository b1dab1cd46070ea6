"""What a pod asks for in all: containers, sidecars, init containers, pod-level requests and overhead."""

from __future__ import annotations

from typing import Final

from pyroclast.api import records
from pyroclast_scheduler.model.dimensions import amounts_of

__all__ = ["non_zero", "pod_request"]

_POD_LEVEL: Final = ("cpu", "memory", "hugepages-")
_DEFAULT_CPU: Final = 100  # milli-cores that a container without a cpu request counts in scores
_DEFAULT_MEMORY: Final = 200 * 2**20  # bytes


def pod_request(spec: records.PodSpec) -> dict[str, int]:
    """The request in stored units, `pods: 1` among them.

    Sidecars run beside the containers and beside every init container that comes after them; an init container runs alone
    otherwise. So the pod needs the larger of the sum of all that stay, and the largest moment of its start.

    Raises:
        ValueError: a quantity makes no sense.
    """
    total: dict[str, int] = {}
    for container in spec.containers:
        _add(total, amounts_of(container.resources.requests))
    sidecars: dict[str, int] = {}
    start: dict[str, int] = {}
    for container in spec.init_containers:
        request = amounts_of(container.resources.requests)
        if container.restart_policy == "Always":
            _add(total, request)
            _add(sidecars, request)
            _raise_to(start, sidecars)
        else:
            _add(request, sidecars)
            _raise_to(start, request)
    _raise_to(total, start)
    total["pods"] = 1
    if spec.resources is not None:
        level = amounts_of(spec.resources.requests)
        total.update((name, amount) for name, amount in level.items() if name.startswith(_POD_LEVEL))
    _add(total, amounts_of(spec.overhead))
    return {"cpu": 0, "memory": 0} | total


def non_zero(spec: records.PodSpec) -> tuple[int, int]:
    """Cpu (milli-cores) and memory (bytes) where a container that asks for none counts a small default: used in scores only."""
    cpu = memory = 0
    for container in spec.containers:
        request = amounts_of(container.resources.requests)
        cpu += request.get("cpu") or _DEFAULT_CPU
        memory += request.get("memory") or _DEFAULT_MEMORY
    return cpu, memory


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], least: dict[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
