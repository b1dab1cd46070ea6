"""The meaning of each code of waiting, who can act, and how: the one list for `vcctl`, the page of codes and the tests."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from pyroclast.api.waiting_reasons import PendingReason

__all__ = ["CODES", "NEVER", "NOT_NOW", "TOLD_BY_SCHEDULER", "Actor", "CodeFacts", "Stage", "codes_page", "main", "says_never"]

NEVER: Final = "never"
NOT_NOW: Final = "not now"
"""The beginning of a sentence: whether a Job starts by waiting alone."""


class Stage(StrEnum):
    """The stages of a waiting Job. A Job has the code of the first stage that it cannot pass."""

    BEFORE_QUEUE = "Before the queue"
    IN_QUEUE = "In the queue"
    ON_NODES = "On the nodes"
    PLACED = "Placed, not working"


class Actor(StrEnum):
    """Who can act on a code."""

    USER = "you"
    OWNER = "the owner of the queue"
    ADMINISTRATOR = "the administrator"


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """The facts of a code on the page of codes.

    `actors`: who can act; empty when the Job starts by itself. `help`: what helps, without a capital and full stop.
    """

    stage: Stage
    actors: tuple[Actor, ...]
    meaning: str
    help: str


_USER, _OWNER, _ADMIN = (Actor.USER,), (Actor.OWNER,), (Actor.ADMINISTRATOR,)
_BEFORE, _QUEUE, _NODES, _PLACED = Stage
_WAIT: Final = "wait, a higher priority, or another queue"

CODES: Final[Mapping[PendingReason, CodeFacts]] = {
    PendingReason.SUSPENDED: CodeFacts(
        _BEFORE,
        _USER,
        "The Job was suspended by a Command (`AbortJob`, `vcctl job suspend`).",
        "resume the Job: vcctl job resume -N NAME",
    ),
    PendingReason.WAITS_FOR_TASK: CodeFacts(
        _BEFORE,
        _USER,
        "Never: a task depends on another task by `dependsOn`, and the gang only starts with pods of both.",
        "lower spec.minAvailable to the number of pods that start first, or remove dependsOn",
    ),
    PendingReason.WAITS_FOR_ENTRY: CodeFacts(
        _BEFORE,
        _USER,
        "The Job belongs to an entry of a JobFlow whose targets, which the sentence names, are not satisfied yet.",
        "see the named entries: vcctl tree FLOW shows their states",
    ),
    PendingReason.CLAIM_MISSING: CodeFacts(
        _BEFORE,
        _USER,
        "A PersistentVolumeClaim that the Job names does not exist.",
        "create the PersistentVolumeClaim, or remove the volume from the Job",
    ),
    PendingReason.PODS_REFUSED: CodeFacts(
        _BEFORE,
        _USER,
        "The API server refuses to create the Job's pods, its PodGroup or the objects of its plugins. Reasons are a quota, a "
        "policy, or a PriorityClass that does not exist.",
        "correct what the API server refuses",
    ),
    PendingReason.NO_SCHEDULER: CodeFacts(
        _BEFORE,
        _USER + _ADMIN,
        "No scheduler serves the name in `spec.schedulerName`, or in the pod template of a task; a typing error is the usual "
        "cause. `kubectl create` warns at once, and after 30 s the job controller reports it on the Job and in an event. See "
        "[how schedulers are known](reference/several-schedulers.md#how-schedulers-are-known).",
        "correct spec.schedulerName, or ask the administrator for that scheduler",
    ),
    PendingReason.NOT_EXAMINED: CodeFacts(
        _BEFORE,
        _ADMIN,
        "The scheduler has not examined the Job since the Job was created or changed.",
        "wait; after a minute ask the administrator whether the scheduler works",
    ),
    PendingReason.LEFT_OUT: CodeFacts(
        _BEFORE, _USER, "The PodGroup is invalid, or its queue does not exist.", "correct what the sentence names"
    ),
    PendingReason.NOT_LET_IN: CodeFacts(
        _BEFORE,
        _USER + _OWNER,
        "A plugin does not admit the Job to its queue; for example, a queue with children accepts no Jobs.",
        "see the page of the plugin",
    ),
    PendingReason.QUEUE_CLOSED: CodeFacts(
        _BEFORE,
        _OWNER,
        "The queue is Closed or Closing, and admits no Jobs.",
        "another queue, or ask the owner of the queue to open it",
    ),
    PendingReason.ABOVE_QUEUE_LIMIT: CodeFacts(
        _QUEUE,
        _USER + _OWNER,
        "Never: the gang requests more than the `capability` of its queue, or of an ancestor of the queue.",
        "a smaller gang, or ask the owner of the queue for a larger capability",
    ),
    PendingReason.ABOVE_CLUSTER: CodeFacts(
        _QUEUE,
        _USER + _ADMIN,
        "Never: the gang requests more than the whole cluster has, or a device that the cluster does not have.",
        "a smaller gang, or ask the administrator for more nodes",
    ),
    PendingReason.BUDGET_SPENT: CodeFacts(
        _QUEUE,
        _OWNER,
        "The budget of the queue, or of an ancestor, is used up for this period, or the gang would use more than is left. "
        "Never: the budget does not begin anew, or the gang requests more than the whole budget. See "
        "[budgets](how-to/give-a-queue-a-budget.md).",
        "ask the owner of the queue for a larger budget, or wait for the date that the sentence names",
    ),
    PendingReason.NAMESPACE_QUOTA: CodeFacts(
        _QUEUE,
        _ADMIN,
        "A ResourceQuota of the namespace has no room (plugin `resourcequota`).",
        "ask the administrator for a larger ResourceQuota",
    ),
    PendingReason.QUEUE_FULL: CodeFacts(
        _QUEUE,
        (),
        "All that the queue may use is used or reserved by admitted Jobs; `before it in the queue` counts the Jobs ahead.",
        _WAIT,
    ),
    PendingReason.CLUSTER_FULL: CodeFacts(
        _QUEUE, (), "All that the cluster may admit is used or reserved by admitted Jobs.", _WAIT
    ),
    PendingReason.HELD_BY_GUARANTEE: CodeFacts(
        _QUEUE,
        _OWNER,
        "The remaining resources are guaranteed to other queues, whether these use them or not. The sentence names the amounts.",
        "wait, or ask the owner of the queue for a guarantee",
    ),
    PendingReason.BEHIND_ANOTHER: CodeFacts(
        _QUEUE,
        (),
        "The gang would fit, but a gang ahead in the queue was admitted first and is not placed yet.",
        "wait, or a higher priority",
    ),
    PendingReason.PODS_MISSING: CodeFacts(
        _NODES, _USER, "Fewer pods exist than the gang needs.", "the events of the Job say why its pods are not created"
    ),
    PendingReason.GATED: CodeFacts(
        _NODES,
        _USER,
        "Every pod has a scheduling gate, which the sentence names.",
        "whoever set the scheduling gate must remove it",
    ),
    PendingReason.NO_NODE_READY: CodeFacts(
        _NODES,
        _ADMIN,
        "There are no nodes, or all have the taint `not-ready` or `unreachable`.",
        "ask the administrator for nodes",
    ),
    PendingReason.NO_NODE_ALLOWED: CodeFacts(
        _NODES,
        _USER + _ADMIN,
        "Never: labels, taints or `unschedulable` keep the pod off every node; the sentence counts the nodes by reason. "
        "Not now: some of these nodes are only not ready.",
        "another node selector, affinity or toleration",
    ),
    PendingReason.NO_NODE_BIG_ENOUGH: CodeFacts(
        _NODES,
        _USER + _ADMIN,
        "Never: a pod requests more than any suitable node has, even an empty one; the sentence names the largest node.",
        "a smaller pod, or ask the administrator for larger nodes",
    ),
    PendingReason.TOO_FEW_NODES: CodeFacts(
        _NODES,
        _USER + _ADMIN,
        "Never: the gang does not fit on all nodes together, even if all are empty.",
        "a smaller gang, or ask the administrator for more nodes",
    ),
    PendingReason.TOPOLOGY_TOO_NARROW: CodeFacts(
        _NODES,
        _USER,
        "Never: the gang fits no part of the network that `networkTopology` allows, even an empty one. Not now: none has "
        "enough room.",
        "a higher tier of networkTopology, or mode soft",
    ),
    PendingReason.KEPT_FOR_ANOTHER: CodeFacts(
        _NODES,
        _USER,
        "The gang would fit, but nodes are reserved for another gang (plugin `reservation`).",
        "a spec.runningEstimate short enough to end before the nodes are needed",
    ),
    PendingReason.NODES_FULL: CodeFacts(
        _NODES,
        (),
        "The gang fits, but not now. The sentence names the free amounts, in all and on one node, and the Jobs ahead.",
        "wait, or a higher priority",
    ),
    PendingReason.ROOM_IS_COMING: CodeFacts(
        _NODES, (), "The pods are pipelined to nodes on which pods are ending, or were evicted for this gang.", "wait"
    ),
    PendingReason.NODES_REFUSE: CodeFacts(
        _NODES,
        _USER + _ADMIN,
        "Another reason keeps the pods off every node: ports, inter-pod affinity, claims, reservations.",
        "the sentence counts the nodes by reason",
    ),
    PendingReason.BIND_REFUSED: CodeFacts(
        _NODES,
        _ADMIN,
        "The API server has just refused a bind, which the scheduler tries again.",
        "the event on the pod says what was refused",
    ),
    PendingReason.IMAGE_REFUSED: CodeFacts(
        _PLACED,
        _USER,
        "The image of a container cannot be pulled; the sentence has the number of pods and the newest message.",
        "correct the image, or give the pods the secret that pulls it",
    ),
    PendingReason.VOLUME_NOT_MOUNTED: CodeFacts(
        _PLACED,
        _USER,
        "A volume, ConfigMap or Secret cannot be mounted; the sentence has the number of pods.",
        "create what the volume names; kubectl describe pod shows the message",
    ),
    PendingReason.STARTING: CodeFacts(
        _PLACED,
        (),
        "All pods have nodes; their containers are not running yet.",
        "wait; kubectl describe pod shows what the node does",
    ),
    PendingReason.CRASHING: CodeFacts(
        _PLACED,
        _USER,
        "Containers end and are restarted again and again; the sentence has the number of pods.",
        "see why they end: vcctl logs NAME --previous",
    ),
}

TOLD_BY_SCHEDULER: Final = frozenset(
    code
    for code, facts in CODES.items()
    if facts.stage in {Stage.IN_QUEUE, Stage.ON_NODES}
    or code in {PendingReason.LEFT_OUT, PendingReason.NOT_LET_IN, PendingReason.QUEUE_CLOSED, PendingReason.WAITS_FOR_TASK}
)
"""Codes that sessions determine. Controllers write the other codes, or readers compute these from the objects."""

_HEAD: Final = """# Codes: why a Job waits

<!-- made from the list in `pyroclast.api.waiting_codes` by `make generate`; do not edit -->

A Job that waits has one code at a time: the code of the earliest stage below that the Job cannot pass. `vcctl explain NAME` and
`vcctl waiting` show the code. The message of the Job's `status.state` has the code with a sentence and its numbers, and so has
the condition `Unschedulable` of its PodGroup.

"never" in a sentence means that waiting does not help: nodes, queue or Job must change. "not now" means that the Job starts when
other jobs end or release resources.
"""

_SLURM: Final[tuple[tuple[str, tuple[PendingReason, ...]], ...]] = (
    ("Resources", (PendingReason.CLUSTER_FULL, PendingReason.NODES_FULL)),
    ("Priority", (PendingReason.BEHIND_ANOTHER,)),
    ("Dependency", (PendingReason.WAITS_FOR_TASK, PendingReason.WAITS_FOR_ENTRY)),
    ("AssocGrp…, QOSGrp…", (PendingReason.QUEUE_FULL, PendingReason.BUDGET_SPENT)),
    ("ReqNodeNotAvail", (PendingReason.NO_NODE_ALLOWED, PendingReason.NODES_REFUSE)),
    ("Reservation", (PendingReason.KEPT_FOR_ANOTHER,)),
    ("JobHeld…", (PendingReason.SUSPENDED, PendingReason.GATED)),
)


def says_never(sentence: str) -> bool:
    """Whether a sentence says that waiting alone does not help."""
    return sentence.startswith(NEVER)


def codes_page() -> str:
    """Return the page of codes in Markdown, with an anchor for each code."""
    parts = [_HEAD]
    for stage in Stage:
        parts.append(f"## {stage}\n")
        parts += [_entry(code, facts) for code, facts in CODES.items() if facts.stage is stage]
    parts += ["## Slurm's words\n", "| Slurm | Here |\n|---|---|"]
    parts += [f"| {word} | {', '.join(f'`{code}`' for code in codes)} |" for word, codes in _SLURM]
    return "\n".join(parts) + "\n"


def _entry(code: PendingReason, facts: CodeFacts) -> str:
    who = ", ".join(facts.actors) or "nobody: it starts by itself"
    advice = f"{facts.help[0].upper()}{facts.help[1:]}"
    return f"### {code}\n\n{facts.meaning}\n\n- Who acts: {who}.\n- What helps: {advice}.\n"


def main(path: str) -> int:
    """Write the page; return the exit status."""
    Path(path).write_text(codes_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
