"""Commands that print arguments, files, variables or numbers."""

from __future__ import annotations

import re

from pyroclast_standalone.nodes.shell.machine import Shell

_PLACEHOLDER = re.compile(r"%[-\d.]*[sdif]")


def echo(shell: Shell, words: list[str], _: str) -> int:
    """Simulate `echo [-neE] …`."""
    newline, escapes = "\n", False
    while words and re.fullmatch("-[neE]+", words[0]):
        newline = "" if "n" in words[0] else newline
        escapes = "e" in words[0]
        words = words[1:]
    text = " ".join(words)
    shell.print((_unescaped(text) if escapes else text) + newline)
    return 0


def printf(shell: Shell, words: list[str], _: str) -> int:
    """Simulate `printf FORMAT …`: the words replace the placeholders in turn, and the format repeats until all words are used."""
    if not words:
        return 2
    template, values = _unescaped(words[0]), words[1:]
    placeholders = len(_PLACEHOLDER.findall(template))
    while True:
        turn, values = iter(values[:placeholders]), values[placeholders:]
        shell.print(_PLACEHOLDER.sub(lambda _, turn=turn: next(turn, ""), template).replace("%%", "%"))  # type: ignore[misc]
        if not values or not placeholders:
            return 0


def cat(shell: Shell, words: list[str], given: str) -> int:
    """Simulate `cat [FILE…]`."""
    files = _operands(words)
    if not files:
        shell.print(given)
    status = 0
    for path in files:
        content = shell.read(path)
        if content is None:
            shell.print(f"cat: {path}: No such file or directory\n")
            status = 1
        else:
            shell.print(content)
    return status


def environment(shell: Shell, words: list[str], _: str) -> int:
    """Simulate `env`, `printenv NAME`, or `env COMMAND`."""
    if words and words[0] in shell.variables:
        shell.print(shell.variables[words[0]] + "\n")
        return 0
    if words and "=" not in words[0] and not words[0].startswith("-"):
        return shell.command(words)
    for name, value in sorted(shell.variables.items()):
        if name[0].isalpha() or name[0] == "_":
            shell.print(f"{name}={value}\n")
    return 0


def sequence(shell: Shell, words: list[str], _: str) -> int:
    """Simulate `seq [FIRST [STEP]] LAST`."""
    bounds = [int(word) for word in words if word.lstrip("-").isdigit()]
    if not bounds:
        return 1
    first = bounds[0] if len(bounds) > 1 else 1
    step = bounds[1] if len(bounds) == 3 else 1
    shell.print("".join(f"{number}\n" for number in range(first, bounds[-1] + (1 if step > 0 else -1), step or 1)))
    return 0


def date(shell: Shell, _words: list[str], _: str) -> int:
    """Print the time in seconds since the epoch, for every format."""
    shell.print(f"{int(shell.started_at + shell.clock)}\n")
    return 0


def translate(shell: Shell, words: list[str], given: str) -> int:
    """Simulate `tr SET1 SET2` and `tr -d SET1`. The sets are plain characters."""
    if words[:1] == ["-d"] and len(words) > 1:
        gone = _unescaped(words[1])
        shell.print("".join(character for character in given if character not in gone))
    elif len(words) > 1:
        old, new = _unescaped(words[0]), _unescaped(words[1])
        shell.print(given.translate({ord(a): (new[i] if i < len(new) else new[-1:]) for i, a in enumerate(old)}))
    return 0


def count_lines(shell: Shell, words: list[str], given: str) -> int:
    """Simulate `wc -l [FILE]`."""
    shell.print(f"{_input(shell, _operands(words), given).count(chr(10))}\n")
    return 0


def head(shell: Shell, words: list[str], given: str) -> int:
    """Simulate `head [-n COUNT] [FILE]`."""
    numbers = [int(number) for word in words for number in re.findall(r"\d+", word)]
    files = [word for word in _operands(words) if not word.isdigit()]
    lines = _input(shell, files, given).splitlines(keepends=True)
    shell.print("".join(lines[: numbers[0] if numbers else 10]))
    return 0


def grep(shell: Shell, words: list[str], given: str) -> int:
    """Simulate `grep [-cqv] TEXT [FILE]`. TEXT is literal and not a pattern."""
    options = "".join(word for word in words if word.startswith("-"))
    plain = _operands(words)
    if not plain:
        return 2
    text = _input(shell, plain[1:], given)
    found = [line for line in text.splitlines() if (plain[0] in line) != ("v" in options)]
    if "q" not in options:
        shell.print(f"{len(found)}\n" if "c" in options else "".join(line + "\n" for line in found))
    return 0 if found else 1


def hostname(shell: Shell, _words: list[str], _: str) -> int:
    """Print the pod's name."""
    shell.print(shell.variables.get("HOSTNAME", "localhost") + "\n")
    return 0


def basename(shell: Shell, words: list[str], _: str) -> int:
    """Print the last segment of a path."""
    shell.print((words[0].rstrip("/").rpartition("/")[2] if words else "") + "\n")
    return 0


def _operands(words: list[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


def _input(shell: Shell, files: list[str], given: str) -> str:
    return "".join(shell.read(path) or "" for path in files) if files else given


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r").replace("\\\\", "\\")
