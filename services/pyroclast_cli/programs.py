"""The programs: `vcctl`, the short companions, and the kubectl plugin."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from pyroclast_cli.compatible import jobs
from pyroclast_cli.compatible.flows import JOB_FLOW, JOB_TEMPLATE
from pyroclast_cli.compatible.pods import POD
from pyroclast_cli.compatible.queues import QUEUE
from pyroclast_cli.compatible.queues import vqueues as vqueues_leaf
from pyroclast_cli.compatible.version import VERSION
from pyroclast_cli.tree import Group, Node, run
from pyroclast_cli.views.explain import EXPLAIN
from pyroclast_cli.views.jobs import RUNNING, WAITING
from pyroclast_cli.views.lint import LINT
from pyroclast_cli.views.queues import QUEUES_VIEW
from pyroclast_cli.views.wait import WAIT

__all__ = ["kubectl_plugin", "vcancel", "vcctl", "vjobs", "vqueues", "vresume", "vsub", "vsuspend"]

COMMANDS: Final = (jobs.JOB, QUEUE, JOB_FLOW, JOB_TEMPLATE, POD, VERSION, EXPLAIN, WAITING, RUNNING, QUEUES_VIEW, WAIT, LINT)


def vcctl(arguments: Sequence[str] | None = None) -> int:
    """`vcctl`; the exit status."""
    return _run(Group("vcctl", "", COMMANDS), arguments)


def kubectl_plugin(arguments: Sequence[str] | None = None) -> int:
    """`kubectl vc`, the same commands."""
    return vcctl(arguments)


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
