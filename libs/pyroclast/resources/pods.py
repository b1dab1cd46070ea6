"""The amounts of pods: what the API server adds to a new pod, its effective requests and limits, and its quality of service.

All programs calculate with these functions, so that a queue, a node and a message count a pod alike: as kube-scheduler and the
kubelet count the pod that the API server stores. A template says less. `as_stored` adds what the API server would add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from pyroclast.resources import quantity
from pyroclast.resources.quantity import Quantity, QuantityError

Amounts: TypeAlias = dict[str, Quantity]
"""Amounts by name of the resource."""

_A = TypeVar("_A", int, Quantity)
_SIDECAR: Final = "Always"
_HUGE: Final = "hugepages-"
_OF_POD: Final = frozenset({"cpu", "memory"})
"""The resources that a pod may request and limit as a whole, besides huge pages."""


@dataclass(frozen=True, slots=True)
class Additions:
    """What the API server adds to the amounts of the new pods of one namespace. Amounts are as in JSON.

    Attributes:
        requests, limits: the amounts of a container that states none, from the LimitRanges of the namespace.
        overhead: the amounts that a pod needs besides its containers, by name of its RuntimeClass.
    """

    requests: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    overhead: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, ranges: Iterable[Iterable[Mapping[str, Any]]], overhead: Mapping[str, Mapping[str, Any]]) -> Additions:
        """Return the additions of a namespace. `ranges`: `spec.limits` of each LimitRange; the first default counts."""
        requests: dict[str, Any] = {}
        limits: dict[str, Any] = {}
        for items in ranges:
            own: list[dict[str, Any]] = [{}, {}]
            for item in map(as_stored_limit, items):
                if item.get("type") == "Container":
                    own[0] |= item["defaultRequest"]
                    own[1] |= item["default"]
            requests, limits = own[0] | requests, own[1] | limits
        return cls(requests, limits, overhead)


NO_ADDITIONS: Final = Additions()


def as_stored_limit(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return one of `spec.limits` of a LimitRange with the defaults that the API server stores."""
    if item.get("type") != "Container":
        return dict(item)
    limits = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
    return {**item, "default": limits, "defaultRequest": requests}


def as_stored(spec: Mapping[str, Any], additions: Additions = NO_ADDITIONS) -> dict[str, Any]:
    """Return the spec of a pod template with the amounts that the API server stores for a pod made from the template.

    The order is that of the API server, and matters: requests from limits, resources of the whole pod from those of its
    containers, defaults of LimitRanges, overhead of the RuntimeClass.
    """
    made = dict(spec)
    _each_container(made, lambda container: _completed(container, "requests", _resources(container).get("limits")))
    if _resources(spec):
        made["resources"] = _of_whole_pod(made)
    if additions.limits:
        _each_container(made, lambda container: _completed(container, "limits", additions.limits))
    if additions.requests:
        _each_container(made, lambda container: _completed(container, "requests", additions.requests))
    overhead = additions.overhead.get(spec.get("runtimeClassName") or "")
    if overhead:
        made["overhead"] = dict(overhead)
    return made


def _each_container(spec: dict[str, Any], change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    for part in ("containers", "initContainers"):
        if spec.get(part):
            spec[part] = [change(container) for container in spec[part]]


def _completed(holder: Mapping[str, Any], kind: str, amounts: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a container or a pod spec with those of `amounts` that it lacks among its `requests` or `limits` (`kind`)."""
    resources = _resources(holder)
    return {**holder, "resources": {**resources, kind: {**amounts, **(resources.get(kind) or {})}}} if amounts else holder


def _of_whole_pod(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the resources of a whole pod with their defaults, by KEP 2837."""
    resources = _resources(spec)
    if not resources.get("limits") and not resources.get("requests"):
        return resources
    whole: Mapping[str, Any] = {"resources": resources}
    huge = {name: str(amount) for name, amount in _of_containers(spec, "limits").items() if name.startswith(_HUGE)}
    whole = _completed(whole, "limits", {name: huge[name] for name in huge.keys() - (resources.get("requests") or {}).keys()})
    limits = _resources(whole).get("limits") or {}
    if limits:
        asked = {name: str(amount) for name, amount in _of_containers(spec, "requests").items() if name in _OF_POD}
        whole = _completed(whole, "requests", asked)
        whole = _completed(whole, "requests", {name: amount for name, amount in limits.items() if _is_of_pod(name)})
    return _resources(whole)


def whole_pod(
    containers: Iterable[Mapping[str, _A]],
    starting: Iterable[tuple[Mapping[str, _A], bool]],
    *,
    of_pod: Mapping[str, _A],
    overhead: Mapping[str, _A],
) -> dict[str, _A]:
    """Return the effective amounts of a pod, from those of its parts.

    Sidecars run beside the containers and beside all later init containers. Other init containers run one after another. The
    result is the larger of two amounts: the sum of containers and sidecars, or the largest sum during the init phase. Amounts of
    the whole pod (`of_pod`) replace it, and `overhead` comes on top.

    Args:
        containers: the amounts of each container.
        starting: the amounts of each init container, and whether it is a sidecar.
        of_pod: the amounts that the pod states as a whole.
        overhead: the amounts that the pod needs besides its containers.
    """
    total: dict[str, _A] = {}
    sidecars: dict[str, _A] = {}
    start: dict[str, _A] = {}
    for amounts in containers:
        _add(total, amounts)
    for amounts, is_sidecar in starting:
        now = sidecars if is_sidecar else dict(sidecars)
        _add(now, amounts)
        if is_sidecar:
            _add(total, amounts)
        _raise_to(start, now)
    _raise_to(total, start)
    total.update((name, amount) for name, amount in of_pod.items() if _is_of_pod(name))
    _add(total, overhead)
    return total


def _is_of_pod(name: str) -> bool:
    return name in _OF_POD or name.startswith(_HUGE)


def _add(total: dict[str, _A], more: Mapping[str, _A]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: dict[str, _A], least: Mapping[str, _A]) -> None:
    for name, amount in least.items():
        if name not in total or total[name] < amount:
            total[name] = amount


def effective(spec: Mapping[str, Any], kind: str) -> Amounts:
    """Return the effective `requests` or `limits` (`kind`) of a stored pod's spec, see `whole_pod`.

    A quantity that cannot be parsed counts as zero, because admission has refused it.
    """
    total = _of_containers(spec, kind, _amounts(spec, kind))
    overhead = _read(spec.get("overhead"))
    if kind != "requests":
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return combined(total, overhead, Quantity.__add__)


def _of_containers(spec: Mapping[str, Any], kind: str, of_pod: Mapping[str, Quantity] | None = None) -> Amounts:
    """Return the effective amounts without overhead. `of_pod`: those of the whole pod; None leaves them out."""
    starting = ((_amounts(each, kind), each.get("restartPolicy") == _SIDECAR) for each in spec.get("initContainers") or ())
    containers = (_amounts(each, kind) for each in spec.get("containers") or ())
    return whole_pod(containers, starting, of_pod=of_pod or {}, overhead={})


def combined(
    one: Mapping[str, Quantity], other: Mapping[str, Quantity], how: Callable[[Quantity, Quantity], Quantity]
) -> Amounts:
    """Return the union of two resource lists. Amounts with the same name are combined by `how`."""
    found = {**one, **other}
    return found | {name: how(amount, other[name]) for name, amount in one.items() if name in other}


def _resources(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    return holder.get("resources") or {}


def _amounts(holder: Mapping[str, Any], kind: str) -> Amounts:
    return _read(_resources(holder).get(kind))


def _read(amounts: Mapping[str, Any] | None) -> Amounts:
    found: Amounts = {}
    for name, text in (amounts or {}).items():
        try:
            found[name] = quantity.parse(text)
        except QuantityError:
            continue
    return found


def _is_zero(amount: str) -> bool:
    return amount == "0" or quantity.parse(amount).is_zero


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """Return the quality-of-service class of a pod: Guaranteed, Burstable or BestEffort.

    The class depends on the requests and limits of all containers, or on those of the whole pod if it has any.
    """
    guaranteed = True
    some = False
    whole = spec.get("resources") or {}
    holders = [spec] if whole.get("limits") or whole.get("requests") else None
    for holder in holders or [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = holder.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            limit, request = limits.get(name), requests.get(name)
            has_limit = limit is not None and not _is_zero(limit)
            some = some or has_limit or (request is not None and not _is_zero(request))
            if not has_limit or request != limit:
                guaranteed = False
    if not some:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
