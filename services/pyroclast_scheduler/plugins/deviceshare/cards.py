"""The cards of a node: their users and claims, how a driver divides a card (MIG), and which pods never share a card."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pyroclast.api import records
from pyroclast_scheduler.model.values import parse_count

Rule = Mapping[str, str]  # labels that a pod must have


@dataclass(frozen=True, slots=True)
class Profile:
    """Instances of one size. `memory`: of each instance, in MiB. `count`: the number of instances."""

    name: str
    memory: int
    count: int


@dataclass(frozen=True, slots=True)
class Geometry:
    """One way to divide a card. The instances are numbered through all profiles, in their order."""

    group: str
    profiles: tuple[Profile, ...]

    def instances(self) -> Iterator[tuple[int, Profile]]:
        """Return all instances with their numbers."""
        numbered = (profile for profile in self.profiles for _ in range(profile.count))
        return enumerate(numbered)


def pick(geometries: Sequence[Geometry], taken: Collection[str], memory: int) -> tuple[str, int] | None:
    """Return the smallest free instance with enough memory, as its name `GROUP-NUMBER` and its memory; None if there is none.

    A divided card keeps its geometry while it has users. Without users, the first geometry with such an instance is chosen.
    `taken`: the names of the instances in use, all of one geometry.
    """
    current = {split(name)[0] for name in taken}
    for geometry in geometries:
        if current and geometry.group not in current:
            continue
        free = [
            (profile.memory, number)
            for number, profile in geometry.instances()
            if profile.memory >= memory and f"{geometry.group}-{number}" not in taken
        ]
        if free:
            size, number = min(free)
            return f"{geometry.group}-{number}", size
    return None


def split(name: str) -> tuple[str, int]:
    """Return group and number of an instance; the number is −1 if the name is malformed."""
    group, _, number = name.rpartition("-")
    known = parse_count(number)
    return group, -1 if known is None else known


@dataclass(frozen=True, slots=True)
class CardShare:
    """The share of one card that one container uses: memory in the unit of the device type, cores in hundredths of the card.

    `instance`: the name of the MIG instance if the driver divides the card into instances, else empty.
    """

    card: str
    memory: int
    cores: int = 0
    instance: str = ""


@dataclass(slots=True)
class Card:
    """One device, such as a GPU. `memory`: in the unit of the device type. `slots`: how many containers may share the device.

    `users`, `groups`: the shares and PodGroups of pods by UID of the pod. `geometries`: how the driver can divide the device;
    empty if it is shared undivided. `network`: the number of its network; None if it is unknown.
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
        """Return a copy of the card, on which a trial may allocate shares."""
        return replace(self, users={uid: list(parts) for uid, parts in self.users.items()}, groups=dict(self.groups))

    @property
    def used_memory(self) -> int:
        """The memory that all users of the card have together."""
        return sum(part.memory for parts in self.users.values() for part in parts)

    @property
    def used_cores(self) -> int:
        """The cores that all users of the card have together, in hundredths of the card."""
        return sum(part.cores for parts in self.users.values() for part in parts)

    @property
    def uses(self) -> int:
        """The number of containers that use the card."""
        return sum(len(parts) for parts in self.users.values())

    @property
    def idle_memory(self) -> int:
        """The free memory, 0 if the card is overcommitted."""
        return max(0, self.memory - self.used_memory)

    @property
    def instances(self) -> set[str]:
        """The names of the MIG instances that pods use."""
        return {part.instance for parts in self.users.values() for part in parts if part.instance}


@dataclass(frozen=True, slots=True)
class Claim:
    """The shares that a pod gets on a node, by container."""

    containers: tuple[tuple[CardShare, ...], ...]

    @property
    def parts(self) -> tuple[CardShare, ...]:
        """All shares."""
        return tuple(part for container in self.containers for part in container)


def order(policy: str, card: Card) -> tuple[int, int]:
    """Return the sort key of a card: binpack the fullest first, spread the one with fewest containers first, then by index."""
    rank = {"binpack": -card.used_memory, "spread": card.uses}
    return rank.get(policy, 0), card.index


def policy_score(policy: str, cards: Sequence[Card], claim: Claim) -> float:
    """Return the score by policy. Binpack: the percentages of memory used afterwards. Spread: 100 for each card without users."""
    by_name = {card.name: card for card in cards}
    found = [by_name[part.card] for part in claim.parts]
    if policy == "binpack":
        parts = zip(found, claim.parts, strict=True)
        return sum(100.0 * (card.used_memory + part.memory) / card.memory for card, part in parts if card.memory)
    return sum(100.0 for card in found if not card.users) if policy == "spread" else 0.0


class CardKind(Protocol):
    """One type of device, and the rules by which pods share devices of this type."""

    def wants(self, pod: records.Pod) -> bool:
        """Whether a pod requests such devices."""

    def cards(self, node: records.Node) -> list[Card] | None:
        """Return the cards of a node; None if the node has no cards of this type."""

    def held(self, pod: records.Pod, annotations: Mapping[str, str]) -> Claim | None:
        """Return the claim of a placed pod, by the annotations of its bind."""

    def choose(self, pod: records.Pod, node: records.Node, cards: Sequence[Card]) -> Claim:
        """Return the claim that a pod would get, or raise Refused if no cards fit."""

    def score(self, cards: Sequence[Card], claim: Claim) -> float:
        """Return the score of a claim; 0 if all claims are equal."""

    def annotations(self, claim: Claim, node: str, now: float) -> Mapping[str, str]:
        """Return the annotations that the bind adds for a claim."""


def rules_of(given: Any) -> list[Rule]:  # noqa: ANN401 - a YAML value
    """Return the rules of a configuration. Empty rules, and values that are no text, are left out."""
    if not isinstance(given, list):
        return []
    found = [
        {str(key): value for key, value in each.items() if isinstance(value, str)} for each in given if isinstance(each, dict)
    ]
    return [rule for rule in found if rule]


def matching(rules: Sequence[Rule], labels: Mapping[str, str]) -> set[int]:
    """Return the numbers of the rules that match a pod with these labels."""
    return {number for number, rule in enumerate(rules) if all(labels.get(key) == value for key, value in rule.items())}


def usable(cards: Iterable[Card], own: set[int], rules_by_pod: Mapping[str, set[int]]) -> list[Card]:
    """Return the cards that have no user which matches one of the rules `own`. A divided card (MIG) is always usable."""

    def is_shared(card: Card) -> bool:
        return not card.geometries and any(own & rules_by_pod.get(uid, set()) for uid in card.users)

    return [card for card in cards if not is_shared(card)] if own else list(cards)
