"""The devices of ResourceSlices by pool, and the CEL expressions that select them, each evaluated once per device."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec

from pyroclast.api import records
from pyroclast.expressions import EvaluationError, ExpressionError, Program, Type, compile_expression
from pyroclast.expressions.values import BOOL, DYN
from pyroclast.resources import quantity
from pyroclast.resources.quantity import QuantityError
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.node_columns import Bools

_QUOTED: Final = re.compile(r"""["']([^"']*)["']""")
_KINDS: Final = ("bool", "int", "string", "version")
_BUDGET: Final = 50_000
DeviceId = tuple[str, str, str]  # driver, pool, device
CounterId = tuple[str, str, str, str]  # driver, pool, set of counters, counter


class BadSelector(ValueError):
    """An expression is invalid, or fails for a device."""


class Selectors:
    """The results by expression and device, for one session."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], bool | BadSelector] = {}

    def matches(self, selectors: Sequence[Mapping[str, Any]], driver: str, device: records.Device) -> bool:
        """Whether `device` of `driver` satisfies all `selectors`. BadSelector: one is invalid, or fails for this device."""
        return all(self._meets(str((each.get("cel") or {}).get("expression", "")), driver, device) for each in selectors)

    def _meets(self, expression: str, driver: str, device: records.Device) -> bool:
        slot = expression, id(device)
        found = self._known.get(slot)
        if found is None:
            try:
                found = _evaluated(expression, driver, device)
            except BadSelector as error:
                found = error
            self._known[slot] = found
        if isinstance(found, BadSelector):
            raise found
        return found


def _evaluated(expression: str, driver: str, device: records.Device) -> bool:
    program = _compiled(expression)
    if isinstance(program, str):
        raise BadSelector(program)
    domains = {text for text in _QUOTED.findall(expression) if "." in text}  # a domain without entries is empty, not missing
    try:
        value = program.evaluate({"device": _seen(driver, device, domains)}, _BUDGET)
    except (EvaluationError, QuantityError) as error:
        raise BadSelector(f"device {device.name}: {expression}: {error}") from error
    if not isinstance(value, bool):
        raise BadSelector(f"{expression}: is {value!r}, not true or false")
    return value


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Program | str:
    """Return the program, or the reason why it is invalid."""
    variables: Mapping[str, Type] = {"device": DYN}
    try:
        program = compile_expression(expression, variables)
    except ExpressionError as error:
        return f"{expression}: {error}"
    return program if program.type.kind in {BOOL.kind, DYN.kind} else f"{expression}: is of type {program.type}, not bool"


def _seen(driver: str, device: records.Device, domains: set[str]) -> dict[str, Any]:
    """Return the variable `device`: attributes and capacity by domain and name. The default domain is that of the driver."""
    attributes: dict[str, dict[str, Any]] = {domain: {} for domain in (*domains, driver)}
    capacity: dict[str, dict[str, Any]] = {domain: {} for domain in (*domains, driver)}
    for name, entry in device.attributes.items():
        domain, own = _split(name, driver)
        attributes.setdefault(domain, {})[own] = next((entry[kind] for kind in _KINDS if kind in entry), None)
    for name, entry in device.capacity.items():
        domain, own = _split(name, driver)
        capacity.setdefault(domain, {})[own] = quantity.parse(str(entry.get("value", "0")))
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": device.allow_multiple_allocations,
    }


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, own = name.partition("/")
    return (domain, own) if slash else (driver, name)


@dataclass(frozen=True, slots=True)
class Offer:
    """A device. `nodes`: the selector of the nodes that can use it, None for all. `row`: the only such node, None for several."""

    id: DeviceId
    device: records.Device
    nodes: Mapping[str, Any] | None
    row: int | None = None


class Pools:
    """All devices that can be allocated: those of the newest generation of each pool, once all slices of the pool exist.

    Left out are devices that several claims may use at once, and devices with counters that their pool does not define.
    `counters`: the amounts of shared counters. `uses`: the counters that each device consumes. `has_shared`: whether devices
    were left out since several claims may use them at once. `rules`: taints beside those of the slices.
    """

    def __init__(
        self,
        slices: Sequence[records.ResourceSlice],
        rows: Mapping[str, int],
        features: NodeFeatures,
        rules: Sequence[records.DeviceTaintRuleSpec] = (),
    ) -> None:
        self._own: dict[int, list[Offer]] = {}
        self._wide: list[tuple[Offer, Bools | None]] = []
        self.has_shared = False
        current = list(_current(slices))
        self.counters: dict[CounterId, int] = {}
        for slice_ in current:
            self.counters |= _counters(slice_.spec, slice_.spec.shared_counters, "name")
        self.uses: dict[DeviceId, dict[CounterId, int]] = {}
        for slice_ in current:
            spec = slice_.spec
            for offered in spec.devices:
                device = _tainted(offered, spec, rules) if rules else offered
                uses = _counters(spec, device.consumes_counters, "counterSet")
                self.has_shared |= device.allow_multiple_allocations
                if device.allow_multiple_allocations or not uses.keys() <= self.counters.keys():
                    continue
                if uses:
                    self.uses[spec.driver, spec.pool.name, device.name] = uses
                place = device if spec.per_device_node_selection else spec
                identity = (spec.driver, spec.pool.name, device.name)
                if place.node_name:
                    row = rows.get(place.node_name, -1)
                    self._own.setdefault(row, []).append(Offer(identity, device, node_selector(place.node_name), row))
                elif place.node_selector is not None:
                    terms = place.node_selector.get("nodeSelectorTerms") or ()
                    self._wide.append((Offer(identity, device, place.node_selector), features.matching(terms)))
                elif place.all_nodes:
                    self._wide.append((Offer(identity, device, None), None))

    def rows(self, count: int) -> Sequence[int]:
        """Return the nodes that can use any device."""
        return range(count) if self._wide else sorted(row for row in self._own if row >= 0)

    def of(self, row: int) -> list[Offer]:
        """Return the devices that node `row` can use."""
        return [*self._own.get(row, ()), *(offer for offer, mask in self._wide if mask is None or mask[row])]

    def is_own(self, offer: Offer) -> bool:
        """Whether only one node can use `offer` and the devices that share counters with it."""
        is_shared = offer.id in self.uses and (bool(self._wide) or len(self._places[offer.id[:2]]) > 1)
        return offer.row is not None and not is_shared

    @cached_property
    def _places(self) -> Mapping[tuple[str, str], set[int]]:
        """The nodes with devices of each pool."""
        found: dict[tuple[str, str], set[int]] = {}
        for row, offers in self._own.items():
            for offer in offers:
                found.setdefault(offer.id[:2], set()).add(row)
        return found


def _tainted(
    device: records.Device, spec: records.ResourceSliceSpec, rules: Sequence[records.DeviceTaintRuleSpec]
) -> records.Device:
    """Return the device with the taints of the rules that select it."""
    own = {"driver": spec.driver, "pool": spec.pool.name, "device": device.name}
    taints = [
        rule.taint
        for rule in rules
        if (selector := rule.device_selector) is not None
        and all(getattr(selector, field) in {"", value} for field, value in own.items())
    ]
    return msgspec.structs.replace(device, taints=(*device.taints, *taints)) if taints else device


def node_selector(name: str) -> Mapping[str, Any]:
    """Return the selector of one node."""
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}


def _counters(spec: records.ResourceSliceSpec, sets: Sequence[Mapping[str, Any]], key: str) -> dict[CounterId, int]:
    """Return the amounts of all counters of `sets` in units of 10⁻⁹. `key`: the field with the name of a set.

    If an amount is malformed, the result cannot be satisfied or defines no counters.
    """
    found: dict[CounterId, int] = {}
    try:
        for each in sets:
            for name, entry in (each.get("counters") or {}).items():
                place = (spec.driver, spec.pool.name, str(each.get(key)), str(name))
                found[place] = found.get(place, 0) + quantity.parse(str(entry.get("value"))).nanos
    except QuantityError:
        return {(spec.driver, spec.pool.name, "", ""): 0} if key == "counterSet" else {}
    return found


def _current(slices: Sequence[records.ResourceSlice]) -> Iterator[records.ResourceSlice]:
    pools: dict[tuple[str, str], list[records.ResourceSlice]] = {}
    for each in sorted(slices, key=lambda slice_: slice_.metadata.name):
        pools.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
    for found in pools.values():
        newest = max(each.spec.pool.generation for each in found)
        newest_ones = [each for each in found if each.spec.pool.generation == newest]
        if len(newest_ones) >= newest_ones[0].spec.pool.resource_slice_count:
            yield from newest_ones
