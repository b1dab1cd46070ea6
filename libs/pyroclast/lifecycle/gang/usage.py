"""The quota usage of a pod: Kubernetes' rules applied to a pod template, with an addition for extended resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pyroclast.resources import quantity
from pyroclast.resources.pods import combined, effective
from pyroclast.resources.quantity import Quantity

Usage: TypeAlias = dict[str, Quantity]
"""Amounts by name of the resource, including the names that quotas use."""

_ONE: Final = quantity.from_value(1)
_COUNTED: Final = ("cpu", "memory", "ephemeral-storage")
_NATIVE_DOMAIN: Final = "kubernetes.io/"


def pod_usage(spec: Mapping[str, Any]) -> Usage:
    """Return the usage of one pod with this spec: the pod itself, its effective requests and its effective limits.

    An extended resource also counts under its own name, so that a scheduler can compare the amount with the nodes. A quantity
    that cannot be parsed counts as zero, because admission has refused it.
    """
    requests, limits = effective(spec, "requests"), effective(spec, "limits")
    usage: Usage = {"count/pods": _ONE, "pods": _ONE}
    for name, amount in requests.items():
        if name in _COUNTED or name.startswith("hugepages-") or _is_extended(name):
            usage[f"requests.{name}"] = usage[name] = amount
    usage.update({f"limits.{name}": amount for name, amount in limits.items() if name in _COUNTED})
    return usage


def add(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Usage:
    """Return the sum of both usages, by name of the resource."""
    return combined(one, other, Quantity.__add__)


def times(usage: Mapping[str, Quantity], number: int) -> Usage:
    """Return `usage` multiplied by `number`; empty when `number` is zero."""
    return {name: amount * number for name, amount in usage.items()} if number > 0 else {}


def _is_extended(name: str) -> bool:
    return "/" in name and _NATIVE_DOMAIN not in name
