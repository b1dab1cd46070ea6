"""GPUs shared by memory (`volcano.sh/gpu-memory`) or allocated as a whole (`volcano.sh/gpu-number`), the oldest convention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyroclast.api import keys, records
from pyroclast.resources import quantity
from pyroclast_scheduler.plugins.deviceshare.cards import Card, CardShare, Claim
from pyroclast_scheduler.session.node_books import Refused, final_if

_MOST: Final = 1024  # the largest number of cards of a node; a larger number is an error that would exhaust the memory


@dataclass(frozen=True, slots=True)
class GpuShare:
    """Sharing of GPUs. `by_number`: pods get whole cards; else a share of the memory of one card."""

    by_number: bool

    def wants(self, pod: records.Pod) -> bool:
        """Whether the limits of the containers request GPUs."""
        return self._asked(pod) > 0

    def cards(self, node: records.Node) -> list[Card] | None:
        """Return the cards of the node, all with the same memory, without those that an annotation marks as unhealthy."""
        memory, number = amount(node.status.capacity, keys.GPU_MEMORY), amount(node.status.capacity, keys.GPU_NUMBER)
        if memory <= 0 or not 0 < number <= _MOST:
            return None
        broken = {text.strip() for text in node.metadata.annotations.get(keys.GPU_UNHEALTHY_IDS, "").split(",")}
        return [Card(str(at), at, memory // number) for at in range(number) if str(at) not in broken]

    def held(self, pod: records.Pod, annotations: Mapping[str, str]) -> Claim | None:
        """Return the cards of a bound pod, as the annotation of its bind records them."""
        names = [name for name in annotations.get(keys.GPU_INDEX, "").split(",") if name]
        return Claim((tuple(CardShare(name, 0 if self.by_number else self._asked(pod)) for name in names),)) if names else None

    def choose(self, pod: records.Pod, node: records.Node, cards: Sequence[Card]) -> Claim:
        """Return the first card with enough memory, or the first cards without users."""
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
        """Return 0 for all claims."""
        del cards, claim
        return 0.0

    def annotations(self, claim: Claim, node: str, now: float) -> Mapping[str, str]:
        """Return the annotations with the cards, and with the time of the choice in nanoseconds."""
        del node
        return {keys.GPU_PREDICATE_TIME: str(int(now * 1e9)), keys.GPU_INDEX: ",".join(part.card for part in claim.parts)}

    def _asked(self, pod: records.Pod) -> int:
        key = keys.GPU_NUMBER if self.by_number else keys.GPU_MEMORY
        start = max((amount(each.resources.limits, key) for each in pod.spec.init_containers), default=0)
        return max(start, sum(amount(each.resources.limits, key) for each in pod.spec.containers))


def amount(resources: Mapping[str, str | int], name: str) -> int:
    """Return a resource as a whole number, 0 if it is missing or malformed."""
    try:
        return quantity.parse(resources.get(name, 0)).value
    except quantity.QuantityError:
        return 0
