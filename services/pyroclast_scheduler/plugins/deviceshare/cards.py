"""The cards of a node and who uses how much of each: values that a trial copies, and what a pod would get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pyroclast.api import records
from pyroclast_scheduler.plugins.deviceshare.geometry import Geometry

__all__ = ["Card", "CardKind", "CardShare", "Claim", "order", "policy_score"]


@dataclass(frozen=True, slots=True)
class CardShare:
    """What one container has of one card: memory in the unit of the kind, cores in hundredths of the card.

    `instance`: which one of those that the driver cut the card into, empty if it is not cut.
    """

    card: str
    memory: int
    cores: int = 0
    instance: str = ""


@dataclass(slots=True)
class Card:
    """One device, such as a GPU. `users`: the shares that pods have of it, and `groups`: their PodGroups, both by UID of the pod.

    `geometries`: how its driver can cut it; empty if it is shared as it is. `network`: the number of that to which it is linked.
    """

    name: str
    index: int
    memory: int
    slots: int = 1
    type: str = ""
    users: dict[str, list[CardShare]] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    geometries: tuple[Geometry, ...] = ()
    network: int | None = None

    def copy(self) -> Card:
        """The card as it is, on which a trial may give parts away."""
        return replace(self, users={uid: list(parts) for uid, parts in self.users.items()}, groups=dict(self.groups))

    @property
    def used_memory(self) -> int:
        """What its users have together."""
        return sum(part.memory for parts in self.users.values() for part in parts)

    @property
    def used_cores(self) -> int:
        """Hundredths of its cores that its users have together."""
        return sum(part.cores for parts in self.users.values() for part in parts)

    @property
    def uses(self) -> int:
        """How many containers have a part of it."""
        return sum(len(parts) for parts in self.users.values())

    @property
    def idle_memory(self) -> int:
        """What is left, nothing where too much was given away."""
        return max(0, self.memory - self.used_memory)

    @property
    def instances(self) -> set[str]:
        """Those of its instances that somebody uses."""
        return {part.instance for parts in self.users.values() for part in parts if part.instance}


@dataclass(frozen=True, slots=True)
class Claim:
    """What a pod gets on a node: for each container its parts."""

    containers: tuple[tuple[CardShare, ...], ...]

    @property
    def parts(self) -> tuple[CardShare, ...]:
        """All parts."""
        return tuple(part for container in self.containers for part in container)


def order(policy: str, card: Card) -> tuple[int, int]:
    """Cards in the order in which they are tried: binpack the fullest, spread those with the fewest containers; then by index."""
    rank = {"binpack": -card.used_memory, "spread": card.uses}
    return rank.get(policy, 0), card.index


def policy_score(policy: str, cards: Sequence[Card], claim: Claim) -> float:
    """Binpack: how full the cards get, 100 each, and nothing for those without memory; spread: 100 for each that nobody uses."""
    by_name = {card.name: card for card in cards}
    found = [by_name[part.card] for part in claim.parts]
    if policy == "binpack":
        parts = zip(found, claim.parts, strict=True)
        return sum(100.0 * (card.used_memory + part.memory) / card.memory for card, part in parts if card.memory)
    return sum(100.0 for card in found if not card.users) if policy == "spread" else 0.0


class CardKind(Protocol):
    """One kind of device, and how it is shared."""

    def wants(self, pod: records.Pod) -> bool:
        """Whether a pod asks for such devices."""

    def cards(self, node: records.Node) -> list[Card] | None:
        """The cards of a node; None if it has none of this kind."""

    def held(self, pod: records.Pod, annotations: Mapping[str, str]) -> Claim | None:
        """What a placed pod has, by the annotations that its bind left."""

    def choose(self, pod: records.Pod, node: records.Node, cards: Sequence[Card]) -> Claim:
        """What a pod would get.

        Raises:
            Refused: nothing that would do.
        """

    def score(self, cards: Sequence[Card], claim: Claim) -> float:
        """How good that would be; 0 where all are alike."""

    def annotations(self, claim: Claim, node: str, now: float) -> Mapping[str, str]:
        """What the bind says of it."""
