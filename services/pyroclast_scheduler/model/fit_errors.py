"""Why no node is feasible for a task: refusals as masks over nodes, counts per reason, and the texts made of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.node_columns import Bools

ALL_UNAVAILABLE: Final = "all nodes are unavailable"
FOREIGN: Final = "node isn't in scheduler node shard"


class Code(IntEnum):
    """How final it is that a node is infeasible for a pod. All codes but UNSCHEDULABLE end the examination of a node."""

    ERROR = 1
    UNSCHEDULABLE = 2
    UNRESOLVABLE = 3


@dataclass(frozen=True, slots=True, eq=False)
class DomainLimit:
    """The number of pods of one kind that each topology domain accepts before its refusal must be calculated again.

    `codes`: the domain of each node. `room`: the number by domain. `lowest`: a mask of the domains that each need a pod before
    other domains accept more; None if the refusal has no such rule. `is_fixed`: whether evictions never raise the number.
    """

    codes: npt.NDArray[np.int32]
    room: Ints
    lowest: Bools | None = None
    is_fixed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """The nodes that a filter refuses to a pod, with the reason.

    Attributes:
        nodes: a mask of the nodes that are refused.
        reason: the text that users see.
        code: how final the refusal is.
        is_last: whether later filters skip the nodes that are refused so far.
        is_steady: whether the refusal stays the same while equal pods are placed on other nodes, within `limit`.
        limit: how many pods each topology domain accepts; None without such a limit.
    """

    nodes: Bools
    reason: str
    code: Code = Code.UNSCHEDULABLE
    is_last: bool = False
    is_steady: bool = False
    limit: DomainLimit | None = None


@dataclass(frozen=True, slots=True)
class FitErrors:
    """Why no node is feasible for a task.

    Attributes:
        text: replaces the default start of the message, `0/<n> nodes are unavailable`.
        nodes: the number of refused nodes.
        reasons: the number of nodes by reason.
        hyper_node: the hypernode to which the search was limited; empty if all nodes were examined.
    """

    text: str = ""
    nodes: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    hyper_node: str = ""

    def inside(self, hyper_node: str) -> FitErrors:
        """Return the same errors for a search in `hyper_node`; an empty name stands for all nodes."""
        return replace(self, hyper_node=hyper_node) if hyper_node else self

    def beside(self, foreign: int) -> FitErrors:
        """Return the same errors with `foreign` more nodes, which belong to the shards of other schedulers."""
        reasons = {**self.reasons, FOREIGN: foreign}
        return replace(self, nodes=self.nodes + foreign, reasons=reasons) if foreign else self

    def __str__(self) -> str:
        base = self.text or f"0/{self.nodes} nodes are unavailable"
        if self.reasons:
            listed = ", ".join(sorted(f"{count} {reason}" for reason, count in self.reasons.items()))
            base = f"{base}: {listed}."
        return f"In hyperNode {self.hyper_node}: {base}" if self.hyper_node else base


def count_refusals(nodes: Bools, refusals: Iterable[Refusal]) -> FitErrors:
    """Return the fit errors of a task that was tried on `nodes`. `refusals` are in the order of their filters."""
    examined = nodes.copy()
    refused = np.zeros_like(nodes)
    reasons: dict[str, int] = {}
    for refusal in refusals:
        hit = refusal.nodes & examined
        count = int(hit.sum())
        if count:
            reasons[refusal.reason] = reasons.get(refusal.reason, 0) + count
            refused |= hit
            if refusal.code is not Code.UNSCHEDULABLE:
                examined &= ~hit
        if refusal.is_last:
            examined &= ~refused
    return FitErrors(nodes=int(refused.sum()), reasons=reasons)
