"""The extensions of deviceshare, and the cards of one device type on all nodes of a session."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pyroclast.api import keys, records
from pyroclast.api.types import CONFIG_MAPS
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.model.tasks import Task, TaskFacts
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.plugins.deviceshare.ascend import Ascend
from pyroclast_scheduler.plugins.deviceshare.cards import Card, CardKind, Claim, Rule, matching, rules_of, usable
from pyroclast_scheduler.plugins.deviceshare.configuration import BUILT_IN, FILE, DeviceConfiguration, parse
from pyroclast_scheduler.plugins.deviceshare.vgpu import GpuShare, Vgpu
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.node_books import NodeBook, Refused
from pyroclast_scheduler.session.outcome import CardUse, Preparation
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move

_SHOWN: Final = "deviceshare shown"
_NO_DEVICES: Final = "node has no such devices"
_MEMORY: Final = "deviceshare"
_WITHOUT_EFFECT: Final = "deviceshare.AscendMindClusterVNPUEnable"


@dataclass(slots=True)
class _Shown:
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

    def __init__(self, session: PluginSession, kind: CardKind, rules: list[Rule], bound: Mapping[str, Mapping[str, str]]) -> None:
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


class DeviceShare:
    """Shared devices. All arguments have the prefix `deviceshare.`.

    - `GPUSharingEnable`, `GPUNumberEnable`, `VGPUEnable`: at most one of the three may be true.
    - `AscendHAMiVNPUEnable`: may be combined with any of them.
    - `SchedulePolicy` (binpack or spread): has no effect on the first two.
    - `ScheduleWeight`: the weight of the score.
    - `GPUExclusiveRules`: a list of label maps, for virtual GPUs.
    - `NodeLockEnable`: locks the node during a bind, for virtual GPUs.
    - `KnownGeometriesCMName`, `KnownGeometriesCMNamespace`: the ConfigMap that describes how cards and chips can be divided.
    """

    reads_labels = True

    def __init__(self, arguments: Arguments) -> None:
        self._sharing = arguments.boolean("deviceshare.GPUSharingEnable", default=False)
        self._number = arguments.boolean("deviceshare.GPUNumberEnable", default=False)
        self._virtual = arguments.boolean("deviceshare.VGPUEnable", default=False)
        self._ascend = arguments.boolean("deviceshare.AscendHAMiVNPUEnable", default=False)
        if self._sharing + self._number + self._virtual > 1:
            arguments.warnings.append("only one of GPUSharingEnable, GPUNumberEnable and VGPUEnable may be true; none is used")
            self._sharing = self._number = self._virtual = False
        self._weight = arguments.integer("deviceshare.ScheduleWeight", 0)
        self._policy = arguments.text("deviceshare.SchedulePolicy", "")
        arguments.known.add("deviceshare.GPUExclusiveRules")
        self._rules = rules_of(arguments.get("deviceshare.GPUExclusiveRules")) if self._virtual else []
        self._is_locking = arguments.boolean("deviceshare.NodeLockEnable", default=False)
        if self._is_locking and not self._virtual:
            arguments.warnings.append("argument deviceshare.NodeLockEnable has no effect without deviceshare.VGPUEnable")
        name = arguments.text("deviceshare.KnownGeometriesCMName", "volcano-vgpu-device-config")
        namespace = arguments.text("deviceshare.KnownGeometriesCMNamespace", "kube-system")
        self._config_map = f"{namespace}/{name}"
        arguments.known.add(_WITHOUT_EFFECT)
        if arguments.get(_WITHOUT_EFFECT):
            arguments.warnings.append(f"argument {_WITHOUT_EFFECT} has no effect here")

    @property
    def further_watches(self) -> Sequence[Watch]:
        """The watch of the ConfigMap of devices, if a configured device type uses the ConfigMap."""
        return (Watch(CONFIG_MAPS, records.ConfigMap, key=self._config_map),) if self._virtual or self._ascend else ()

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session, none if no device type is shared."""
        bound: dict[str, Mapping[str, str]] = session.ports.memory.setdefault(_MEMORY, {})
        there = {task.uid for residents in session.snapshot.residents for task in residents} if bound else set()
        for uid in [uid for uid in bound if uid not in there]:
            del bound[uid]
        found = [Devices(session, kind, self._rules if isinstance(kind, Vgpu) else [], bound) for kind in self._kinds(session)]
        if not found:
            return Extensions()

        def refusals(task: Task, plan: PlacementPlan) -> list[Refusal] | None:
            asked = [each for each in found if each.wants(task.facts)]
            refused: list[Refusal] = []
            for each in asked:
                open_to = plan.mask & ~np.logical_or.reduce([np.zeros_like(plan.mask), *(one.nodes for one in refused)])
                refused += each.refusals(task.facts, open_to)
            return refused if asked else None

        def scores(job: Job, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
            del job, plan
            given = [each.scores(task.facts, candidates) for each in found if each.wants(task.facts)]
            total: Floats = np.floor(np.sum(given, axis=0) + 0.5) * self._weight
            return total if given else None

        def preparation(task: Task, row: int) -> Preparation | None:
            annotations = {key: value for each in found for key, value in each.annotations(task, row).items()}
            if not annotations:
                return None
            bound[task.uid] = annotations
            is_locked = self._is_locking and keys.VGPU_IDS_NEW in annotations
            return Preparation(annotations=annotations, node_lock=keys.VGPU_NODE_LOCK if is_locked else "")

        def moved(move: Move, sign: int) -> None:
            for each in found:
                each.moved(move, sign)

        return Extensions(
            coupled_predicate=refusals,
            retry_when=lambda _task, _plan: (),  # nothing depends on other nodes
            batch_node_order=scores if self._weight > 0 else None,
            pre_bind=preparation,
            moved=moved,
            close=found[0].measure if self._virtual else None,
        )

    def _kinds(self, session: PluginSession) -> list[CardKind]:
        if self._sharing or self._number:
            first: list[CardKind] = [GpuShare(by_number=self._number)]
        else:
            first = [Vgpu(self._policy, self._configuration(session))] if self._virtual else []
        chips = self._configuration(session).chips if self._ascend else ()
        return [*first, *(Ascend(chip, self._policy) for chip in chips)]

    def _configuration(self, session: PluginSession) -> DeviceConfiguration:
        """Return the configuration in the ConfigMap, or the built-in one if the ConfigMap is missing or malformed."""
        config_map = session.objects(records.ConfigMap).get(self._config_map)
        if config_map is None:
            return BUILT_IN
        try:
            return parse(config_map.data.get(FILE, ""))
        except ValueError as error:
            warning = f"ConfigMap {self._config_map}: {error}; the built-in configuration of devices is used"
            if warning not in session.report.warnings:
                session.report.warnings.append(warning)
            return BUILT_IN
