"""Slurm's options: the table `options.yaml`, and how Slurm reads a command line and the `#SBATCH` lines of a script."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from pyroclast_cli.flags import Failure, HelpText

TABLE: Final = Path(__file__).with_name("options.yaml")
LISTS: Final = Path(__file__).with_name("listing.yaml")
DIRECTIVE: Final = "#SBATCH"
LONGEST_LINE: Final = 64 * 1024
Values = dict[str, list[str]]
"""The values of each option in the order in which they were given. The value of an option without one is empty."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the table. Exactly one of `means`, `accepted` and `refused` is set."""

    name: str
    short: str = ""
    value: str = ""
    commands: tuple[str, ...] = ("sbatch", "srun")
    means: str = ""
    accepted: str = ""
    refused: str = ""

    @property
    def takes_value(self) -> bool:
        """Whether the next word is the value, if none is attached."""
        return bool(self.value) and not self.is_optional

    @property
    def is_optional(self) -> bool:
        """Whether the value may be left out."""
        return self.value.startswith("[") and self.value.endswith("]")

    @property
    def usage(self) -> str:
        """The option as a help text shows it."""
        value = self.value.strip("[]") if self.is_optional else self.value
        shown = f"[={value}]" if self.is_optional else f"={value}" if value else ""
        return (f"-{self.short}, " if self.short else "") + f"--{self.name}{shown}"


HELP: Final = Option("help", "h", means="shows this")


@functools.cache
def options() -> tuple[Option, ...]:
    """Return all options of submissions."""
    rows = yaml.load(TABLE.read_text(), Loader=yaml.CSafeLoader)
    return tuple(Option(name, commands=tuple(row.pop("in", Option("").commands)), **row) for name, row in rows.items())


def options_of(command: str) -> tuple[Option, ...]:
    """Return the options of a command."""
    if command in Option("").commands:
        return (*(each for each in options() if command in each.commands), HELP)
    tables = yaml.load(LISTS.read_text(), Loader=yaml.CSafeLoader)
    return (*(Option(name, **row) for name, row in {**tables[command], **tables["all"]}.items()), replace(HELP, short=""))


def command_line(words: Sequence[str], command: str, takes: str, name: str = "") -> tuple[Values, list[str]]:
    """Return the options and the rest of a command line.

    Raises:
        HelpText: the user asks for help.
    """
    known, name = options_of(command), name or command
    values, rest = parse(words, known)
    if "help" in values:
        raise HelpText(usage(name, takes, known))
    if rest and not takes:
        raise Failure(f'{name} takes no names: "{rest[0]}"; use -j')
    return values, rest


def parse(words: Sequence[str], known: Iterable[Option], where: str = "") -> tuple[Values, list[str]]:
    """Return the values of options, and the words from the first one that is no option, as getopt reads them.

    `where` is the beginning of messages, such as the line of a script.
    """
    by_name, by_letter = {each.name: each for each in known}, {each.short: each for each in known if each.short}
    values: Values = {}
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            rest.append(word)
            break
        if word.startswith("--"):
            name, is_attached, value = word[2:].partition("=")
            option = by_name.get(name) or _abbreviated(name, by_name, where)
            if is_attached and not option.value:
                raise Failure(f"{where}--{option.name} takes no value")
            pairs = [(option, value if is_attached else None)]
        else:
            pairs = _letters(word, by_letter, where)
        for option, attached in pairs:
            if attached is None and option.takes_value:
                if not rest:
                    raise Failure(f"{where}--{option.name} needs a value: {option.value}")
                attached = rest.pop()
            values.setdefault(option.name, []).append(attached or "")
    return values, rest[::-1]


def _abbreviated(name: str, by_name: dict[str, Option], where: str) -> Option:
    """Return the only option that begins so."""
    alike = [option for known, option in by_name.items() if name and known.startswith(name)]
    if len(alike) == 1:
        return alike[0]
    several = f"; it begins {', '.join(each.name for each in alike[:5])}" if alike else ""
    raise Failure(f"{where}there is no option --{name}{several}; `--help` lists all")


def _letters(word: str, by_letter: dict[str, Option], where: str) -> list[tuple[Option, str | None]]:
    """Return the options of a word such as `-N4` or `-Hl`."""
    pairs: list[tuple[Option, str | None]] = []
    for index, letter in enumerate(word[1:], 1):
        option = by_letter.get(letter)
        if option is None:
            raise Failure(f"{where}there is no option -{letter}; `--help` lists all")
        if option.value and word[index + 1 :]:
            return [*pairs, (option, word[index + 1 :].removeprefix("="))]
        pairs.append((option, None))
    return pairs


def script_values(script: str, known: Sequence[Option]) -> Values:
    """Return the options in the `#SBATCH` lines of a script: those before its first command."""
    first, _, _ = script.partition("\n")
    if not first.startswith("#!"):
        raise Failure("this is no script for sbatch: its first line must be #! and the interpreter, such as #!/bin/bash")
    if "\r\n" in script:
        raise Failure(r"the lines of the script end with \r\n, as on Windows; convert them: sed -i 's/\r$//' FILE")
    values: Values = {}
    for number, line in enumerate(script.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        if not line.startswith(DIRECTIVE) or not line[len(DIRECTIVE) :][:1].isspace():
            continue
        try:
            words = shlex.split(line[len(DIRECTIVE) : LONGEST_LINE])
        except ValueError as error:
            raise Failure(f"line {number}: {error}: {line.strip()}") from error
        end = next((index for index, word in enumerate(words) if word.startswith("#")), len(words))
        found, rest = parse(words[:end], known, f"line {number}: ")
        if rest:
            raise Failure(f'line {number}: "{rest[0]}" is no option')
        for name, given in found.items():
            values.setdefault(name, []).extend(given)
    return values


def usage(command: str, takes: str, known: Iterable[Option]) -> str:
    """Return the help of a command."""
    ours = [each for each in known if not each.refused]
    width = max(len(each.usage) for each in ours)
    lines = "".join(f"  {each.usage.ljust(width)}  {each.means or f'(no effect: {each.accepted})'}\n" for each in ours)
    return f"Usage:\n  {command} [OPTIONS] {takes}\n\nOptions:\n{lines}\nAll options of Slurm: docs/reference/slurm.md\n"
