"""What a pod costs a quota: the counting rules of Kubernetes for a pod template, and our addition for extended resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from pyroclast.resources import quantity
from pyroclast.resources.quantity import Quantity, QuantityError

__all__ = ["Usage", "add", "pod_usage", "times"]

Usage: TypeAlias = dict[str, Quantity]
"""Resource names, those of quotas included, to amounts."""

_ONE: Final = quantity.from_value(1)
_COUNTED: Final = ("cpu", "memory", "ephemeral-storage")
_NATIVE_DOMAIN: Final = "kubernetes.io/"


def pod_usage(spec: Mapping[str, Any]) -> Usage:
    """What one pod of this spec uses: the pod itself, its effective requests and its effective limits.

    An extended resource counts under its own name too, so that a scheduler may compare it with what nodes offer. A quantity that
    cannot be read counts as nothing: admission has refused it.
    """
    requests, limits = _effective(spec, "requests"), _effective(spec, "limits")
    usage: Usage = {"count/pods": _ONE, "pods": _ONE}
    for name, amount in requests.items():
        if name in _COUNTED or name.startswith("hugepages-") or _is_extended(name):
            usage[f"requests.{name}"] = usage[name] = amount
    usage.update({f"limits.{name}": amount for name, amount in limits.items() if name in _COUNTED})
    return usage


def add(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Usage:
    """The sum, by name."""
    return _combine(one, other, Quantity.__add__)


def times(usage: Mapping[str, Quantity], number: int) -> Usage:
    """So many times `usage`; nothing for zero."""
    return {name: amount * number for name, amount in usage.items()} if number > 0 else {}


def _effective(spec: Mapping[str, Any], kind: str) -> Usage:
    """The containers and sidecars together, or the greediest moment of the init phase, whichever is more; then pod level and
    overhead.
    """
    running: Usage = {}
    for container in spec.get("containers") or ():
        running = add(running, _amounts(container, kind))
    sidecars: Usage = {}
    starting: Usage = {}
    for container in spec.get("initContainers") or ():
        amounts = _amounts(container, kind)
        if container.get("restartPolicy") == "Always":
            sidecars = add(sidecars, amounts)
            amounts = sidecars
        else:
            amounts = add(sidecars, amounts)
        starting = _combine(starting, amounts, max)
    total = _combine(add(running, sidecars), starting, max)
    total |= _amounts(spec, kind)
    overhead = _read(spec.get("overhead"))
    return add(total, overhead if kind == "requests" else {name: amount for name, amount in overhead.items() if name in total})


def _amounts(holder: Mapping[str, Any], kind: str) -> Usage:
    return _read((holder.get("resources") or {}).get(kind))


def _read(amounts: Mapping[str, Any] | None) -> Usage:
    usage: Usage = {}
    for name, text in (amounts or {}).items():
        try:
            usage[name] = quantity.parse(text)
        except QuantityError:
            continue
    return usage


def _combine(one: Mapping[str, Quantity], other: Mapping[str, Quantity], how: Callable[[Quantity, Quantity], Quantity]) -> Usage:
    names: Iterable[str] = dict.fromkeys((*one, *other))
    return {
        name: how(one[name], other[name]) if name in one and name in other else one.get(name) or other[name] for name in names
    }


def _is_extended(name: str) -> bool:
    return "/" in name and _NATIVE_DOMAIN not in name
