"""The programs: `vcctl`, the short programs, and the kubectl plugin.

A command's module is imported when the command is called, because the import of all modules takes longer than most commands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final, cast

from pyroclast_cli.flags import Context
from pyroclast_cli.tree import Group, Leaf, Node, OwnLeaf, first_word, run

NOT_PROVIDED: Final = "Not provided."


async def _version(context: Context) -> None:
    import platform  # noqa: PLC0415 - no other command needs them
    from importlib import metadata  # noqa: PLC0415

    context.say("API Version: v1alpha1")
    context.say(f"Version: {metadata.version('pyroclast-cli')}")
    context.say(f"Git SHA: {NOT_PROVIDED}")
    context.say(f"Built At: {NOT_PROVIDED}")
    context.say(f"Python Version: {platform.python_version()}")
    context.say(f"Python OS/Arch: {platform.system().lower()}/{platform.machine()}")


VERSION: Final = Leaf("version", "Print the version information", _version, failure=" version", needs_cluster=False)


COMPATIBLE: Final = "pyroclast_cli.compatible"
VIEWS: Final = "pyroclast_cli.views"
SCREEN: Final = "pyroclast_cli.ui"
SLURM: Final = "pyroclast_cli.slurm"
SUBMITTING: Final = ("sbatch", "srun", "salloc", "run", "shell")
SLURM_NAMES: Final = ("sbatch", "srun", "salloc", "scancel", "squeue", "sacct", "sinfo")
"""The commands that `vcctl` is when it is started by this name."""
PLACES: Final = {
    "job": (f"{VIEWS}.explain", "JOB"),
    "queue": (f"{COMPATIBLE}.queues", "QUEUE"),
    "jobflow": (f"{COMPATIBLE}.flows", "JOB_FLOW"),
    "jobtemplate": (f"{COMPATIBLE}.flows", "JOB_TEMPLATE"),
    "pod": (f"{COMPATIBLE}.pods", "POD"),
    "version": (__name__, "VERSION"),
    "waiting": (f"{VIEWS}.waiting", "WAITING"),
    "jobs": (f"{VIEWS}.waiting", "JOBS_VIEW"),
    "my": (f"{VIEWS}.waiting", "MY"),
    "running": (f"{VIEWS}.waiting", "RUNNING"),
    "explain": (f"{VIEWS}.explain", "EXPLAIN"),
    "why": (f"{VIEWS}.explain", "WHY"),
    "fits": (f"{VIEWS}.fits", "FITS"),
    "what-if": (f"{VIEWS}.fits", "WHAT_IF"),
    "order": (f"{VIEWS}.waiting", "ORDER"),
    "doctor": (f"{VIEWS}.nodes", "DOCTOR"),
    "queues": (f"{VIEWS}.queues", "QUEUES_VIEW"),
    "nodes": (f"{VIEWS}.nodes", "NODES_VIEW"),
    "tree": (f"{VIEWS}.timeline", "TREE"),
    "array": (f"{VIEWS}.arrays", "ARRAY"),
    "flow": (f"{VIEWS}.flows", "FLOW"),
    "timeline": (f"{VIEWS}.timeline", "TIMELINE"),
    "logs": (f"{VIEWS}.logs", "LOGS"),
    "wait": (f"{VIEWS}.wait", "WAIT"),
    "history": (f"{VIEWS}.history", "HISTORY"),
    "efficiency": (f"{VIEWS}.history", "EFFICIENCY"),
    "report": (f"{VIEWS}.report", "REPORT"),
    "budget": (f"{VIEWS}.queues", "BUDGET"),
    "limits": (f"{VIEWS}.queues", "LIMITS"),
    "lint": (f"{VIEWS}.fits", "LINT"),
    "top": (f"{VIEWS}.top", "TOP"),
    "ui": (SCREEN, "UI"),
    **{name: (f"{SLURM}.submitting", name.upper()) for name in SUBMITTING},
    **{name: (f"{SLURM}.listing", name.upper()) for name in ("scancel", "squeue", "sacct", "sinfo")},
    "slurm-names": (f"{SLURM}.listing", "NAMES"),
    "completion": (f"{VIEWS}.completion", "COMPLETION"),
}
"""The module and attribute of each command."""

SECTIONS: Final = {
    "Jobs Now": (
        *("my", "jobs", "waiting", "running", "explain", "why", "order"),
        *("logs", "wait", "timeline", "tree", "array", "flow", "top", "ui"),
    ),
    "Before You Submit": ("fits", "what-if", "lint"),
    "As in Slurm": ("run", "shell", *SLURM_NAMES, "slurm-names"),
    "Cluster": ("doctor", "queues", "budget", "limits", "nodes"),
    "Past Jobs and Usage": ("history", "efficiency", "report"),
    "Command Line": ("commands", "completion"),
}
"""The commands that Volcano does not have, as the help lists them."""


def _command(name: str) -> Node:
    module, attribute = PLACES[name]
    return cast("Node", getattr(import_module(module), attribute))


async def _list_commands(context: Context) -> None:
    for command in sorted((_command(name) for name in PLACES), key=lambda command: command.name):
        context.say(f"{command.name:<12} {command.short}")


LIST: Final = OwnLeaf("commands", "list all commands by name", _list_commands, needs_cluster=False)


def all_commands() -> tuple[Node, ...]:
    """Return all commands."""
    from pyroclast_cli.views.completion import complete  # noqa: PLC0415 - most commands do not need it

    return (*map(_command, PLACES), LIST, complete(lambda: Group("vcctl", "", all_commands())))


def _commands(arguments: Sequence[str]) -> tuple[Node, ...]:
    """Return the command that the arguments name, otherwise all commands."""
    word = first_word(arguments)
    return (_command(word),) if word in PLACES else all_commands()


def _with_commands(name: str, arguments: Sequence[str] | None = None) -> int:
    if arguments is None and (called := Path(sys.argv[0]).name) in SLURM_NAMES:
        return run(_command(called), sys.argv[1:])
    given = sys.argv[1:] if arguments is None else arguments
    return run(Group(name, "", _commands(given), SECTIONS), given)


def _companion(name: str, module: str, arguments: Sequence[str] | None = None) -> int:
    """Run one of the short programs. The flags of `vsub` are made now, because environment variables set their defaults."""
    found: Leaf | Callable[[], Leaf] = getattr(import_module(f"{COMPATIBLE}.{module}"), name)
    return run(found if isinstance(found, Leaf) else found(), sys.argv[1:] if arguments is None else arguments)


# The entry points: each runs a program with these arguments, or those of the process, and returns the exit status.
vcctl = partial(_with_commands, "vcctl")
kubectl_plugin = partial(_with_commands, "kubectl-vc")
vsub = partial(_companion, "vsub", "jobs")
vjobs = partial(_companion, "vjobs", "jobs")
vqueues = partial(_companion, "vqueues", "queues")
vcancel = partial(_companion, "vcancel", "jobs")
vsuspend = partial(_companion, "vsuspend", "jobs")
vresume = partial(_companion, "vresume", "jobs")
