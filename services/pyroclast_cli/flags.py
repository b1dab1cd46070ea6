"""Command-line flags by the rules of pflag, the library of Volcano's programs, and the input of a command made from them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

Value: TypeAlias = bool | int | str
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_TRUTH: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_BITS: Final = {"int": 63, "int32": 31}


class FlagError(ValueError):
    """The arguments cannot be parsed. The message is the message of pflag."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `kind` is the type in the usage table; a `bool` flag has no value. `short` is one letter or empty."""

    name: str
    short: str = ""
    default: Value = ""
    text: str = ""
    kind: str = "string"

    @property
    def left(self) -> str:
        """The left column of the usage table."""
        letter = f"-{self.short}, " if self.short else "    "
        return f"  {letter}--{self.name}" + ("" if self.kind == "bool" else f" {self.kind}")

    @property
    def right(self) -> str:
        """The right column of the usage table: the text, and the default unless the default is empty."""
        if self.default in ("", 0, False):
            return self.text
        shown = f'"{self.default}"' if self.kind == "string" else self.default
        return f"{self.text} (default {shown})"


HELP: Final = Flag("help", "h", default=False, kind="bool")
GLOBAL_FLAGS: Final = (
    Flag("log-flush-frequency", "", "5s", "Maximum number of seconds between log flushes", "duration"),
    Flag("v", "v", 0, "number for the log level verbosity", "Level"),
    Flag(
        *("vmodule", "", ""),
        "comma-separated list of pattern=N settings for file-filtered logging (only works for the default text log format)",
        "moduleSpec",
    ),
)


def parse(arguments: Sequence[str], flags: Sequence[Flag]) -> tuple[dict[str, Value], list[str]]:
    """Return the value of each flag by name, and the positional arguments."""
    by_name = {flag.name: flag for flag in flags}
    by_letter = {flag.short: flag for flag in flags if flag.short}
    values: dict[str, Value] = {flag.name: flag.default for flag in flags}
    positional: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            positional += words
            break
        if word.startswith("--"):
            _long(word, words, by_name, values)
        elif word.startswith("-") and len(word) > 1:
            _short(word, words, by_letter, values)
        else:
            positional.append(word)
    return values, positional


def _long(word: str, words: list[str], flags: Mapping[str, Flag], values: dict[str, Value]) -> None:
    name, is_joined, text = word[2:].partition("=")
    flag = flags.get(name.replace("_", "-"))
    if flag is None:
        raise FlagError(f"unknown flag: --{name}")
    if not is_joined and flag.kind == "bool":
        text = "true"
    elif not is_joined:
        if not words:
            raise FlagError(f"flag needs an argument: {word}")
        text = words.pop(0)
    _set(values, flag, text)


def _short(word: str, words: list[str], flags: Mapping[str, Flag], values: dict[str, Value]) -> None:
    letters = word[1:]
    while letters:
        flag = flags.get(letters[0])
        if flag is None:
            raise FlagError(f"unknown shorthand flag: {letters[0]!r} in -{letters}")
        rest = letters[1:]
        if rest.startswith("="):
            _set(values, flag, rest[1:])
            return
        if flag.kind == "bool":
            values[flag.name] = True
            letters = rest
            continue
        if not rest and not words:
            raise FlagError(f"flag needs an argument: {letters[0]!r} in -{letters}")
        _set(values, flag, rest or words.pop(0))
        return


def _set(values: dict[str, Value], flag: Flag, text: str) -> None:
    """Store the value of a flag. The values of a flag that may be repeated are stored as one text, separated by zero bytes."""
    before = str(values[flag.name])
    values[flag.name] = f"{before}\0{text}" if flag.kind == "stringArray" and before else _value(flag, text)


def _value(flag: Flag, text: str) -> Value:
    shown = f"-{flag.short}, --{flag.name}" if flag.short else f"--{flag.name}"
    if flag.kind == "bool":
        if text not in _TRUTH:
            raise FlagError(f'invalid argument "{text}" for "{shown}" flag: strconv.ParseBool: parsing "{text}": invalid syntax')
        return _TRUTH[text]
    if flag.kind in _BITS:
        if not _INTEGER.fullmatch(text):
            raise FlagError(f'invalid argument "{text}" for "{shown}" flag: strconv.ParseInt: parsing "{text}": invalid syntax')
        number = int(text)
        if not -(1 << _BITS[flag.kind]) <= number < 1 << _BITS[flag.kind]:
            raise FlagError(
                f'invalid argument "{text}" for "{shown}" flag: strconv.ParseInt: parsing "{text}": value out of range'
            )
        return number
    return text


def usage_table(flags: Sequence[Flag]) -> str:
    """Return the usage table of the flags in alphabetical order. Each line ends with a newline."""
    ordered = sorted(flags, key=lambda flag: flag.name)
    width = max(len(flag.left) for flag in ordered)
    return "".join(f"{flag.left.ljust(width)}   {flag.right}\n" for flag in ordered)


if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # only imported at run time by commands that need a cluster


class Failure(Exception):
    """The command failed; the message is for the user. Volcano's commands ignore `status`: they always exit with the same."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class HelpText(Exception):
    """The user of a command that reads its own arguments asks for help, which is the message."""


@dataclass(frozen=True, slots=True)
class Context:
    """The values of flags by name, the positional arguments, and the client if the command needs a cluster."""

    values: Mapping[str, Value]
    arguments: tuple[str, ...] = ()
    connection: Client | None = None

    @property
    def client(self) -> Client:
        """The client of the API server."""
        if self.connection is None:
            raise TypeError("a command without a cluster asked for a client")
        return self.connection

    def text(self, name: str) -> str:
        """Return the value of a text flag."""
        return str(self.values[name])

    def texts(self, name: str) -> list[str]:
        """Return the values of a text flag that may be repeated."""
        return [each for each in str(self.values[name]).split("\0") if each]

    def number(self, name: str) -> int:
        """Return the value of an integer flag."""
        return int(self.values[name])

    def is_set(self, name: str) -> bool:
        """Return the value of a boolean flag."""
        return bool(self.values[name])

    def say(self, line: str) -> None:
        """Print a line."""
        sys.stdout.write(f"{line}\n")


DEFAULT_SERVER: Final = "http://localhost:8080"
MAX_ATTEMPTS: Final = 3  # few, because a person waits


@asynccontextmanager
async def connected(kubeconfig: str, master: str, context: str = "") -> AsyncIterator[Client]:
    """Open a client of the API server, found as kubectl does: by flags, environment, kubeconfig or the pod's service account.

    Several files in KUBECONFIG are merged. A file that does not exist is skipped.
    """
    from pyroclast import lean  # noqa: PLC0415 - half of the run time of a command without a cluster

    lean.prepare()
    from pyroclast.kube.credentials.config import find_config  # noqa: PLC0415
    from pyroclast.kube.http.client import Client  # noqa: PLC0415
    from pyroclast.runtime import logs  # noqa: PLC0415

    logs.set_level("critical")  # the commands print errors themselves
    config = find_config(kubeconfig, master=master, context=context, environ=os.environ, default_server=DEFAULT_SERVER)

    def warn(text: str) -> None:
        sys.stderr.write(f"Warning: {text}\n")  # as kubectl does

    async with Client(config, max_attempts=MAX_ATTEMPTS, user_agent="vcctl", on_warning=warn) as client:
        yield client
