"""The total request of a pod: containers, sidecars, init containers, pod-level requests and overhead."""

from __future__ import annotations

from typing import Final

import msgspec

from pyroclast.api import records
from pyroclast.resources.pods import whole_pod
from pyroclast_scheduler.model.dimensions import amounts_of

_DEFAULT_CPU: Final = 100  # milli-cores of a container without a cpu request, in scores only
_DEFAULT_MEMORY: Final = 200 * 2**20  # bytes


def as_allocated(pod: records.Pod) -> records.PodSpec:
    """Return the spec of a pod with the requests that its node has allocated to containers that are being resized.

    During a resize, the larger of the requested and the allocated amount counts. An infeasible resize counts as the allocated
    amount.
    """
    status = pod.status
    known = {each.name: each for each in (*status.container_statuses, *status.init_container_statuses)}
    is_infeasible = any(each.type == "PodResizePending" and each.reason == "Infeasible" for each in status.conditions)

    def now(container: records.Container) -> records.Container:
        found = known.get(container.name)
        wanted = container.resources.requests
        if found is None or found.resources is None:
            return container
        merged: dict[str, str | int] = {} if is_infeasible else dict(wanted)
        for texts in (found.resources.requests, found.allocated_resources):
            for name, text in texts.items():
                if text != merged.get(name) and _amount(name, text) > _amount(name, merged.get(name, 0)):
                    merged[name] = text
        if merged == wanted:
            return container
        return msgspec.structs.replace(container, resources=msgspec.structs.replace(container.resources, requests=merged))

    if not any(each.resources is not None for each in known.values()):
        return pod.spec
    containers, starters = tuple(map(now, pod.spec.containers)), tuple(map(now, pod.spec.init_containers))
    if containers == pod.spec.containers and starters == pod.spec.init_containers:
        return pod.spec
    return msgspec.structs.replace(pod.spec, containers=containers, init_containers=starters)


def pod_request(spec: records.PodSpec) -> dict[str, int]:
    """Return the request of a pod in stored units, see `whole_pod`, with `pods: 1`.

    Raises:
        ValueError: a quantity is invalid.
    """
    total = whole_pod(
        (amounts_of(container.resources.requests) for container in spec.containers),
        ((amounts_of(each.resources.requests), each.restart_policy == "Always") for each in spec.init_containers),
        of_pod={} if spec.resources is None else amounts_of(spec.resources.requests),
        overhead=amounts_of(spec.overhead),
    )
    return {"cpu": 0, "memory": 0} | total | {"pods": 1}


def non_zero(spec: records.PodSpec) -> tuple[int, int]:
    """Return cpu (milli-cores) and memory (bytes) of a pod, with a small default for a container without a request.

    These amounts are only used in scores.
    """
    cpu = memory = 0
    for container in spec.containers:
        request = amounts_of(container.resources.requests)
        cpu += request.get("cpu") or _DEFAULT_CPU
        memory += request.get("memory") or _DEFAULT_MEMORY
    return cpu, memory


def pod_limits(spec: records.PodSpec) -> dict[str, int]:
    """Return the sum of the cpu and memory limits of all containers, in stored units.

    A container without a limit counts its request.

    Raises:
        ValueError: a quantity is invalid.
    """
    total: dict[str, int] = {}
    for container in (*spec.containers, *(each for each in spec.init_containers if each.restart_policy == "Always")):
        both = amounts_of(container.resources.requests) | amounts_of(container.resources.limits)
        _add(total, {name: amount for name, amount in both.items() if name in {"cpu", "memory"}})
    return total


def _amount(name: str, text: str | int) -> int:
    return amounts_of({name: text}).get(name, 0)


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
