"""The commands that the simulated shell knows: what each prints, how long it takes, which status it has."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from .machine import Broken, Continued, Ended, Forever, Shell

__all__ = ["Commands", "seconds"]

_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)([smhd]?)")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_SERVERS = frozenset({"nginx", "httpd", "redis-server", "pause", "mongod", "mysqld", "postgres", "serve_hostname", "http-server"})
_FOREVER = {"sshd": "-D", "tail": "-f"}  # the flag with which a command stays
_QUICK = frozenset(
    word
    for line in (
        "mkdir rmdir touch cp mv rm ln chmod chown ls stat df du find realpath readlink dirname sync mount umount",
        "nslookup dig host ping curl wget nc getent which id uname whoami pwd tty stty clear free ps date service",
        "cd set unset read shift umask ulimit local alias command type hash xargs tee logger",
        "sed awk sort uniq cut ssh-keygen sshd apt-get apk",
    )
    for word in line.split()
)


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands. Those it does not know take `unknown_seconds` and succeed; `now` is the start in seconds since the epoch."""

    unknown_seconds: float
    now: float

    def __call__(self, shell: Shell, words: list[str], given: str) -> int:
        """Carry out a command; the port that `Shell` calls."""
        name = words[0].rpartition("/")[2]
        known = _TABLE.get(name)
        if known is not None:
            return known(self, shell, words[1:], given)
        if name in _SHELLS:
            return self._shell(shell, words[1:])
        if (
            name in _SERVERS
            or (name == "sshd" and "-D" in words)
            or (name == "tail" and any(w.startswith(("-f", "-F")) for w in words))
        ):
            raise Forever
        if name in _QUICK:
            shell.print(given)
            return 0
        shell.clock += self.unknown_seconds
        return 0

    def _shell(self, shell: Shell, arguments: list[str]) -> int:
        flags, rest = "", list(arguments)
        while rest and rest[0][:1] in "-+" and len(rest[0]) > 1:
            flag = rest.pop(0)
            flags += flag
            if flag in ("-o", "+o") and rest:
                rest.pop(0)
        if "c" not in flags or not rest:
            if not rest:
                return 0  # an interactive shell without a terminal reads its end at once
            shell.clock += self.unknown_seconds  # a script file of the image
            return 0
        exit_on_error = shell.exit_on_error
        shell.exit_on_error = "e" in flags.replace("-o", "") or exit_on_error
        for number, argument in enumerate(rest[1:]):
            shell.variables[str(number)] = argument
        try:
            shell.script(rest[0])
        except Ended as end:
            return end.status
        finally:
            shell.exit_on_error = exit_on_error
        return shell.status

    def _sleep(self, shell: Shell, words: list[str], _: str) -> int:
        total = 0.0
        for word in words:
            length = seconds(word)
            if length is None:
                shell.print(f"sleep: invalid time interval '{word}'\n")
                return 1
            total += length
        if math.isinf(total):
            raise Forever
        shell.clock += total
        return 0 if words else 1

    def _echo(self, shell: Shell, words: list[str], _: str) -> int:
        newline, escapes = "\n", False
        while words and re.fullmatch("-[neE]+", words[0]):
            newline = "" if "n" in words[0] else newline
            escapes = "e" in words[0]
            words = words[1:]
        text = " ".join(words)
        shell.print((_unescaped(text) if escapes else text) + newline)
        return 0

    def _printf(self, shell: Shell, words: list[str], _: str) -> int:
        if not words:
            return 2
        template, values = _unescaped(words[0]), words[1:]
        placeholders = len(re.findall(r"%[-\d.]*[sdif]", template))
        while True:
            turn, values = values[:placeholders], values[placeholders:]
            given = iter(turn)
            shell.print(re.sub(r"%[-\d.]*[sdif]", lambda _: next(given, ""), template).replace("%%", "%"))  # noqa: B023
            if not values or not placeholders:
                return 0

    def _cat(self, shell: Shell, words: list[str], given: str) -> int:
        files = [word for word in words if not word.startswith("-")]
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

    def _environment(self, shell: Shell, words: list[str], _: str) -> int:
        if words and words[0] in shell.variables:
            shell.print(shell.variables[words[0]] + "\n")
            return 0
        if words and "=" not in words[0] and not words[0].startswith("-"):
            return shell.command(words)
        for name, value in sorted(shell.variables.items()):
            if name[0].isalpha() or name[0] == "_":
                shell.print(f"{name}={value}\n")
        return 0

    def _export(self, shell: Shell, words: list[str], _: str) -> int:
        for word in words:
            name, assigned, value = word.partition("=")
            if assigned:
                shell.variables[name] = value
        return 0

    def _set(self, shell: Shell, words: list[str], _: str) -> int:
        for word in words:
            if word.startswith(("-", "+")) and "e" in word and word not in ("-o", "+o"):
                shell.exit_on_error = word[0] == "-"
        return 0

    def _exit(self, shell: Shell, words: list[str], _: str) -> int:
        raise Ended(int(words[0]) & 255 if words and words[0].lstrip("-").isdigit() else shell.status)

    def _exec(self, shell: Shell, words: list[str], given: str) -> int:
        if not words:
            return 0
        raise Ended(shell.command(words, given))

    def _trap(self, shell: Shell, words: list[str], _: str) -> int:
        for signal in words[1:]:
            shell.traps[signal.removeprefix("SIG").replace("15", "TERM")] = words[0]
        return 0

    def _wait(self, shell: Shell, _words: list[str], _: str) -> int:
        ends, shell.background = shell.background, []
        if any(map(math.isinf, ends)):
            raise Forever
        shell.clock = max([shell.clock, *ends])
        return 0

    def _kill(self, _shell: Shell, words: list[str], _: str) -> int:
        number = next((word.strip("-") for word in words if word.startswith("-")), "15").removeprefix("SIG")
        if words[-1:] in (["0"], ["1"], ["$"]):  # its group, itself; $$ has become $ by the time a shell sees it
            raise Ended(128 + {"KILL": 9, "TERM": 15, "INT": 2, "HUP": 1}.get(number, int(number) if number.isdigit() else 15))
        return 0

    def _test(self, shell: Shell, words: list[str], _: str) -> int:
        return int(not _is_true(shell, words[:-1] if words[-1:] == ["]"] else words))

    def _timeout(self, shell: Shell, words: list[str], given: str) -> int:
        while words and words[0].startswith("-"):
            words = words[1:]
        limit = seconds(words[0]) if words else None
        if limit is None or len(words) < 2:
            return 125
        started = shell.clock
        try:
            status = shell.command(words[1:], given)
        except Forever:
            status = 124
            shell.clock = started + limit + 1
        if shell.clock > started + limit:
            shell.clock, status = started + limit, 124
        return status

    def _sequence(self, shell: Shell, words: list[str], _: str) -> int:
        bounds = [int(word) for word in words if word.lstrip("-").isdigit()]
        if not bounds:
            return 1
        first, step, last = (
            (1, 1, *bounds)[-3:] if len(bounds) == 1 else (bounds[0], 1, bounds[1]) if len(bounds) == 2 else bounds
        )
        shell.print("".join(f"{number}\n" for number in range(first, last + (1 if step > 0 else -1), step)))
        return 0

    def _date(self, shell: Shell, _words: list[str], _: str) -> int:
        shell.print(f"{int(self.now + shell.clock)}\n")
        return 0

    def _translate(self, shell: Shell, words: list[str], given: str) -> int:
        if words[:1] == ["-d"] and len(words) > 1:
            gone = _unescaped(words[1])
            shell.print("".join(character for character in given if character not in gone))
        elif len(words) > 1:
            old, new = _unescaped(words[0]), _unescaped(words[1])
            shell.print(given.translate({ord(a): (new[i] if i < len(new) else new[-1:]) for i, a in enumerate(old)}))
        return 0

    def _count(self, shell: Shell, words: list[str], given: str) -> int:
        files = [shell.read(word) or "" for word in words if not word.startswith("-")]
        shell.print(f"{(files[0] if files else given).count(chr(10))}\n")
        return 0

    def _head(self, shell: Shell, words: list[str], given: str) -> int:
        numbers = [int(number) for word in words for number in re.findall(r"\d+", word)]
        count = numbers[0] if numbers else 10
        files = [shell.read(word) or "" for word in words if not word.startswith("-") and not word.isdigit()]
        shell.print("".join((files[0] if files else given).splitlines(keepends=True)[:count]))
        return 0

    def _grep(self, shell: Shell, words: list[str], given: str) -> int:
        options = "".join(word for word in words if word.startswith("-"))
        plain = [word for word in words if not word.startswith("-")]
        text = (shell.read(plain[1]) or "") if len(plain) > 1 else given
        found = [line for line in text.splitlines() if (plain[0] in line) != ("v" in options)] if plain else []
        if "q" not in options:
            shell.print(f"{len(found)}\n" if "c" in options else "".join(line + "\n" for line in found))
        return 0 if found else 1

    def _true(self, _shell: Shell, _words: list[str], _: str) -> int:
        return 0

    def _false(self, _shell: Shell, _words: list[str], _: str) -> int:
        return 1

    def _hostname(self, shell: Shell, _words: list[str], _: str) -> int:
        shell.print(shell.variables.get("HOSTNAME", "localhost") + "\n")
        return 0

    def _basename(self, shell: Shell, words: list[str], _: str) -> int:
        shell.print((words[0].rstrip("/").rpartition("/")[2] if words else "") + "\n")
        return 0

    def _break(self, _shell: Shell, _words: list[str], _: str) -> int:
        raise Broken

    def _continue(self, _shell: Shell, _words: list[str], _: str) -> int:
        raise Continued


_Command = Callable[[Commands, Shell, list[str], str], int]
_TABLE: dict[str, _Command] = {
    "sleep": Commands._sleep,
    "echo": Commands._echo,
    "printf": Commands._printf,
    "cat": Commands._cat,
    "env": Commands._environment,
    "printenv": Commands._environment,
    "export": Commands._export,
    "set": Commands._set,
    "exit": Commands._exit,
    "return": Commands._exit,
    "exec": Commands._exec,
    "trap": Commands._trap,
    "wait": Commands._wait,
    "kill": Commands._kill,
    "test": Commands._test,
    "[": Commands._test,
    "timeout": Commands._timeout,
    "seq": Commands._sequence,
    "date": Commands._date,
    "tr": Commands._translate,
    "wc": Commands._count,
    "head": Commands._head,
    "grep": Commands._grep,
    "true": Commands._true,
    ":": Commands._true,
    "false": Commands._false,
    "hostname": Commands._hostname,
    "basename": Commands._basename,
    "break": Commands._break,
    "continue": Commands._continue,
}


def seconds(text: str) -> float | None:
    """The length of `sleep TEXT` in seconds: `5`, `0.5`, `2m`, `infinity`; None if it is none."""
    if text in ("inf", "infinity"):
        return math.inf
    length = _DURATION.fullmatch(text)
    return float(length[1]) * _UNITS[length[2]] if length else None


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r").replace("\\\\", "\\")


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "-eq": int.__eq__,
    "-ne": int.__ne__,
    "-lt": int.__lt__,
    "-le": int.__le__,
    "-gt": int.__gt__,
    "-ge": int.__ge__,
}


def _is_true(shell: Shell, words: list[str]) -> bool:
    match words:
        case []:
            return False
        case ["!", *rest]:
            return not _is_true(shell, rest)
        case ["-z", text]:
            return not text
        case ["-n", text]:
            return bool(text)
        case [("-f" | "-e" | "-s" | "-r" | "-d" | "-x"), path]:
            return shell.read(path) is not None
        case [left, ("=" | "=="), right]:
            return left == right
        case [left, "!=", right]:
            return left != right
        case [left, comparison, right] if (
            comparison in _COMPARISONS and left.lstrip("-").isdigit() and right.lstrip("-").isdigit()
        ):
            return _COMPARISONS[comparison](int(left), int(right))
        case [text]:
            return bool(text)
        case _:
            return False


def _are_integers(*texts: str) -> bool:
    return all(re.fullmatch(r"-?\d+", text) for text in texts)
