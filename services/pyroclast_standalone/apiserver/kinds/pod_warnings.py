"""Warnings about valid but probably unintended parts of a pod's spec: duplicate names, fractions of a byte, old labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast.rules import names

_BAD_HOST_NAME: Final = (
    "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
)
_OLD_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def warn_of_pod(pod: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[str]:
    """Return the warnings about a new pod."""
    if old is not None:
        return []
    spec, faults = pod["spec"], names.dns_label(pod["metadata"]["name"])
    told = [f"{_BAD_HOST_NAME}: [{' '.join(faults)}]"] if faults else []
    told += [f"spec.nodeSelector[{key}]: {_OLD_LABELS[key]}" for key in spec.get("nodeSelector") or () if key in _OLD_LABELS]
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            path = f"spec.{field}[{index}]"
            told += _fractions(container.get("resources") or {}, f"{path}.resources")
            told += _variables(container.get("env") or (), f"{path}.env")
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        told.append("spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1")
    return told


def _fractions(resources: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield warnings about fractions of a byte, such as `100m` of memory."""
    for name in ("memory", "ephemeral-storage"):
        for kind in ("limits", "requests"):
            amount = (resources.get(kind) or {}).get(name)
            if amount is not None and quantity.parse(amount).millis % 1000:
                text = f'fractional byte value "{amount}" is invalid, must be an integer'
                yield f"{path}.{kind}[{name}]: {text}"


def _variables(variables: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if name in seen:
            own, value = f"$({name})", variable.get("value") or ""
            if "valueFrom" in variable or value == own or own not in value:
                yield f'{path}[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)
