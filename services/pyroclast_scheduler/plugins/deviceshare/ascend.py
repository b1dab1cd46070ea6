"""NPUs of Ascend as HAMi divides them: chips that the node's agent announces, cut by templates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from pyroclast.api import keys, records
from pyroclast_scheduler.model.reasons import Code
from pyroclast_scheduler.plugins.deviceshare.cards import Card, CardShare, Claim, order, policy_score
from pyroclast_scheduler.plugins.deviceshare.configuration import Chip
from pyroclast_scheduler.plugins.deviceshare.gpushare import amount
from pyroclast_scheduler.plugins.deviceshare.vgpu import decode
from pyroclast_scheduler.session.node_books import Refused

__all__ = ["Ascend"]

_CONNECTED: Final = "Ascend910"  # such chips have links within a network, which its number tells
_NETWORK: Final = "NetworkID"
_NETWORK_SCORE: Final = 10.0


class _Announced(msgspec.Struct, frozen=True):
    id: str
    count: int = 0
    devmem: int = 0
    type: str = ""
    health: bool = True
    custominfo: dict[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Ascend:
    """One kind of chip. `policy`: binpack fills chips up, spread takes idle ones, empty takes the first ones."""

    chip: Chip
    policy: str = ""

    def wants(self, pod: records.Pod) -> bool:
        """By the limits of the containers."""
        return any(self._asks(each) for each in pod.spec.containers)

    def cards(self, node: records.Node) -> list[Card] | None:
        """The healthy chips that the annotation lists, where the node also counts them among its resources."""
        if amount(node.status.allocatable, self.chip.resource) <= 0:
            return None
        text = node.metadata.annotations.get(f"{keys.HAMI_NODE_REGISTER}{self.chip.word}", "")
        try:
            announced = msgspec.json.decode(text.encode(), type=list[_Announced])
        except (msgspec.DecodeError, RecursionError):  # also where it is missing
            return None
        cards = [
            Card(each.id, at, each.devmem, each.count, each.type, network=_network(each.custominfo))
            for at, each in enumerate(announced)
            if each.health
        ]
        return cards if announced else None

    def held(self, pod: records.Pod, annotations: Mapping[str, str]) -> Claim | None:
        """What the annotations of the bind name; the agent takes from the second what it has handed out."""
        del pod
        given, left = (annotations.get(key, "") for key in (self._key("allocated"), self._key("to-allocate")))
        return decode(given or left)

    def choose(self, pod: records.Pod, node: records.Node, cards: Sequence[Card]) -> Claim:
        """Chips for one container after another, none of them for two."""
        del node
        chosen: list[tuple[CardShare, ...]] = []
        for container in pod.spec.containers:
            if self._asks(container):
                taken = {part.card for parts in chosen for part in parts}
                chosen.append(self._for_container(container, [card for card in cards if card.name not in taken]))
        return Claim(tuple(chosen))

    def score(self, cards: Sequence[Card], claim: Claim) -> float:
        """By the policy, and how many of connected chips are in one network: all of them is 10."""
        found = policy_score(self.policy, cards, claim)
        chosen = {part.card for part in claim.parts}
        together = Counter(card.network for card in cards if card.name in chosen)
        if self._is_connected(cards) and together:
            found += _NETWORK_SCORE * max(together.values()) / together.total()
        return found

    def annotations(self, claim: Claim, node: str, now: float) -> Mapping[str, str]:
        """What the agent of the node and the runtime read."""
        text = "".join(
            "".join(f"{part.card},{self.chip.word},{part.memory},0:" for part in parts) + ";" for parts in claim.containers
        )
        fitted = [(part.card, self.chip.fitted(part.memory)) for part in claim.parts]
        cards = [{"UUID": card, **({"temp": cut.name} if cut is not None and cut.name else {})} for card, cut in fitted]
        seconds = str(int(now))
        return {
            self._key("to-allocate"): text,
            self._key("allocated"): text,
            f"{keys.HUAWEI}{self.chip.word}": json.dumps(cards, separators=(",", ":")),
            keys.PREDICATE_TIME: seconds,
            keys.HAMI_NODE: node,
            keys.HAMI_TIME: seconds,
            keys.HAMI_BIND_PHASE: "allocating",
            keys.HAMI_BIND_TIME: seconds,
        }

    def _key(self, what: str) -> str:
        return f"{keys.HAMI}{self.chip.word}-devices-{what}"

    def _asks(self, container: records.Container) -> bool:
        limits = container.resources.limits
        return self.chip.resource in limits or self.chip.memory_resource in limits

    def _for_container(self, container: records.Container, cards: Sequence[Card]) -> tuple[CardShare, ...]:
        limits = container.resources.limits
        both = {**container.resources.requests, **limits}
        number = amount(limits, self.chip.resource) if self.chip.resource in limits else 1
        memory = amount(both, self.chip.memory_resource)
        cut = self.chip.fitted(memory or self.chip.allocatable)
        if cut is None:
            raise Refused(f"no {self.chip.word} has that much memory", Code.UNRESOLVABLE)
        if number > 1 and cut.memory != self.chip.allocatable:
            raise Refused("vNPU does not support partial memory allocation when requesting multiple devices", Code.UNRESOLVABLE)
        fitting = [card for card in cards if len(card.users) < card.slots and card.idle_memory >= cut.memory]
        if len(fitting) < number:
            raise Refused("no enough ascend device available")
        fitting.sort(key=lambda card: order(self.policy, card))
        if self._is_connected(cards):
            fitting = _by_network(fitting)
        return tuple(CardShare(card.name, cut.memory) for card in fitting[:number])

    def _is_connected(self, cards: Iterable[Card]) -> bool:
        return self.chip.word.startswith(_CONNECTED) and all(card.network is not None for card in cards)


def _by_network(cards: Sequence[Card]) -> list[Card]:
    """Those of the network with most of them first; in each as they stand."""
    sizes = Counter(card.network for card in cards)
    first = {network: at for at, network in enumerate(sizes)}
    return sorted(cards, key=lambda card: (-sizes[card.network], first[card.network]))


def _network(info: Mapping[str, object] | None) -> int | None:
    found = (info or {}).get(_NETWORK)
    return int(found) if isinstance(found, int | float) else None
