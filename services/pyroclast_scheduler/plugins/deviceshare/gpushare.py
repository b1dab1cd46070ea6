"""Cards shared by memory, or given away whole, by the oldest convention: `volcano.sh/gpu-memory` or `volcano.sh/gpu-number`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyroclast.api import keys, records
from pyroclast.resources import quantity
from pyroclast_scheduler.plugins.deviceshare.cards import Card, CardShare, Claim
from pyroclast_scheduler.session.node_books import Refused, final_if

__all__ = ["GpuShare", "amount"]

_MOST: Final = 1024  # cards of a node: what says more is a mistake, and would fill the memory


@dataclass(frozen=True, slots=True)
class GpuShare:
    """Sharing of GPUs by memory, or by whole cards.

    `by_number`: whole cards; else parts of the memory of one.
    """

    by_number: bool

    def wants(self, pod: records.Pod) -> bool:
        """By the limits of the containers."""
        return self._asked(pod) > 0

    def cards(self, node: records.Node) -> list[Card] | None:
        """Equal parts of what the node has, but for the cards that it calls unhealthy."""
        memory, number = amount(node.status.capacity, keys.GPU_MEMORY), amount(node.status.capacity, keys.GPU_NUMBER)
        if memory <= 0 or not 0 < number <= _MOST:
            return None
        broken = {text.strip() for text in node.metadata.annotations.get(keys.GPU_UNHEALTHY_IDS, "").split(",")}
        return [Card(str(at), at, memory // number) for at in range(number) if str(at) not in broken]

    def held(self, pod: records.Pod, annotations: Mapping[str, str]) -> Claim | None:
        """The cards that the annotation names."""
        names = [name for name in annotations.get(keys.GPU_INDEX, "").split(",") if name]
        return Claim((tuple(CardShare(name, 0 if self.by_number else self._asked(pod)) for name in names),)) if names else None

    def choose(self, pod: records.Pod, node: records.Node, cards: Sequence[Card]) -> Claim:
        """The card of the lowest number with enough memory, or the first cards that nobody uses."""
        asked = self._asked(pod)
        if self.by_number:
            free = [card for card in cards if not card.users]
            if len(free) < asked:
                raise Refused(f"no enough gpu number on node {node.metadata.name}", final_if(len(cards) < asked))
            return Claim((tuple(CardShare(card.name, 0) for card in free[:asked]),))
        card = next((card for card in cards if card.idle_memory >= asked), None)
        if card is None:
            is_too_small = all(card.memory < asked for card in cards)
            raise Refused(f"no enough gpu memory on node {node.metadata.name}", final_if(is_too_small))
        return Claim(((CardShare(card.name, asked),),))

    def score(self, cards: Sequence[Card], claim: Claim) -> float:
        """All are alike."""
        del cards, claim
        return 0.0

    def annotations(self, claim: Claim, node: str, now: float) -> Mapping[str, str]:
        """The cards, and when they were chosen, in nanoseconds."""
        del node
        return {keys.GPU_PREDICATE_TIME: str(int(now * 1e9)), keys.GPU_INDEX: ",".join(part.card for part in claim.parts)}

    def _asked(self, pod: records.Pod) -> int:
        key = keys.GPU_NUMBER if self.by_number else keys.GPU_MEMORY
        start = max((amount(each.resources.limits, key) for each in pod.spec.init_containers), default=0)
        return max(start, sum(amount(each.resources.limits, key) for each in pod.spec.containers))


def amount(resources: Mapping[str, str | int], name: str) -> int:
    """A whole number of a resource, 0 where it is not named or cannot be read."""
    try:
        return quantity.parse(resources.get(name, 0)).value
    except quantity.QuantityError:
        return 0
