"""Ascend NPUs as HAMi shares them: chips that the agent of the node reports, divided by templates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from pyroclast.api import keys, records
from pyroclast_scheduler.model.fit_errors import Code
from pyroclast_scheduler.plugins.deviceshare.cards import Card, CardShare, Claim, order, policy_score
from pyroclast_scheduler.plugins.deviceshare.configuration import Chip
from pyroclast_scheduler.plugins.deviceshare.vgpu import amount, decode
from pyroclast_scheduler.session.node_books import Refused

_CONNECTED: Final = "Ascend910"  # chips of this type with the same network number are connected
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
    """One type of chip. `policy`: binpack fills used chips, spread prefers idle chips, empty uses the first chips."""

    chip: Chip
    policy: str = ""

    def wants(self, pod: records.Pod) -> bool:
        """Whether the limits of a container request such chips."""
        return any(self._asks(each) for each in pod.spec.containers)

    def cards(self, node: records.Node) -> list[Card] | None:
        """Return the healthy chips in the annotation of the node, if the node also has them as a resource."""
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
        """Return the claim in the annotations of the bind. The agent removes allocated devices from the second annotation."""
        del pod
        given, left = (annotations.get(key, "") for key in (self._key("allocated"), self._key("to-allocate")))
        return decode(given or left)

    def choose(self, pod: records.Pod, node: records.Node, cards: Sequence[Card]) -> Claim:
        """Return chips for one container after another, no chip for two containers."""
        del node
        chosen: list[tuple[CardShare, ...]] = []
        for container in pod.spec.containers:
            if self._asks(container):
                taken = {part.card for parts in chosen for part in parts}
                chosen.append(self._for_container(container, [card for card in cards if card.name not in taken]))
        return Claim(tuple(chosen))

    def score(self, cards: Sequence[Card], claim: Claim) -> float:
        """Return the score of the policy, plus up to 10 for the largest fraction of the chips that is in one network."""
        found = policy_score(self.policy, cards, claim)
        chosen = {part.card for part in claim.parts}
        together = Counter(card.network for card in cards if card.name in chosen)
        if self._is_connected(cards) and together:
            found += _NETWORK_SCORE * max(together.values()) / together.total()
        return found

    def annotations(self, claim: Claim, node: str, now: float) -> Mapping[str, str]:
        """Return the annotations that the agent of the node and the container runtime read."""
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
    """Return the cards of the network with the most cards first, otherwise in the given order."""
    sizes = Counter(card.network for card in cards)
    first = {network: at for at, network in enumerate(sizes)}
    return sorted(cards, key=lambda card: (-sizes[card.network], first[card.network]))


def _network(info: Mapping[str, object] | None) -> int | None:
    found = (info or {}).get(_NETWORK)
    return int(found) if isinstance(found, int | float) else None
