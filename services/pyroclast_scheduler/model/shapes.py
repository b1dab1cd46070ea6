"""Shapes: the requests and constraints that pods of one template share. Feasibility and scores are calculated once per shape.

Affinity and spread constraints stay plain JSON. The API server rejects other structures than those of the API. The scheduler
still checks each shape once, so that a pod with another structure is left out before the session places other pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple
from weakref import WeakSet, WeakValueDictionary

import msgspec

from pyroclast.api import keys, records
from pyroclast.resources.selectors import selected_labels
from pyroclast_scheduler.model.claims import has_claims
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.requests import non_zero, pod_limits, pod_request

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_Check = Callable[[Any, str], None]


def _object(form: Mapping[str, _Check]) -> _Check:
    """Return the check of an object, which may be missing, and of those of its fields that `form` names."""

    def check_fields(value: object, where: str) -> None:
        if value is None:
            return
        if not isinstance(value, Mapping):
            raise ValueError(f"{where}: an object is wanted, not {value!r}"[:200])  # noqa: TRY004
        for name, check in form.items():
            if value.get(name) is not None:
                check(value[name], f"{where}.{name}")

    return check_fields


def _each(check: _Check) -> _Check:
    def check_all(value: object, where: str) -> None:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ValueError(f"{where}: a list is wanted, not {value!r}"[:200])  # noqa: TRY004
        for i, each in enumerate(value):
            if each is None:
                raise ValueError(f"{where}[{i}]: must not be null")
            check(each, f"{where}[{i}]")

    return check_all


def _affinity(required: _Check, preferred: Mapping[str, _Check]) -> _Check:
    return _object({_REQUIRED: required, _PREFERRED: _each(_object({"weight": _number, **preferred}))})


def _texts(value: object, where: str) -> None:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError(f"{where}: an object of strings is wanted, not {value!r}"[:200])


def _text(value: object, where: str) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{where}: a string is wanted, not {value!r}"[:200])  # noqa: TRY004


def _number(value: object, where: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**31) <= value < 2**31:
        raise ValueError(f"{where}: a number is wanted, not {value!r}"[:200])


_EXPRESSIONS: Final = _each(_object({"key": _text, "operator": _text, "values": _each(_text)}))
_SELECTOR: Final = _object({"matchLabels": _texts, "matchExpressions": _EXPRESSIONS})
_NODE_TERM: Final = _object({"matchExpressions": _EXPRESSIONS, "matchFields": _EXPRESSIONS})
_POD_TERM: Final = _object({
    "topologyKey": _text,
    "labelSelector": _SELECTOR,
    "namespaceSelector": _SELECTOR,
    "namespaces": _each(_text),
    "matchLabelKeys": _each(_text),
    "mismatchLabelKeys": _each(_text),
})  # fmt: skip
_POD_AFFINITY: Final = _affinity(_each(_POD_TERM), {"podAffinityTerm": _POD_TERM})
_AFFINITY: Final = _object({
    "nodeAffinity": _affinity(_object({"nodeSelectorTerms": _each(_NODE_TERM)}), {"preference": _NODE_TERM}),
    "podAffinity": _POD_AFFINITY,
    "podAntiAffinity": _POD_AFFINITY,
})  # fmt: skip
_SPREAD: Final = _each(_object({
    "topologyKey": _text,
    "maxSkew": _number,
    "minDomains": _number,
    "whenUnsatisfiable": _text,
    "labelSelector": _SELECTOR,
    "matchLabelKeys": _each(_text),
    "nodeAffinityPolicy": _text,
    "nodeTaintsPolicy": _text,
}))  # fmt: skip


def check_placement(affinity: object, spread: object) -> None:
    """Check affinity and topology spread constraints of a pod.

    Raises:
        ValueError: one of them does not have the structure of the API; the text names the field.
    """
    _AFFINITY(affinity, "affinity")
    _SPREAD(spread, "topologySpreadConstraints")


class PlacementLabels:
    """All label keys that were used once. `version` increases with each new key.

    A new key invalidates earlier equivalence classes, since pods of one class may differ in this label.
    """

    def __init__(self) -> None:
        self.keys: frozenset[str] = frozenset()
        self.version = 0

    def learn(self, keys: Collection[str]) -> None:
        """Add the label keys that a pod uses."""
        if not self.keys.issuperset(keys):
            self.keys = self.keys.union(keys)
            self.version += 1


class Port(NamedTuple):
    """A host port that a pod uses. The `ip` 0.0.0.0 stands for every address."""

    protocol: str
    ip: str
    number: int


class Toleration(NamedTuple):
    """A toleration. An empty key with operator Exists tolerates all taints, and an empty effect matches all effects."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, eq=False)
class Shape:
    """One shape. Shapes are compared by identity, since `ShapeBook` has one object per content.

    `request` contains every resource that the pod names, also those with amount 0, and always `pods: 1`.
    """

    request: Amounts
    non_zero_cpu: int
    non_zero_memory: int
    selector: Mapping[str, str]
    affinity: Mapping[str, Any]
    tolerations: tuple[Toleration, ...]
    ports: tuple[Port, ...]
    spread: Sequence[Mapping[str, Any]]
    limits: Amounts = field(default_factory=dict)
    """The sum of the cpu and memory limits of the containers."""

    marks: Mapping[str, str] = field(default_factory=dict)
    """The annotations of the pod that influence feasibility or scores."""

    has_claims: bool = False
    """Whether the pods use PersistentVolumeClaims or ResourceClaims: each pod may then have different feasible nodes."""

    images: tuple[str, ...] = ()
    """The images of all containers, including init containers."""

    @cached_property
    def is_best_effort(self) -> bool:
        """Whether the pod requests no resources."""
        return not any(amount for name, amount in self.request.items() if name != "pods")

    @property
    def node_terms(self) -> Sequence[Mapping[str, Any]] | None:
        """The terms of required node affinity, of which one must match; None if there are none."""
        required = (self.affinity.get("nodeAffinity") or {}).get(_REQUIRED)
        return None if required is None else required.get("nodeSelectorTerms") or ()

    def required(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """Return the required terms of `podAffinity` or `podAntiAffinity`."""
        return (self.affinity.get(kind) or {}).get(_REQUIRED) or ()

    def preferred(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """Return the preferred terms of `nodeAffinity`, `podAffinity` or `podAntiAffinity`."""
        return (self.affinity.get(kind) or {}).get(_PREFERRED) or ()

    @cached_property
    def is_coupled(self) -> bool:
        """Whether the placement of a pod depends on other pods beyond their requests."""
        return bool(self.spread or self.affinity.get("podAffinity") or self.affinity.get("podAntiAffinity"))

    @cached_property
    def placement_labels(self) -> frozenset[str]:
        """The pod labels by which affinity terms and spread constraints of this shape select pods."""
        kinds = ("podAffinity", "podAntiAffinity")
        preferred = (each.get("podAffinityTerm") or {} for kind in kinds for each in self.preferred(kind))
        found: set[str] = set()
        for term in (*self.spread, *preferred, *(each for kind in kinds for each in self.required(kind))):
            found |= selected_labels(term.get("labelSelector"))
            found.update(term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ())
        return frozenset(found)


class ShapeBook:
    """One `Shape` object per distinct content, stored as long as some object refers to it."""

    def __init__(self) -> None:
        self._shapes: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self._coupled: WeakSet[Shape] = WeakSet()
        self.placement_labels = PlacementLabels()

    def __len__(self) -> int:
        return len(self._shapes)

    @property
    def is_any_coupled(self) -> bool:
        """Whether the placement of some pod depends on other pods (`Shape.is_coupled`)."""
        return bool(self._coupled)

    def of(self, spec: records.PodSpec, annotations: Mapping[str, str] | None = None) -> Shape:
        """Return the shape of a pod with this spec and these annotations; the same object for equal content.

        Raises:
            ValueError: a quantity is invalid, or the affinity does not have the structure of the API.
        """
        marks = {key: annotations[key] for key in _MARKS if key in annotations} if annotations else {}
        key = _ENCODER.encode(
            (
                spec.containers,
                spec.init_containers,
                spec.resources,
                spec.overhead,
                spec.node_selector,
                spec.affinity,
                spec.tolerations,
                spec.topology_spread_constraints,
                marks,
                has_claims(spec),
            )
        )
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = _shape_of(spec, marks)
            if shape.is_coupled:
                self._coupled.add(shape)
                self.placement_labels.learn(shape.placement_labels)
        return shape


_MARKS: Final = (
    keys.PREEMPTABLE,
    keys.QUEUE_ALLOCATION_GATE,
    keys.NUMA_TOPOLOGY_POLICY,
    keys.REVOCABLE_ZONE,
    keys.RESOURCE_STRATEGY_SCORING_TYPE,
    keys.RESOURCE_STRATEGY_WEIGHT,
    *keys.VGPU_CHOICES,
)
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


def _shape_of(spec: records.PodSpec, marks: Mapping[str, str]) -> Shape:
    check_placement(spec.affinity, spec.topology_spread_constraints)
    cpu, memory = non_zero(spec)
    containers = (*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always"))
    ports = [
        Port(port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)
        for container in containers
        for port in container.ports
        if port.host_port
    ]
    return Shape(
        request=pod_request(spec),
        non_zero_cpu=cpu,
        non_zero_memory=memory,
        selector=spec.node_selector,
        affinity=spec.affinity or {},
        tolerations=tuple(Toleration(t.key, t.operator, t.value, t.effect) for t in spec.tolerations),
        ports=tuple(ports),
        spread=spec.topology_spread_constraints,
        limits=pod_limits(spec),
        marks=marks,
        has_claims=has_claims(spec),
        images=tuple(container.image for container in (*spec.containers, *spec.init_containers)),
    )
