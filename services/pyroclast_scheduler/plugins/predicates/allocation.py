"""Finds devices for the requests of a pod among those that a node can use. The code is pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyroclast.api import records
from pyroclast.resources import quantity
from pyroclast.resources.quantity import QuantityError
from pyroclast_scheduler.model.features import tolerates
from pyroclast_scheduler.model.shapes import Toleration
from pyroclast_scheduler.plugins.predicates.pools import BadSelector, CounterId, DeviceId, Offer, Selectors

_FORBIDDING: Final = frozenset({"NoSchedule", "NoExecute"})
_STEPS: Final = 20_000  # steps of one search; more steps rarely find an allocation


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request of a claim. `ways`: the alternatives, best first, each with the name under which its devices are allocated."""

    claim: str
    name: str
    ways: tuple[tuple[str, records.DeviceWish], ...]
    constraints: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Picked:
    """A device that was chosen for a request."""

    claim: str
    request: str
    offer: Offer
    wish: records.DeviceWish


@dataclass(frozen=True, slots=True)
class Market:
    """The devices in use, the device classes, and the results of CEL expressions.

    `taken`: the number of users of each device. `uses`: the shared counters that each device consumes. `left`: the free amounts
    of these counters.
    """

    taken: Mapping[DeviceId, int]
    classes: Mapping[str, records.DeviceClass]
    selectors: Selectors
    uses: Mapping[DeviceId, Mapping[CounterId, int]] = field(default_factory=dict)
    left: Mapping[CounterId, int] = field(default_factory=dict)

    def meet(self, wishes: Sequence[DeviceRequest], offers: Sequence[Offer]) -> list[Picked] | None:
        """Return the first devices that satisfy all requests; None if there are none. BadSelector: a selector or class is bad."""
        return _Search(self, wishes, offers).go_on(0, [])


class _Search:
    """A search with backtracking, request by request."""

    def __init__(self, market: Market, wishes: Sequence[DeviceRequest], offers: Sequence[Offer]) -> None:
        self._market = market
        self._wishes = wishes
        self._offers = offers
        self._left = _STEPS
        self._known: dict[tuple[int, int], list[Offer]] = {}

    def go_on(self, at: int, picked: list[Picked]) -> list[Picked] | None:
        if at == len(self._wishes):
            return picked
        used = {each.offer.id for each in picked}
        for way, (_, wish) in enumerate(self._wishes[at].ways):
            candidates = self._fitting(at, way)
            free = [each for each in candidates if wish.is_for_admin or not (self._market.taken.get(each.id) or each.id in used)]
            count = wish.count or 1
            if wish.allocation_mode == "All":
                if not candidates or len(free) < len(candidates):
                    continue
                count = len(candidates)
            found = self._choose(at, way, free, count, picked)
            if found is not None:
                return found
        return None

    def _choose(self, at: int, way: int, free: Sequence[Offer], count: int, picked: list[Picked]) -> list[Picked] | None:
        """Choose `count` of `free`, in their order, so that all later requests can be satisfied too."""
        if not count:
            return self.go_on(at + 1, picked)
        name, wish = self._wishes[at].ways[way]
        for i in range(len(free) - count + 1):
            self._left -= 1
            if self._left < 0:
                return None
            one = Picked(self._wishes[at].claim, name, free[i], wish)
            if self._is_left(one, picked) and all(_agree(each, one, picked) for each in self._wishes[at].constraints):
                found = self._choose(at, way, free[i + 1 :], count - 1, [*picked, one])
                if found is not None:
                    return found
        return None

    def _is_left(self, one: Picked, picked: Sequence[Picked]) -> bool:
        """Whether the shared counters have enough for `one` beside the devices chosen before."""
        needed = self._market.uses.get(one.offer.id)
        if not needed or one.wish.is_for_admin:
            return True
        beside = [self._market.uses.get(each.offer.id, {}) for each in picked if not each.wish.is_for_admin]
        return all(
            amount + sum(each.get(counter, 0) for each in beside) <= self._market.left.get(counter, 0)
            for counter, amount in needed.items()
        )

    def _fitting(self, at: int, way: int) -> list[Offer]:
        if (at, way) not in self._known:
            wish, market = self._wishes[at].ways[way][1], self._market
            self._known[at, way] = [each for each in self._offers if _fits(each, wish, market.classes, market.selectors)]
        return self._known[at, way]


def wishes_of(key: str, claim: records.ResourceClaim) -> list[DeviceRequest]:
    """Return the requests of a claim."""
    found: list[DeviceRequest] = []
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            ways: tuple[tuple[str, records.DeviceWish], ...] = ((request.name, request.exactly),)
        else:
            ways = tuple((f"{request.name}/{each.name}", each) for each in request.first_available)
        constraints = tuple(each for each in claim.spec.devices.constraints if _names(each, request.name))
        found.append(DeviceRequest(key, request.name, ways, constraints))
    return found


def _fits(offer: Offer, wish: records.DeviceWish, classes: Mapping[str, records.DeviceClass], selectors: Selectors) -> bool:
    found = classes.get(wish.device_class_name)
    if found is None:
        raise BadSelector(f"device class {wish.device_class_name} does not exist")
    device = offer.device
    tolerations = [
        Toleration(*(str(each.get(key) or "") for key in ("key", "operator", "value", "effect"))) for each in wish.tolerations
    ]
    for taint in device.taints:
        known = records.Taint(**{key: str(taint.get(key) or "") for key in ("key", "value", "effect")})
        if known.effect in _FORBIDDING and not any(tolerates(each, known) for each in tolerations):
            return False
    if not _has(device, (wish.capacity or {}).get("requests") or {}):
        return False
    return selectors.matches((*found.spec.selectors, *wish.selectors), offer.id[0], device)


def _has(device: records.Device, amounts: Mapping[str, Any]) -> bool:
    try:
        return all(
            name in device.capacity and quantity.parse(str(device.capacity[name].get("value"))) >= quantity.parse(str(amount))
            for name, amount in amounts.items()
        )
    except QuantityError:
        return False


def _agree(constraint: Mapping[str, Any], one: Picked, picked: Sequence[Picked]) -> bool:
    """Whether `one` has, as its constraint asks, an attribute equal to or different from that of the devices chosen before."""
    beside = [each for each in picked if each.claim == one.claim and _names(constraint, each.request.partition("/")[0])]
    same, other = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if same:
        value = _attribute(one, same)
        return value is not None and all(_attribute(each, same) == value for each in beside)
    if other:
        value = _attribute(one, other)
        return value is not None and all(_attribute(each, other) != value for each in beside)
    return True


def _attribute(picked: Picked, name: str) -> Any | None:  # noqa: ANN401 - of the kinds that attributes may have
    known = picked.offer.device.attributes
    domain, _, own = name.partition("/")
    entry = known.get(name) or (known.get(own) if domain == picked.offer.id[0] else None)
    return next(iter(entry.items()), None) if entry else None


def _names(constraint: Mapping[str, Any], request: str) -> bool:
    names = constraint.get("requests") or ()
    return not names or request in {str(name).partition("/")[0] for name in names}
