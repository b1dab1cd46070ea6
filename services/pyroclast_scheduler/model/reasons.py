"""Why a task fits nowhere: refusals per node as masks, counted per reason, and the texts made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.node_columns import Bools

__all__ = ["ALL_UNAVAILABLE", "FOREIGN", "Code", "DomainLimit", "FitErrors", "Refusal", "count_refusals"]

ALL_UNAVAILABLE: Final = "all nodes are unavailable"
FOREIGN: Final = "node isn't in scheduler node shard"


class Code(IntEnum):
    """How final a refusal is. All but UNSCHEDULABLE end the examination of a node."""

    ERROR = 1
    UNSCHEDULABLE = 2
    UNRESOLVABLE = 3


@dataclass(frozen=True, slots=True, eq=False)
class DomainLimit:
    """How many more pods of one kind each topology domain takes before what refuses them must be worked out anew.

    `codes`: the domain of each node; `room`: by domain. `lowest`: the domains of which each must get a pod before more of them
    may go elsewhere; None if that plays no part.
    """

    codes: npt.NDArray[np.int32]
    room: Ints
    lowest: Bools | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """The nodes that a filter refuses to a pod, with the reason.

    `nodes`: which nodes are refused for `reason`. `is_last`: what comes after this is not asked of a node already refused.

    `is_steady`: it stays as it is while more equal pods are placed where it lets them, as far as `limit` goes.
    """

    nodes: Bools
    reason: str
    code: Code = Code.UNSCHEDULABLE
    is_last: bool = False
    is_steady: bool = False
    limit: DomainLimit | None = None


@dataclass(frozen=True, slots=True)
class FitErrors:
    """Why a task fits nowhere. `text` replaces the count of nodes; `reasons`: number of nodes by reason."""

    text: str = ""
    nodes: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    hyper_node: str = ""

    def inside(self, hyper_node: str) -> FitErrors:
        """The same, as said of the nodes of `hyper_node` alone; an empty name stands for all nodes."""
        return replace(self, hyper_node=hyper_node) if hyper_node else self

    def beside(self, foreign: int) -> FitErrors:
        """The same, with so many nodes of other schedulers' shards, which are not looked at."""
        reasons = {**self.reasons, FOREIGN: foreign}
        return replace(self, nodes=self.nodes + foreign, reasons=reasons) if foreign else self

    def __str__(self) -> str:
        base = self.text or f"0/{self.nodes} nodes are unavailable"
        if self.reasons:
            listed = ", ".join(sorted(f"{count} {reason}" for reason, count in self.reasons.items()))
            base = f"{base}: {listed}."
        return f"In hyperNode {self.hyper_node}: {base}" if self.hyper_node else base


def count_refusals(nodes: Bools, refusals: Iterable[Refusal]) -> FitErrors:
    """The errors of a task that was tried on `nodes`, from its refusals in the order in which they are examined."""
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
