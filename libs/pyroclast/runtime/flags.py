"""Parses command line flags like Go programs: `--name=value`, `--name value`, `--switch`, underscores for dashes. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

KLOG_FLAGS: Final = frozenset(
    {
        "log-backtrace-at",
        "log-dir",
        "log-file",
        "log-file-max-size",
        "log-flush-frequency",
        "stderrthreshold",
        "v",
        "vmodule",
    }
)
KLOG_SWITCHES: Final = frozenset(
    {
        "add-dir-header",
        "alsologtostderr",
        "legacy-stderr-threshold-behavior",
        "logtostderr",
        "one-output",
        "skip-headers",
        "skip-log-headers",
    }
)
"""Flags of the logger klog. Manifests of other programs set them, so they are accepted; only `v` has an effect."""


SHELL_REMNANT: Final = "2>&1"
"""An argument in Volcano's manifests that is meant for a shell; it is ignored."""


class FlagError(Exception):
    """The command line is invalid; the text is one line that names the flag."""


class FlagKind(Enum):
    """The form of a flag: without a value, with one, or repeated."""

    SWITCH = "switch"
    VALUE = "value"
    REPEATED = "repeated"


def read_flags(argv: Sequence[str], known: Mapping[str, FlagKind]) -> dict[str, str | list[str]]:
    """Return the flags of `argv` by name (with dashes). Of a flag given twice, the last value is used, unless the flag may be
    repeated.

    Raises FlagError: an unknown flag, a missing value, or an argument that is not a flag.
    """
    kinds = {
        **dict.fromkeys(KLOG_FLAGS, FlagKind.VALUE),
        **dict.fromkeys(KLOG_SWITCHES, FlagKind.SWITCH),
        "help": FlagKind.SWITCH,
        "version": FlagKind.SWITCH,
        **known,
    }
    found: dict[str, str] = {}
    repeated: dict[str, list[str]] = {}
    rest = [argument for argument in reversed(argv) if argument != SHELL_REMNANT]
    while rest:
        name, value = _split(rest.pop())
        kind = kinds.get(name)
        if kind is None:
            raise FlagError(f"flag --{name} is unknown{_suggestion(name, kinds)}")
        if value is None:
            if kind is not FlagKind.SWITCH and not rest:
                raise FlagError(f"flag --{name} needs a value")
            value = "true" if kind is FlagKind.SWITCH else rest.pop()
        if kind is FlagKind.REPEATED:
            repeated.setdefault(name, []).append(value)
        else:
            found[name] = value
    return {**found, **repeated}


def _split(argument: str) -> tuple[str, str | None]:
    name, equals, value = argument.partition("=")
    if name.startswith("--") and len(name) > 2:
        name = name[2:].replace("_", "-")
    elif name in {"-v", "-h"}:
        name = {"-v": "v", "-h": "help"}[name]
    elif name.startswith("-") and len(name) > 1:
        raise FlagError(f"flag {name} is unknown; flags begin with two dashes: -{name}")
    else:
        raise FlagError(f'argument "{argument}" is not expected; a switch is set with --name=false')
    return name, value if equals else None


def _suggestion(name: str, kinds: Mapping[str, FlagKind]) -> str:
    near = difflib.get_close_matches(name, kinds, n=1)
    return f"; did you mean --{near[0]}?" if near else "; --help lists all"
