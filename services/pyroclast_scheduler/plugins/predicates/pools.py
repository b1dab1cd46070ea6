"""The devices that nodes reach. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyroclast.api import records
from pyroclast_scheduler.model.columns import Bools
from pyroclast_scheduler.model.features import NodeFeatures

__all__ = ["DeviceId", "Offer", "Pools"]

DeviceId = tuple[str, str, str]  # driver, pool, device


@dataclass(frozen=True, slots=True)
class Offer:
    """A device; `nodes`: the selector of the nodes that reach it, None: all."""

    id: DeviceId
    device: records.Device
    nodes: Mapping[str, Any] | None


class Pools:
    """All devices that can be handed out: of each pool those of its newest generation, once all its slices are there.

    Devices that are parts of others, or for several claims at once, are left out.
    """

    def __init__(self, slices: Sequence[records.ResourceSlice], rows: Mapping[str, int], features: NodeFeatures) -> None:
        self._own: dict[int, list[Offer]] = {}
        self._wide: list[tuple[Offer, Bools | None]] = []
        for slice_ in _current(slices):
            spec = slice_.spec
            for device in spec.devices:
                if device.consumes_counters or device.allow_multiple_allocations or device.binding_conditions:
                    continue
                place = device if spec.per_device_node_selection else spec
                identity = (spec.driver, spec.pool.name, device.name)
                if place.node_name:
                    field = {"key": "metadata.name", "operator": "In", "values": [place.node_name]}
                    offer = Offer(identity, device, {"nodeSelectorTerms": [{"matchFields": [field]}]})
                    self._own.setdefault(rows.get(place.node_name, -1), []).append(offer)
                elif place.node_selector is not None:
                    terms = place.node_selector.get("nodeSelectorTerms") or ()
                    self._wide.append((Offer(identity, device, place.node_selector), features.matching(terms)))
                elif place.all_nodes:
                    self._wide.append((Offer(identity, device, None), None))

    def rows(self, count: int) -> Sequence[int]:
        """The nodes that reach any device."""
        return range(count) if self._wide else sorted(row for row in self._own if row >= 0)

    def of(self, row: int) -> list[Offer]:
        """The devices that node `row` reaches."""
        return [*self._own.get(row, ()), *(offer for offer, mask in self._wide if mask is None or mask[row])]

    def is_own(self, offer: Offer, row: int) -> bool:
        """Whether no other node reaches `offer`."""
        return any(each is offer for each in self._own.get(row, ()))


def _current(slices: Sequence[records.ResourceSlice]) -> Iterator[records.ResourceSlice]:
    pools: dict[tuple[str, str], list[records.ResourceSlice]] = {}
    for each in sorted(slices, key=lambda slice_: slice_.metadata.name):
        pools.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
    for found in pools.values():
        newest = max(each.spec.pool.generation for each in found)
        newest_ones = [each for each in found if each.spec.pool.generation == newest]
        if len(newest_ones) >= newest_ones[0].spec.pool.resource_slice_count:
            yield from newest_ones
