"""The programs: `vcctl`, the short companions, and the kubectl plugin."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyroclast_cli.compatible import jobs
from pyroclast_cli.compatible.flows import JOB_FLOW, JOB_TEMPLATE
from pyroclast_cli.compatible.pods import POD
from pyroclast_cli.compatible.queues import QUEUE
from pyroclast_cli.compatible.queues import vqueues as vqueues_leaf
from pyroclast_cli.compatible.version import VERSION
from pyroclast_cli.context import Context
from pyroclast_cli.tree import Group, Leaf, Node, run
from pyroclast_cli.views.budget import BUDGET
from pyroclast_cli.views.completion import COMPLETION, complete
from pyroclast_cli.views.explain import EXPLAIN
from pyroclast_cli.views.fits import FITS
from pyroclast_cli.views.flow_tree import TREE
from pyroclast_cli.views.history import EFFICIENCY, HISTORY
from pyroclast_cli.views.jobs import RUNNING, WAITING
from pyroclast_cli.views.lint import LINT
from pyroclast_cli.views.logs import LOGS
from pyroclast_cli.views.nodes import NODES_VIEW
from pyroclast_cli.views.order import ORDER
from pyroclast_cli.views.queues import QUEUES_VIEW
from pyroclast_cli.views.report import REPORT
from pyroclast_cli.views.timeline import TIMELINE
from pyroclast_cli.views.top import TOP
from pyroclast_cli.views.wait import WAIT

__all__ = ["kubectl_plugin", "vcancel", "vcctl", "vjobs", "vqueues", "vresume", "vsub", "vsuspend"]

JOB: Final = replace(jobs.JOB, children=(*jobs.JOB.children, EXPLAIN))
ORIGINAL: Final[tuple[Node, ...]] = (JOB, QUEUE, JOB_FLOW, JOB_TEMPLATE, POD, VERSION)
OURS: Final[tuple[Node, ...]] = (
    WAITING,
    RUNNING,
    EXPLAIN,
    FITS,
    ORDER,
    QUEUES_VIEW,
    NODES_VIEW,
    TREE,
    TIMELINE,
    LOGS,
    WAIT,
    HISTORY,
    EFFICIENCY,
    REPORT,
    BUDGET,
    LINT,
    TOP,
    COMPLETION,
)


async def _list_commands(context: Context) -> None:
    for command in sorted((*ORIGINAL, *OURS), key=lambda command: command.name):
        context.say(f"{command.name:<12} {command.short}")


LIST: Final = Leaf(
    "commands", "list all commands: `--help` shows those of the original alone", _list_commands, needs_cluster=False, is_ours=True
)
COMMANDS: Final[tuple[Node, ...]] = (*ORIGINAL, *OURS, LIST, complete(lambda: Group("vcctl", "", COMMANDS)))


def vcctl(arguments: Sequence[str] | None = None) -> int:
    """`vcctl`; the exit status."""
    return _run(Group("vcctl", "", COMMANDS), arguments)


def kubectl_plugin(arguments: Sequence[str] | None = None) -> int:
    """`kubectl vc`, the same commands."""
    return _run(Group("kubectl-vc", "", COMMANDS), arguments)


def vsub(arguments: Sequence[str] | None = None) -> int:
    """`vsub`; the exit status."""
    return _run(jobs.vsub(), arguments)


def vjobs(arguments: Sequence[str] | None = None) -> int:
    """`vjobs`; the exit status."""
    return _run(jobs.vjobs(), arguments)


def vqueues(arguments: Sequence[str] | None = None) -> int:
    """`vqueues`; the exit status."""
    return _run(vqueues_leaf(), arguments)


def vcancel(arguments: Sequence[str] | None = None) -> int:
    """`vcancel`; the exit status."""
    return _run(jobs.vcancel(), arguments)


def vsuspend(arguments: Sequence[str] | None = None) -> int:
    """`vsuspend`; the exit status."""
    return _run(jobs.vsuspend(), arguments)


def vresume(arguments: Sequence[str] | None = None) -> int:
    """`vresume`; the exit status."""
    return _run(jobs.vresume(), arguments)


def _run(root: Node, arguments: Sequence[str] | None) -> int:
    return run(root, sys.argv[1:] if arguments is None else arguments)
