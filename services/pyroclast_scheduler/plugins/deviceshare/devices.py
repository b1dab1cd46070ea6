"""The cards of one device type on all nodes in a session: their users, possible claims, annotations and metrics."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyroclast.api import keys, records
from pyroclast_scheduler.model.fit_errors import Code
from pyroclast_scheduler.model.tasks import Task, TaskFacts
from pyroclast_scheduler.plugins.deviceshare.cards import Card, CardKind, Claim
from pyroclast_scheduler.plugins.deviceshare.exclusive import Rule, matching, usable
from pyroclast_scheduler.session.measures import CardUse
from pyroclast_scheduler.session.node_books import NodeBook, Refused
from pyroclast_scheduler.session.session import Session

_SHOWN: Final = "deviceshare shown"
_NO_DEVICES: Final = "node has no such devices"


@dataclass(slots=True)
class _Shown:
    """The nodes and their pods at the time of the last measurement."""

    nodes: dict[str, tuple[records.Node | None, Sequence[TaskFacts]]] = field(default_factory=dict)

    @property
    def is_derived(self) -> bool:
        """Lost data are measured again."""
        return True


@dataclass(frozen=True, slots=True)
class NodeCards:
    """A node and its cards with their users."""

    node: records.Node
    cards: list[Card]


class Devices(NodeBook[NodeCards, Claim]):
    """The cards of all nodes. `bound`: annotations of binds, by UID, that the pods do not have yet."""

    def __init__(self, session: Session, kind: CardKind, rules: list[Rule], bound: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__(session)
        self._kind = kind
        self._rules = rules
        self._bound = bound
        self._rules_by_pod: dict[str, set[int]] = {}
        self._wanted: dict[int, bool] = {}

    def wants(self, task: TaskFacts) -> bool:
        """Whether a pod requests cards of this device type. The result is the same for all pods of a shape."""
        found = self._wanted.get(id(task.shape))
        if found is None:
            found = self._wanted[id(task.shape)] = self._kind.wants(task.pod)
        return found

    def kind(self, task: TaskFacts) -> Hashable:
        """Return the shape and the matching rules of a pod, and its group if the group policy needs it."""
        group = task.job if keys.VGPU_POD_GROUP_POLICY in task.shape.marks else ""
        return id(task.shape), frozenset(matching(self._rules, task.pod.metadata.labels)), group

    def state(self, row: int) -> NodeCards:
        """Return the cards that node `row` reports."""
        node = self.session.snapshot.nodes[row]
        cards = None if node is None else self._kind.cards(node)
        if node is None or cards is None:
            raise Refused(_NO_DEVICES, Code.UNRESOLVABLE)
        return NodeCards(node, cards)

    def held(self, task: TaskFacts) -> Claim | None:
        """Return the claim of a bound pod, as the annotations of its bind record the claim."""
        found = self._kind.held(task.pod, task.pod.metadata.annotations)
        return found or self._kind.held(task.pod, self._bound.get(task.uid, {}))

    def choose(self, state: NodeCards, task: TaskFacts) -> Claim:
        """Return a claim on cards that have no user which matches one of the pod's exclusive rules."""
        own = matching(self._rules, task.pod.metadata.labels)
        left = usable(state.cards, own, self._rules_by_pod)
        try:
            return self._kind.choose(task.pod, state.node, left)
        except Refused as refused:
            if refused.code is Code.UNRESOLVABLE and len(left) < len(state.cards):  # the users of the other cards may be evicted
                self._kind.choose(task.pod, state.node, state.cards)
                raise Refused(str(refused)) from None
            raise

    def examine(self, state: NodeCards, task: TaskFacts) -> float:
        """Return the score of the claim by the rules of the device type."""
        return self._kind.score(state.cards, self.choose(state, task))

    def take(self, state: NodeCards, task: TaskFacts, claim: Claim) -> None:
        """Allocate the shares of `claim` to the pod on the cards of its node."""
        by_name = {card.name: card for card in state.cards}
        for part in claim.parts:
            card = by_name.get(part.card)
            if card is not None:
                card.users.setdefault(task.uid, []).append(part)
                card.groups[task.uid] = task.job
        self._rules_by_pod[task.uid] = matching(self._rules, task.pod.metadata.labels)

    def undo(self, state: NodeCards, task: TaskFacts, claim: Claim) -> None:
        """Release the shares of the pod on the cards of its node."""
        del claim
        for card in state.cards:
            card.users.pop(task.uid, None)
            card.groups.pop(task.uid, None)

    def annotations(self, task: Task, row: int) -> Mapping[str, str]:
        """Return the annotations that tell the agent of the node which cards the pod gets; empty if it gets none."""
        claim = self.claim(task.uid)
        return {} if claim is None else self._kind.annotations(claim, self.session.names[row], self.session.ports.now)

    def measure(self) -> None:
        """Report the users of each card, for nodes that changed since the last session."""
        snapshot = self.session.snapshot
        shown: _Shown = self.session.ports.memory.setdefault(_SHOWN, _Shown())
        for gone in shown.nodes.keys() - snapshot.rows.keys():
            del shown.nodes[gone]
        for name, row in snapshot.rows.items():
            now = (snapshot.nodes[row], snapshot.residents[row])
            before = shown.nodes.get(name, (None, None))
            if now[0] is None or (now[0] is before[0] and now[1] is before[1]):
                continue
            shown.nodes[name] = now
            names = {task.uid: task.name for task in snapshot.residents[row]}
            state = self.of(row)
            self.session.report.measures.cards[name] = tuple(
                CardUse(
                    card.name,
                    card.memory,
                    tuple(
                        (names[uid], sum(part.memory for part in parts), sum(part.cores for part in parts))
                        for uid, parts in card.users.items()
                        if uid in names
                    ),
                )
                for card in (() if state is None else state.cards)
            )
