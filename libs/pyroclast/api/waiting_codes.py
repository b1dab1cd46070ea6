"""The meaning of each code of waiting, who can act, and how: the one list for `vcctl`, the page of codes and the tests."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from pyroclast.api.waiting_reasons import PendingReason

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
_before_queue, _in_queue, _on_nodes, _placed = (partial(CodeFacts, stage) for stage in Stage)
_WAIT: Final = "wait, a higher priority, or another queue"

CODES: Final[Mapping[PendingReason, CodeFacts]] = {
    PendingReason.SUSPENDED: _before_queue(
        _USER,
        "`spec.suspend` of the Job is true, or a Command suspended the Job (`AbortJob`, `vcctl job suspend`). The sentence says "
        "which.",
        "set spec.suspend to false; after a Command: vcctl job resume -N NAME",
    ),
    PendingReason.WAITS_FOR_JOB: _before_queue(
        _USER,
        "The Job runs after other Jobs (`spec.after`), which the sentence names with their phases. Never: one of them can no "
        "longer do what the Job waits for, and `spec.afterPolicy` is `Wait`. See "
        "[Jobs after Jobs](how-to/run-a-job-after-another.md).",
        "see the named Jobs: vcctl explain NAME",
    ),
    PendingReason.WAITS_FOR_TASK: _before_queue(
        _USER,
        "Never: `spec.minAvailable` counts pods of a task with `dependsOn`. These pods are created only after another task has "
        "started, so the gang can never be complete.",
        "lower spec.minAvailable to the number of pods that are created first, or remove dependsOn",
    ),
    PendingReason.WAITS_FOR_ENTRY: _before_queue(
        _USER,
        "The entry of a JobFlow waits for its targets, which the sentence names. The Job of the entry is created when the "
        "targets are satisfied.",
        "see the states of the named entries: vcctl tree FLOW",
    ),
    PendingReason.CLAIM_MISSING: _before_queue(
        _USER,
        "A PersistentVolumeClaim that the Job names does not exist.",
        "create the PersistentVolumeClaim, or remove the volume from the Job",
    ),
    PendingReason.PODS_REFUSED: _before_queue(
        _USER,
        "The API server refuses to create the pods of the Job, its PodGroup, or an object that a Job plugin needs. Usual "
        "reasons are a quota, a policy, or a PriorityClass that does not exist.",
        "correct what the message of the API server names",
    ),
    PendingReason.NO_SCHEDULER: _before_queue(
        _USER + _ADMIN,
        "No running scheduler has the name in `spec.schedulerName`, or in the pod template of a task. The usual reason is a "
        "typing error. `kubectl create` prints a warning at once. After 30 s the job controller writes the code to the status "
        "of the Job and records an Event. See [how schedulers are "
        "known](reference/several-schedulers.md#how-schedulers-are-known).",
        "correct spec.schedulerName, or ask the administrator for that scheduler",
    ),
    PendingReason.NOT_EXAMINED: _before_queue(
        _ADMIN,
        "The scheduler has not examined the Job since the Job was created or changed.",
        "wait; after a minute ask the administrator whether the scheduler runs",
    ),
    PendingReason.LEFT_OUT: _before_queue(
        _USER,
        "The PodGroup of the Job is invalid, or its queue does not exist.",
        "correct the fault that the sentence names",
    ),
    PendingReason.NOT_LET_IN: _before_queue(
        _USER + _OWNER,
        "A plugin of the scheduler does not admit the Job to its queue. For example, the plugin `capacity` admits no Jobs to "
        "a queue that has child queues.",
        "read the page of the plugin that refuses the Job",
    ),
    PendingReason.QUEUE_CLOSED: _before_queue(
        _OWNER,
        "The queue is Closed or Closing, so the scheduler admits no Jobs to the queue.",
        "another queue, or ask the owner of the queue to open it",
    ),
    PendingReason.ABOVE_QUEUE_LIMIT: _in_queue(
        _USER + _OWNER,
        "Never: the gang requests more than the `capability` of its queue, or of a parent queue.",
        "a smaller gang, or ask the owner of the queue for a larger capability",
    ),
    PendingReason.ABOVE_CLUSTER: _in_queue(
        _USER + _ADMIN,
        "Never: the gang requests more than all nodes of the cluster have together, or a device that no node has.",
        "a smaller gang, or ask the administrator for more nodes",
    ),
    PendingReason.BUDGET_SPENT: _in_queue(
        _OWNER,
        "Not now: the budget of the queue, or of a parent queue, is used up for this period, or too little of the budget is "
        "left for the gang. Never: the budget has only one period, or the gang needs more than the whole budget. See "
        "[budgets](how-to/give-a-queue-a-budget.md).",
        "ask the owner of the queue for a larger budget, or wait for the date that the sentence names",
    ),
    PendingReason.PERSON_LIMIT: _in_queue(
        _USER + _OWNER,
        "Not now: the person who submitted the Job has as many running Jobs in the queue, or uses as much there, as each person "
        "may. The sentence names the limit and the Jobs that use it. Never: the gang alone requests more than a person may use. "
        "See [limits of each person](how-to/give-a-team-a-queue.md#limit-each-person).",
        "wait until one of these Jobs ends, end one, or ask the owner of the queue for a higher limit",
    ),
    PendingReason.NAMESPACE_QUOTA: _in_queue(
        _ADMIN,
        "A ResourceQuota of the namespace has too little left for the gang (plugin `resourcequota`).",
        "ask the administrator for a larger ResourceQuota",
    ),
    PendingReason.QUEUE_FULL: _in_queue(
        (),
        "The queue may not use more: its running gangs, together with the gangs that were admitted before, reach its limit. "
        "The sentence also names the first Job that the queue serves before this Job, and how many more there are.",
        _WAIT,
    ),
    PendingReason.CLUSTER_FULL: _in_queue(
        (),
        "The running gangs, together with the gangs that were admitted before, use all that the scheduler may allocate in the "
        "cluster.",
        _WAIT,
    ),
    PendingReason.HELD_BY_GUARANTEE: _in_queue(
        _OWNER,
        "The rest of the cluster is guaranteed to other queues, whether they use it or not. The sentence names these queues "
        "and their amounts.",
        "wait, or ask the owner of the queue for a guarantee",
    ),
    PendingReason.BEHIND_ANOTHER: _in_queue(
        (),
        "The gang would fit, but another gang before it in the queue was admitted first and has no nodes yet.",
        "wait, or a higher priority",
    ),
    PendingReason.PODS_MISSING: _on_nodes(
        _USER,
        "Fewer pods exist than the gang needs to start.",
        "read the events of the Job: they say why pods are not created",
    ),
    PendingReason.GATED: _on_nodes(
        _USER,
        "Every pod of the gang has a scheduling gate, which the sentence names.",
        "the user or controller that set the scheduling gate must remove it",
    ),
    PendingReason.NO_NODE_READY: _on_nodes(
        _ADMIN,
        "The cluster has no node, or all nodes have the taint `not-ready` or `unreachable`.",
        "ask the administrator for nodes",
    ),
    PendingReason.NO_NODE_ALLOWED: _on_nodes(
        _USER + _ADMIN,
        "Never: no node is feasible for the pod, because of the labels, the taints or `unschedulable` of the nodes. The "
        "sentence counts the nodes by reason. Not now: some of these nodes are only not ready.",
        "another node selector, affinity or toleration",
    ),
    PendingReason.NO_NODE_BIG_ENOUGH: _on_nodes(
        _USER + _ADMIN,
        "Never: a pod requests more than any feasible node has, even an empty node. The sentence names the largest node.",
        "a smaller pod, or ask the administrator for larger nodes",
    ),
    PendingReason.TOO_FEW_NODES: _on_nodes(
        _USER + _ADMIN,
        "Never: the gang does not fit on all feasible nodes together, even if all these nodes are empty.",
        "a smaller gang, or ask the administrator for more nodes",
    ),
    PendingReason.TOPOLOGY_TOO_NARROW: _on_nodes(
        _USER,
        "Never: the gang does not fit into any part of the network that its `networkTopology` allows, even if that part is "
        "empty. Not now: no allowed part of the network has enough free room.",
        "a higher tier of networkTopology, or mode soft",
    ),
    PendingReason.KEPT_FOR_ANOTHER: _on_nodes(
        _USER,
        "The gang would fit, but the scheduler reserves nodes for another gang (plugin `reservation`).",
        "a spec.runningEstimate short enough to end before the nodes are needed",
    ),
    PendingReason.NODES_FULL: _on_nodes(
        (),
        "The gang would fit on empty nodes, but too little is free now. The sentence says how much is free in total, how much "
        "is free on one node at most, and which Job is first in the queue.",
        "wait, or a higher priority",
    ),
    PendingReason.ROOM_IS_COMING: _on_nodes(
        (),
        "Pods of the gang are pipelined: each is assigned to a node on which other pods are terminating. The sentence says "
        "whether these other pods were evicted for the gang.",
        "wait",
    ),
    PendingReason.NODES_REFUSE: _on_nodes(
        _USER + _ADMIN,
        "Every node is refused to the gang for another reason: host ports, affinity to other pods, volume claims or "
        "reservations.",
        "read the counted reasons in the sentence",
    ),
    PendingReason.BIND_REFUSED: _on_nodes(
        _ADMIN,
        "The API server refused to bind a pod of the gang a moment ago. The scheduler will bind the pod again.",
        "read the event on the pod: it says why the bind was refused",
    ),
    PendingReason.IMAGE_REFUSED: _placed(
        _USER,
        "The image of a container cannot be pulled. The sentence has the number of pods, the image and the registry's answer.",
        "correct the image, or add the secret for its registry to the pods",
    ),
    PendingReason.VOLUME_NOT_MOUNTED: _placed(
        _USER,
        "A volume, ConfigMap or Secret cannot be mounted. The sentence has the number of pods.",
        "create the object that the volume names; kubectl describe pod shows the message",
    ),
    PendingReason.STARTING: _placed(
        (),
        "All pods have nodes, but their containers do not run yet.",
        "wait; kubectl describe pod shows what the node does",
    ),
    PendingReason.NODE_SILENT: _placed(
        _ADMIN,
        "A pod of the Job is on a node that does not answer. The sentence names the pod, the node and the time. "
        "Nobody knows whether the pod still runs, so it is neither replaced nor removed.",
        "bring the node back; if it is powered off, release its pods: "
        "kubectl taint node NAME node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
    ),
    PendingReason.CRASHING: _placed(
        _USER,
        "Containers end and are restarted again and again. The sentence has the number of pods.",
        "see why the containers end: vcctl logs NAME --previous",
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

A waiting Job has one code at a time. The code belongs to the first of the stages below in which the Job waits.
`vcctl explain NAME` and `vcctl waiting` show the code. `status.state.message` of the Job and the condition `Unschedulable` of
its PodGroup contain the code, with a sentence that has the numbers.

A sentence that begins with "never" means that waiting does not help: nodes, queue or Job must change. A sentence that begins
with "not now" means that the Job starts when other Jobs end or are evicted.
"""

_SLURM: Final[tuple[tuple[str, tuple[PendingReason, ...]], ...]] = (
    ("Resources", (PendingReason.CLUSTER_FULL, PendingReason.NODES_FULL)),
    ("Priority", (PendingReason.BEHIND_ANOTHER,)),
    ("Dependency", (PendingReason.WAITS_FOR_JOB, PendingReason.WAITS_FOR_TASK, PendingReason.WAITS_FOR_ENTRY)),
    ("AssocGrp…, QOSGrp…", (PendingReason.QUEUE_FULL, PendingReason.BUDGET_SPENT)),
    ("Assoc…PerUser, QOSMax…PerUser…", (PendingReason.PERSON_LIMIT,)),
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
    parts += ["## Codes by Slurm's reasons\n", "| Reason in Slurm | Codes |\n|---|---|"]
    parts += [f"| {word} | {', '.join(f'`{code}`' for code in codes)} |" for word, codes in _SLURM]
    return "\n".join(parts) + "\n"


def _entry(code: PendingReason, facts: CodeFacts) -> str:
    who = " or ".join(facts.actors) or "nobody: the Job starts without help"
    advice = f"{facts.help[0].upper()}{facts.help[1:]}"
    return f"### {code}\n\n{facts.meaning}\n\n- Who acts: {who}.\n- What helps: {advice}.\n"


def main(path: str) -> int:
    """Write the page of codes (`docs/codes.md`) to `path`; return the exit status."""
    Path(path).write_text(codes_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
