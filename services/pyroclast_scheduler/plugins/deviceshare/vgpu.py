"""GPUs: divided by memory and cores (vGPU, MIG), or by the oldest convention, in memory or whole cards (gpushare)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyroclast.api import keys, records
from pyroclast.resources import quantity
from pyroclast_scheduler.model.fit_errors import Code
from pyroclast_scheduler.model.tasks import group_of
from pyroclast_scheduler.model.values import parse_count
from pyroclast_scheduler.plugins.deviceshare.cards import Card, CardShare, Claim, Geometry, order, pick, policy_score
from pyroclast_scheduler.plugins.deviceshare.configuration import BUILT_IN, DeviceConfiguration, VgpuNames
from pyroclast_scheduler.session.node_books import Refused, final_if

_MOST: Final = 1024  # the largest number of cards of a node; a larger number is an error that would exhaust the memory
_WHOLE: Final = 100
_UNSET: Final = 101
_CORES: Final = "hami-core"
_MIG: Final = "mig"
_POLICIES: Final = ("binpack", "spread")


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


@dataclass(frozen=True, slots=True)
class _Wish:
    number: int
    memory: int
    percentage: int
    cores: int

    def memory_of(self, card: Card) -> int:
        return card.memory * self.percentage // _WHOLE if self.percentage != _UNSET else self.memory


@dataclass(frozen=True, slots=True)
class Vgpu:
    """Sharing of NVIDIA GPUs as virtual GPUs (vGPU).

    `policy`: binpack fills used cards, spread prefers idle cards, empty uses the last cards. `configuration`: the names of the
    resources, and how cards can be divided.
    """

    policy: str = ""
    configuration: DeviceConfiguration = BUILT_IN

    def wants(self, pod: records.Pod) -> bool:
        """Whether the limits of a container request virtual GPUs."""
        return any(_wish(each, self.configuration.names) is not None for each in pod.spec.containers)

    def cards(self, node: records.Node) -> list[Card] | None:
        """Return the cards in the annotation of the node, if the node also has them as resources."""
        names = self.configuration.names
        if any(amount(node.status.allocatable, name) <= 0 for name in (names.number, names.cores, names.memory)):
            return None
        return registered(node.metadata.annotations.get(keys.VGPU_NODE_REGISTER, ""), self.configuration.geometries)

    def held(self, pod: records.Pod, annotations: Mapping[str, str]) -> Claim | None:
        """Return the claim of a bound pod, as the annotation of its bind records the claim."""
        del pod
        return decode(annotations.get(keys.VGPU_IDS_NEW, ""))

    def choose(self, pod: records.Pod, node: records.Node, cards: Sequence[Card]) -> Claim:
        """Return the cards for each container. A container sees the cards as the earlier containers leave them."""
        annotations = pod.metadata.annotations
        mode = _MIG if any(card.geometries for card in cards) else _CORES
        if annotations.get(keys.VGPU_MODE, mode) != mode:
            raise Refused(f"vgpu mode {annotations[keys.VGPU_MODE]} is not that of the node", Code.UNRESOLVABLE)
        trial = [card.copy() for card in cards]
        chosen: list[tuple[CardShare, ...]] = []
        for container in pod.spec.containers:
            wish = _wish(container, self.configuration.names)
            parts = () if wish is None else self._for_container(pod, node.metadata.name, wish, trial)
            chosen.append(parts)
        return Claim(tuple(chosen))

    def score(self, cards: Sequence[Card], claim: Claim) -> float:
        """Return the score of the policy, see `policy_score`."""
        return policy_score(self.policy, cards, claim)

    def annotations(self, claim: Claim, node: str, now: float) -> Mapping[str, str]:
        """Return the annotations that the agent of the node reads."""
        text = encode(claim)
        return {
            keys.VGPU_NODE: node,
            keys.VGPU_TIME: str(int(now)),
            keys.VGPU_IDS_NEW: text,
            keys.DEVICES_TO_ALLOCATE: text,
            keys.BIND_PHASE: "allocating",
            keys.BIND_TIME: str(int(now)),
        }

    def _for_container(self, pod: records.Pod, node: str, wish: _Wish, cards: list[Card]) -> tuple[CardShare, ...]:
        if wish.number > len(cards):
            raise Refused(f"no enough gpu cards on node {node}", Code.UNRESOLVABLE)
        parts: list[CardShare] = []
        is_cut = any(card.geometries for card in cards)
        for card in sorted(cards, key=self._order):
            part = _part(card, wish, is_cut=is_cut) if len(parts) < wish.number and _is_allowed(pod, card) else None
            if part is not None and _has_room(pod, card, wish):
                parts.append(part)
                card.users.setdefault(pod.metadata.uid, []).append(part)
                card.groups[pod.metadata.uid] = group_of(pod)
        if len(parts) < wish.number:
            possible = sum(_is_allowed(pod, card) and wish.memory_of(card) <= card.memory for card in cards)
            raise Refused("not enough gpu fitted on this node", final_if(possible < wish.number))
        return tuple(parts)

    def _order(self, card: Card) -> tuple[int, int]:
        return order(self.policy, card) if self.policy in _POLICIES else (-card.index, 0)


def registered(text: str, geometries: Callable[[str], tuple[Geometry, ...]] = BUILT_IN.geometries) -> list[Card] | None:
    """Return the cards in the annotation of a node, each as `uuid,slots,MiB,type,health,mode` and `:`; None if it is malformed.

    The mode of the last card applies to all. In mode `mig`, a card without known geometries is shared undivided.
    """
    cards: list[Card] = []
    entries = [entry.split(",") for entry in text.split(":") if entry]
    is_mig = bool(entries) and entries[-1][5:6] == [_MIG]
    for fields in entries:
        slots, memory = map(parse_count, fields[1:3]) if len(fields) >= 6 else (None, None)
        if slots is None or memory is None:
            return None
        known = geometries(fields[3]) if is_mig else ()
        cards.append(Card(fields[0], len(cards), memory, slots, fields[3], geometries=known))
    return cards or None


def encode(claim: Claim) -> str:
    """Return containers divided by `;` and cards by `:`, each as `uuid,type,memory,cores`, an instance as `uuid[instance]`."""
    return ";".join("".join(f"{_name(part)},NVIDIA,{part.memory},{part.cores}:" for part in parts) for parts in claim.containers)


def decode(text: str) -> Claim | None:
    """Parse the result of `encode`; malformed entries are ignored."""
    if not text:
        return None
    containers = []
    for container in text.split(";"):
        fields = [entry.split(",") for entry in container.split(":") if entry]
        good = [(each[0], parse_count(each[2]), parse_count(each[3])) for each in fields if len(each) >= 4]
        named = [(*name.rstrip("]").partition("[")[::2], memory, cores) for name, memory, cores in good]
        parts = (
            CardShare(card, memory, cores, instance)
            for card, instance, memory, cores in named
            if memory is not None and cores is not None
        )
        containers.append(tuple(parts))
    return Claim(tuple(containers))


def _name(part: CardShare) -> str:
    return f"{part.card}[{part.instance}]" if part.instance else part.card


def _part(card: Card, wish: _Wish, *, is_cut: bool) -> CardShare | None:
    """Return the share of a card for the container, None if no instance fits. `is_cut`: whether the driver divides cards here."""
    if not is_cut:
        return CardShare(card.name, wish.memory_of(card), wish.cores)
    found = pick(card.geometries, card.instances, wish.memory_of(card))
    return None if found is None else CardShare(card.name, found[1], wish.cores, found[0])


def _wish(container: records.Container, names: VgpuNames) -> _Wish | None:
    limits = container.resources.limits
    if names.number not in limits and names.memory not in limits:
        return None
    both = {**container.resources.requests, **limits}
    percentage = amount(both, names.percentage) if names.percentage in both else _UNSET
    memory = amount(both, names.memory)
    if not memory and percentage == _UNSET:
        percentage = _WHOLE
    number = amount(limits, names.number) if names.number in limits else 1
    return _Wish(number, memory, percentage, amount(both, names.cores))


def _is_allowed(pod: records.Pod, card: Card) -> bool:
    """Whether the pod's annotations with lists of cards and types allow the card."""
    annotations = pod.metadata.annotations
    only, never = _listed(annotations.get(keys.VGPU_UUIDS, "")), _listed(annotations.get(keys.VGPU_FORBIDDEN_UUIDS, ""))
    if (only and card.name not in only) or (never and (not card.name or card.name in never)):
        return False
    kind = card.type.lower()
    wanted, unwanted = _listed(annotations.get(keys.VGPU_TYPES, "")), _listed(annotations.get(keys.VGPU_FORBIDDEN_TYPES, ""))
    if "nvidia" not in kind or (wanted and not any(each.lower() in kind for each in wanted)):
        return False
    return not any(each.lower() in kind for each in unwanted)


def _has_room(pod: records.Pod, card: Card, wish: _Wish) -> bool:
    group = group_of(pod)
    if pod.metadata.annotations.get(keys.VGPU_POD_GROUP_POLICY) == "spread" and group and group in card.groups.values():
        return False
    if card.uses >= card.slots or card.idle_memory < wish.memory_of(card):
        return False
    cores = card.used_cores
    if cores + wish.cores > _WHOLE or (wish.cores == _WHOLE and card.users):
        return False
    return not (cores == _WHOLE and wish.cores == 0)


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
