"""The cards of one kind on all nodes in a session: who uses which, who could get which, and what is told of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pyroclast.api import keys, records
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.reasons import Refusal
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task, TaskFacts
from pyroclast_scheduler.plugins.deviceshare.cards import Card, CardKind, Claim, Refused
from pyroclast_scheduler.plugins.deviceshare.exclusive import Rule, matching, usable
from pyroclast_scheduler.plugins.deviceshare.verdicts import Verdicts
from pyroclast_scheduler.session.measures import CardUse
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Move

__all__ = ["Devices"]

_SHOWN: Final = "deviceshare shown"
_NO_DEVICES: Final = "node has no such devices"


@dataclass(slots=True)
class _Shown:
    """Nodes with their residents as they were when they were measured last."""

    nodes: dict[str, tuple[records.Node | None, Sequence[TaskFacts]]] = field(default_factory=dict)

    @property
    def is_derived(self) -> bool:
        """What is lost of it is measured again."""
        return True


class Devices:
    """The cards of all nodes, read when first asked for. `bound`: by UID, the annotations of binds that pods do not show yet."""

    def __init__(self, session: Session, kind: CardKind, rules: list[Rule], bound: Mapping[str, Mapping[str, str]]) -> None:
        self._session = session
        self._kind = kind
        self._rules = rules
        self._bound = bound
        self._cards: dict[int, list[Card] | None] = {}
        self._rules_by_pod: dict[str, set[int]] = {}
        self._claims: dict[str, Claim] = {}
        self._wanted: dict[int, bool] = {}
        self._verdicts: dict[Hashable, Verdicts] = {}
        self._log: list[int] = []  # rows where cards were given or taken back

    def wants(self, task: TaskFacts) -> bool:
        """Whether a pod asks for such cards: all of one shape do, or none."""
        found = self._wanted.get(id(task.shape))
        if found is None:
            found = self._wanted[id(task.shape)] = self._kind.wants(task.pod)
        return found

    def refusals(self, task: Task, nodes: Bools) -> list[Refusal]:
        """Those of `nodes` without cards for the pod, by reason."""
        return self._verdicts_for(task.facts).refusals(nodes)

    def scores(self, task: Task, candidates: Bools) -> Floats:
        """How good the cards are that the pod would get on each of the candidates."""
        return self._verdicts_for(task.facts).scores(candidates)

    def moved(self, move: Move, sign: int) -> None:
        """Give cards with a place, and take them back."""
        is_taken = (move.status is not TaskStatus.RELEASING) == (sign > 0)
        for task, row in zip(move.tasks, move.rows.tolist(), strict=True):
            if not self.wants(task.facts):
                continue
            if is_taken and move.status is not TaskStatus.RELEASING:
                try:
                    self._claims[task.uid] = self._choose(task.facts, row)
                except Refused:
                    continue  # promised for when others have gone
                self._take(task.facts, row, self._claims[task.uid])
            elif is_taken:
                self._take(task.facts, row, self._held(task.facts))
            else:
                self._log.append(row)
                for card in self._of(row) or ():
                    card.users.pop(task.uid, None)
                    card.groups.pop(task.uid, None)

    def annotations(self, task: Task, row: int) -> Mapping[str, str]:
        """What tells the node's agent which cards the pod gets; empty if it gets none."""
        claim = self._claims.get(task.uid)
        return {} if claim is None else self._kind.annotations(claim, self._session.names[row], self._session.ports.now)

    def measure(self) -> None:
        """Tell who shares which card, of nodes on which something changed since the last session."""
        snapshot = self._session.snapshot
        shown: _Shown = self._session.ports.memory.setdefault(_SHOWN, _Shown())
        for gone in shown.nodes.keys() - snapshot.rows.keys():
            del shown.nodes[gone]
        for name, row in snapshot.rows.items():
            now = (snapshot.nodes[row], snapshot.residents[row])
            before = shown.nodes.get(name, (None, None))
            if now[0] is None or (now[0] is before[0] and now[1] is before[1]):
                continue
            shown.nodes[name] = now
            names = {task.uid: task.name for task in snapshot.residents[row]}
            self._session.measures.cards[name] = tuple(
                CardUse(
                    card.name,
                    card.memory,
                    tuple(
                        (names[uid], sum(part.memory for part in parts), sum(part.cores for part in parts))
                        for uid, parts in card.users.items()
                        if uid in names
                    ),
                )
                for card in self._of(row) or ()
            )

    def _verdicts_for(self, task: TaskFacts) -> Verdicts:
        """What is known for pods of the shape and the rules of `task`, and of its group where that counts."""
        group = task.job if keys.VGPU_POD_GROUP_POLICY in task.shape.marks else ""
        alike = id(task.shape), frozenset(matching(self._rules, task.pod.metadata.labels)), group
        found = self._verdicts.get(alike)
        if found is None:
            found = self._verdicts[alike] = Verdicts(
                len(self._session.names),
                partial(self._choose, task),
                lambda row, claim: self._kind.score(self._of(row) or [], claim),
            )
        found.forget(self._log[found.seen :])
        found.seen = len(self._log)
        return found

    def _choose(self, task: TaskFacts, row: int) -> Claim:
        cards = self._of(row)
        node = self._session.snapshot.nodes[row]
        if cards is None or node is None:
            raise Refused(_NO_DEVICES, is_final=True)
        own = matching(self._rules, task.pod.metadata.labels)
        left = usable(cards, own, self._rules_by_pod)
        try:
            return self._kind.choose(task.pod, node, left)
        except Refused as refused:
            if refused.is_final and len(left) < len(cards):  # those who hold the other cards may go
                self._kind.choose(task.pod, node, cards)
                raise Refused(str(refused)) from None
            raise

    def _of(self, row: int) -> list[Card] | None:
        """The cards of a node with those that use them."""
        if row not in self._cards:
            node = self._session.snapshot.nodes[row]
            self._cards[row] = None if node is None else self._kind.cards(node)
            for task in self._session.snapshot.residents[row] if self._cards[row] else ():
                if self.wants(task):
                    self._take(task, row, self._held(task))
        return self._cards[row]

    def _held(self, task: TaskFacts) -> Claim | None:
        annotations = task.pod.metadata.annotations
        found = self._kind.held(task.pod, annotations)
        return found or self._kind.held(task.pod, self._bound.get(task.uid, {}))

    def _take(self, task: TaskFacts, row: int, claim: Claim | None) -> None:
        self._log.append(row)
        by_name = {card.name: card for card in self._cards.get(row) or ()}
        for part in claim.parts if claim is not None else ():
            card = by_name.get(part.card)
            if card is not None:
                card.users.setdefault(task.uid, []).append(part)
                card.groups[task.uid] = task.job
        self._rules_by_pod[task.uid] = matching(self._rules, task.pod.metadata.labels)
