"""The extensions of deviceshare: feasible nodes, scores, and the cards that a pod gets with its bind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from pyroclast.api import keys, records
from pyroclast.api.types import CONFIG_MAPS
from pyroclast_scheduler.model.fit_errors import Refusal
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.plugins.deviceshare.ascend import Ascend
from pyroclast_scheduler.plugins.deviceshare.cards import CardKind
from pyroclast_scheduler.plugins.deviceshare.configuration import BUILT_IN, FILE, DeviceConfiguration, parse
from pyroclast_scheduler.plugins.deviceshare.devices import Devices
from pyroclast_scheduler.plugins.deviceshare.exclusive import rules_of
from pyroclast_scheduler.plugins.deviceshare.gpushare import GpuShare
from pyroclast_scheduler.plugins.deviceshare.vgpu import Vgpu
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.outcome import Preparation
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Move

_MEMORY: Final = "deviceshare"
_WITHOUT_EFFECT: Final = "deviceshare.AscendMindClusterVNPUEnable"


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

    def open(self, session: Session) -> Extensions:
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

    def _kinds(self, session: Session) -> list[CardKind]:
        if self._sharing or self._number:
            first: list[CardKind] = [GpuShare(by_number=self._number)]
        else:
            first = [Vgpu(self._policy, self._configuration(session))] if self._virtual else []
        chips = self._configuration(session).chips if self._ascend else ()
        return [*first, *(Ascend(chip, self._policy) for chip in chips)]

    def _configuration(self, session: Session) -> DeviceConfiguration:
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
