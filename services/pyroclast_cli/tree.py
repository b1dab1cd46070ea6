"""The tree of commands: help texts, dispatch, errors and exit statuses, as in Volcano's programs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, KubeError
from pyroclast.kube.credentials.config import ConfigError
from pyroclast_cli.flags import GLOBAL_FLAGS, HELP, Context, Failure, Flag, FlagError, HelpText, connected, parse, usage_table

FAILED: Final = 255  # Volcano exits with -1
USAGE_ERROR: Final = 1
INTERRUPTED: Final = 130
ORIGINAL: Final = "vcctl"
DEBUG: Final = "VCCTL_DEBUG"
CLUSTER_FLAGS: Final = (
    Flag("master", "s", "", "the address of apiserver"),
    Flag("kubeconfig", "k", "", "(optional) absolute path to the kubeconfig file"),
)
CONTEXT: Final = Flag("context", "", "", "the context of the kubeconfig, by default its current one")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A command without subcommands. The errors of those that only Pyroclast has (`is_ours`) are printed on standard error.

    `failure` is the prefix of Volcano's error messages. `statuses` are the exit statuses, if 0 and 1 do not say enough. Commands
    that are `is_raw` read their own arguments, including the flag for help.
    """

    name: str
    short: str
    work: Callable[[Context], Awaitable[int | None]]
    flags: tuple[Flag, ...] = ()
    failure: str = ""
    long: str = ""
    needs_cluster: bool = True
    takes: str = ""
    is_ours: bool = False
    is_raw: bool = False
    statuses: tuple[tuple[int, str], ...] = ()

    @property
    def all_flags(self) -> tuple[Flag, ...]:
        """The flags of the command, with the flags for the cluster and for help."""
        cluster = (*CLUSTER_FLAGS, *((CONTEXT,) if self.is_ours else ())) if self.needs_cluster else ()
        return (*self.flags, *cluster, replace(HELP, text=f"help for {self.name}"))


OwnLeaf: Final = partial(Leaf, is_ours=True)
"""Makes a command that only Pyroclast has."""

RawLeaf: Final = partial(OwnLeaf, needs_cluster=False, is_raw=True)
"""Makes a command that reads its own arguments."""


@dataclass(frozen=True, slots=True)
class Group:
    """A command that only has subcommands. The help lists those in `sections` after everything that Volcano's help has."""

    name: str
    short: str
    children: tuple[Leaf | Group, ...]
    sections: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        """Whether Volcano has none of the subcommands."""
        return all(child.is_ours for child in self.children)


def original_group(name: str, short: str, *leaves: Leaf) -> Group:
    """Return a command of Volcano. The errors of a subcommand say its name and that of the group."""
    return Group(name, short, tuple(replace(leaf, failure=f" {leaf.name} {name}") for leaf in leaves))


Node = Leaf | Group


def first_word(arguments: Sequence[str]) -> str | None:
    """Return the first argument that is not a flag, which is the name of a command. None when all are flags."""
    return next((word for word in arguments if not word.startswith("-")), None)


def run(root: Node, arguments: Sequence[str]) -> int:
    """Run the command that `arguments` name. Return the exit status. An error is printed as a message, never as a traceback."""
    node, path, rest = root, [root.name], list(arguments)
    while isinstance(node, Group):
        word = first_word(rest)
        if word == "help" and node is root:
            return _help_of(root, rest[rest.index(word) + 1 :])
        child = next((each for each in node.children if each.name == word), None)
        if child is None or word is None:
            return _no_leaf(node, path, rest, word)
        rest.remove(word)
        node, path = child, [*path, child.name]
    return _run_leaf(node, path, rest)


def _no_leaf(group: Group, path: list[str], rest: list[str], word: str | None) -> int:
    """Print the help of the group. At the root, an unknown command is an error."""
    try:
        parse([each for each in rest if each.startswith("-")], (*GLOBAL_FLAGS, HELP))
    except FlagError as error:
        return _usage_error(group, path, str(error))
    if word is not None and (len(path) == 1 or group.is_ours):
        alike = [f"\t{each.name}\n" for each in group.children if each.name.startswith(word) or _distance(word, each.name) <= 2]
        whole = " ".join(path)
        suggestions = f"\n\nDid you mean this?\n{''.join(alike)}" if alike else ""
        sys.stderr.write(f'Error: unknown command "{word}" for "{whole}"{suggestions}\n')
        sys.stderr.write(f"Run '{whole} --help' for usage.\n")
        return USAGE_ERROR
    sys.stdout.write(_help(group, path))
    return 0


def _help_of(root: Group, words: Sequence[str]) -> int:
    node: Node = root
    path = [root.name]
    for word in words:
        child = next((each for each in node.children if each.name == word), None) if isinstance(node, Group) else None
        if child is None:
            break
        node, path = child, [*path, child.name]
    sys.stdout.write(_help(node, path))
    return 0


def text_of(error: Exception) -> str:
    """Return what an error says to a user: of an answer of the API server its own words, as kubectl and Volcano's programs do."""
    return error.message if isinstance(error, ApiError) else str(error)


def _run_leaf(leaf: Leaf, path: list[str], arguments: Sequence[str]) -> int:
    try:
        values, positional = (
            ({"help": False}, list(arguments)) if leaf.is_raw else parse(arguments, (*leaf.all_flags, *GLOBAL_FLAGS))
        )
    except FlagError as error:
        return _usage_error(leaf, path, str(error)) if not leaf.is_ours else _told(path, f"{error}; see --help", USAGE_ERROR)
    if values["help"]:
        sys.stdout.write(_help(leaf, path))
        return 0
    try:
        return asyncio.run(_work(leaf, Context(values, tuple(positional)))) or 0
    except (Failure, ConfigError, KubeError) as error:
        if leaf.is_ours:
            away = "the API server does not answer: " if isinstance(error, ConnectionFailed) else ""
            return _told(path, f"{away}{text_of(error)}", error.status if isinstance(error, Failure) else USAGE_ERROR)
        sys.stdout.write(f"Failed to{leaf.failure}: {text_of(error)}\n")
        return FAILED
    except HelpText as shown:
        sys.stdout.write(str(shown))
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the pipe has exited, so no output can be written
        return 0
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        return _told(path, f"a mistake of ours: {type(error).__name__}: {error} ({DEBUG}=1 shows where)", FAILED)


async def _work(leaf: Leaf, context: Context) -> int | None:
    if not leaf.needs_cluster:
        return await leaf.work(context)
    name = context.text("context") if "context" in context.values else ""
    async with connected(context.text("kubeconfig"), context.text("master"), name) as client:
        return await leaf.work(replace(context, connection=client))


def _told(path: list[str], message: str, status: int) -> int:
    sys.stderr.write(f"{' '.join(path)}: {message}\n")
    return status


def _usage_error(node: Node, path: list[str], message: str) -> int:
    sys.stderr.write(f"{_usage(node, path)}\nError: {message}\n")
    return USAGE_ERROR


def _help(node: Node, path: list[str]) -> str:
    about = node.long or node.short if isinstance(node, Leaf) else node.short
    return (f"{about}\n\n" if about else "") + _usage(node, path)


def _usage(node: Node, path: list[str]) -> str:
    name = " ".join(path)
    if isinstance(node, Leaf):
        inherited = f"\nGlobal Flags:\n{usage_table(GLOBAL_FLAGS)}" if len(path) > 1 else ""
        own = node.all_flags if len(path) > 1 else (*node.all_flags, *GLOBAL_FLAGS)
        takes = f" {node.takes}" if node.takes else ""
        meanings = "".join(f"  {status:<4}{meaning}\n" for status, meaning in node.statuses)
        ends = f"\nExit Status:\n{meanings}" if meanings else ""
        return f"Usage:\n  {name}{takes} [flags]\n\nFlags:\n{usage_table(own)}{ends}{inherited}"
    # clients compare the help of `vcctl`, so the commands that only Pyroclast has follow behind it
    is_original, apart = path[0] == ORIGINAL, {each for names in node.sections.values() for each in names}
    shown = [each for each in node.children if each.name not in apart and not (is_original and each.is_ours and not node.is_ours)]
    children = [(each.name, each.short) for each in shown if not each.name.startswith("_")]
    if len(path) == 1:
        children.append(("help", "Help about any command"))
    width = max(11, *(len(child) for child, _ in children))
    listed = "".join(f"  {child.ljust(width)} {short}\n" for child, short in sorted(children))
    help_flag = replace(HELP, text=f"help for {node.name}")
    flags = usage_table((help_flag, *GLOBAL_FLAGS)) if len(path) == 1 else usage_table((help_flag,))
    inherited = "" if len(path) == 1 else f"\nGlobal Flags:\n{usage_table(GLOBAL_FLAGS)}"
    return (
        f"Usage:\n  {name} [command]\n\nAvailable Commands:\n{listed}\nFlags:\n{flags}{inherited}\n"
        f'Use "{name} [command] --help" for more information about a command.\n{_sections(node, width)}'
    )


def _sections(group: Group, width: int) -> str:
    by_name = {each.name: each for each in group.children}
    return "".join(
        f"\n{title}:\n" + "".join(f"  {name.ljust(width)} {by_name[name].short}\n" for name in names if name in by_name)
        for title, names in group.sections.items()
    )


def _distance(one: str, other: str) -> int:
    """Return the Levenshtein distance of two words, ignoring case."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one.lower(), 1):
        above, row[0] = row[0], i
        for j, each in enumerate(other.lower(), 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (letter != each))
    return row[-1]
