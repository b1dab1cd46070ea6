"""What a pod costs a quota: the counting rules of Kubernetes for a pod template, and our addition for extended resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pyroclast.resources import quantity
from pyroclast.resources.pods import combined, effective
from pyroclast.resources.quantity import Quantity

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
    requests, limits = effective(spec, "requests"), effective(spec, "limits")
    usage: Usage = {"count/pods": _ONE, "pods": _ONE}
    for name, amount in requests.items():
        if name in _COUNTED or name.startswith("hugepages-") or _is_extended(name):
            usage[f"requests.{name}"] = usage[name] = amount
    usage.update({f"limits.{name}": amount for name, amount in limits.items() if name in _COUNTED})
    return usage


def add(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Usage:
    """The sum, by name."""
    return combined(one, other, Quantity.__add__)


def times(usage: Mapping[str, Quantity], number: int) -> Usage:
    """So many times `usage`; nothing for zero."""
    return {name: amount * number for name, amount in usage.items()} if number > 0 else {}


def _is_extended(name: str) -> bool:
    return "/" in name and _NATIVE_DOMAIN not in name
