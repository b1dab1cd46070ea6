"""Computes the possible completions at the end of a command line. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pyroclast.api.enums import JobPhase
from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, JOBS, NAMESPACES, NODES, QUEUES, ResourceType
from pyroclast_cli.flags import GLOBAL_FLAGS, Flag
from pyroclast_cli.tree import Group, Leaf, Node

FORMS: Final = ("table", "wide", "name", "json", "yaml", "csv", "jsonpath=", "custom-columns=")
KIND_OF_ARGUMENT: Final[Mapping[str, ResourceType]] = {
    **dict.fromkeys(("explain", "logs", "wait", "timeline", "history", "efficiency"), JOBS),
    **dict.fromkeys(("tree", "flow"), JOB_FLOWS),
    "order": QUEUES,
}
KIND_OF_NAME: Final = {"job": JOBS, "queue": QUEUES, "jobflow": JOB_FLOWS, "jobtemplate": JOB_TEMPLATES}
"""The resource type of the flag `--name`, by group of Volcano's commands."""

KIND_OF_FLAG: Final[Mapping[str, ResourceType]] = {"namespace": NAMESPACES, "queue": QUEUES, "flow": JOB_FLOWS}
SLASHES: Final[Mapping[str, ResourceType]] = {"queue/": QUEUES, "node/": NODES, "job/": JOBS, "flow/": JOB_FLOWS}
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "for": tuple(str(phase) for phase in JobPhase if phase),
    "per": ("hour", "day", "week", "month", "all"),
    "by": ("queue", "user", "namespace", "flow", "resource"),
    "action": ("open", "close", "update"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """The possible completions of a word: `words`, the names of objects of a `kind`, each after `slash`, and other names.

    Every completion begins with `prefix`. `joined` is the flag and its `=`, if the value is typed in the same word. `values` are
    those of the flags that are given.
    """

    prefix: str
    words: tuple[str, ...] = ()
    kind: ResourceType | None = None
    slash: str = ""
    wants_context: bool = False
    wants_shell: bool = False
    label_of_nodes: bool = False
    joined: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


def split_at_equals(words: Sequence[str]) -> tuple[list[str], bool]:
    """Return the typed words, and whether the shell split the last word at its `=`, as bash does."""
    found: list[str] = []
    is_split = False
    for index, word in enumerate(words):
        if word == "=" and found and found[-1].startswith("--"):
            found[-1] += "="
            is_split = index >= len(words) - 2
        elif found and found[-1].startswith("--") and found[-1].endswith("=") and words[index - 1] == "=":
            found[-1] += word
        else:
            found.append(word)
    return found, is_split


def place_of(root: Group, words: Sequence[str]) -> Place:
    """Return the possible completions of the last word of `words`."""
    last = words[-1] if words else ""
    node: Node = root
    path: list[str] = []
    values: dict[str, str] = {}
    flags = _flags_of(node)
    waiting: Flag | None = None
    arguments = 0
    for word in words[:-1]:
        if waiting is not None:
            values[waiting.name], waiting = word, None
        elif word.startswith("-"):
            waiting = _take(word, flags, values)
        elif isinstance(node, Group):
            child = next((each for each in node.children if each.name == word), None)
            if child is None:
                return Place(last)
            node, path, flags = child, [*path, child.name], _flags_of(child)
        else:
            arguments += 1
    if waiting is not None:
        return replace(_value(waiting, node, path, last), values=values)
    if last.startswith("--") and "=" in last:
        name, _, typed = last.partition("=")
        flag = next((each for each in flags if each.name == name[2:]), None)
        return replace(_value(flag, node, path, typed), joined=f"{name}=", values=values) if flag else Place(last)
    if last.startswith("-"):
        return Place(last, tuple(f"--{flag.name}" for flag in flags))
    if isinstance(node, Group):
        return Place(last, tuple(each.name for each in node.children if not each.name.startswith("_")))
    return replace(_argument(path[0], last), values=values) if arguments == 0 else Place(last)


def _argument(command: str, last: str) -> Place:
    if command == "completion":
        return Place(last, wants_shell=True)
    kind = KIND_OF_ARGUMENT.get(command)
    if kind is None:
        return Place(last)
    for slash, of in SLASHES.items():
        if last.startswith(slash) and (of is kind or (command == "explain" and of is not JOB_FLOWS)):
            return Place(last, kind=of, slash=slash)
    return Place(last, ("queue/", "node/") if command == "explain" else (), kind)


def _value(flag: Flag, node: Node, path: Sequence[str], typed: str) -> Place:
    """Return the possible values of a flag."""
    if flag.name == "output":
        more = tuple(word for word in ("svg", "trace") if word in flag.text)
        return Place(typed, (*FORMS, *more))
    if flag.name == "context":
        return Place(typed, wants_context=True)
    if flag.name == "by" and node.name == "nodes":
        return Place(typed, ("tier",), label_of_nodes=True)
    if flag.name == "name" and path:
        return Place(typed, kind=KIND_OF_NAME.get(path[0]))
    if flag.name in KIND_OF_FLAG:
        return Place(typed, kind=KIND_OF_FLAG[flag.name])
    return Place(typed, CHOICES.get(flag.name, ()))


def _flags_of(node: Node) -> tuple[Flag, ...]:
    return (*node.all_flags, *GLOBAL_FLAGS) if isinstance(node, Leaf) else GLOBAL_FLAGS


def _take(word: str, flags: Sequence[Flag], values: dict[str, str]) -> Flag | None:
    """Store the value of a flag that contains it. Return the flag if its value is the next word, otherwise None."""
    name, is_joined, text = word.lstrip("-").partition("=")
    is_long = word.startswith("--")
    flag = next((each for each in flags if (each.name if is_long else each.short) == (name if is_long else name[:1])), None)
    if flag is None or flag.kind == "bool":
        return None
    if is_joined or (not is_long and len(name) > 1):
        values[flag.name] = text if is_joined else name[1:]
        return None
    return flag
