"""The commands of the simulated shell, and its treatment of unknown commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyroclast_standalone.nodes.shell import conditions, control, text
from pyroclast_standalone.nodes.shell.machine import Ended, Forever, Shell

_Command: TypeAlias = Callable[[Shell, list[str], str], int]

_KNOWN: dict[str, _Command] = {
    ":": control.succeed,
    "[": conditions.test,
    "basename": text.basename,
    "break": control.break_loop,
    "cat": text.cat,
    "continue": control.continue_loop,
    "date": text.date,
    "echo": text.echo,
    "env": text.environment,
    "exec": control.replace,
    "exit": control.end,
    "export": control.export,
    "false": control.fail,
    "grep": text.grep,
    "head": text.head,
    "hostname": text.hostname,
    "kill": control.kill,
    "printenv": text.environment,
    "printf": text.printf,
    "return": control.end,
    "seq": text.sequence,
    "set": control.set_options,
    "sleep": control.sleep,
    "test": conditions.test,
    "timeout": control.timeout,
    "tr": text.translate,
    "trap": control.trap,
    "true": control.succeed,
    "wait": control.wait,
    "wc": text.count_lines,
}
_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_SERVERS = frozenset({"nginx", "httpd", "redis-server", "pause", "mongod", "mysqld", "postgres", "serve_hostname", "http-server"})
_STAYING = {"sshd": "-D", "tail": "-f"}  # the flag with which a command does not end
_QUICK = frozenset(
    word
    for line in (
        "mkdir rmdir touch cp mv rm ln chmod chown ls stat df du find realpath readlink dirname sync mount umount",
        "nslookup dig host ping curl wget nc getent which id uname whoami pwd tty stty clear free ps service",
        "cd unset read shift umask ulimit local alias command type hash xargs tee logger",
        "sed awk sort uniq cut ssh-keygen sshd tail apt-get apk",
    )
    for word in line.split()
)


def carry_out(shell: Shell, words: list[str], given: str) -> int:
    """Simulate a command. Return its status. An unknown command takes the configured time and succeeds."""
    name = words[0].rpartition("/")[2]
    known = _KNOWN.get(name)
    if known is not None:
        return known(shell, words[1:], given)
    if name in _SHELLS:
        return _shell(shell, words[1:])
    if name in _SERVERS or _STAYING.get(name) in words:
        raise Forever
    if name in _QUICK:
        shell.print(given)
        return 0
    shell.clock += shell.unknown_seconds
    return 0


def _shell(shell: Shell, arguments: list[str]) -> int:
    """Simulate `sh -c SCRIPT`. The content of a script file in the image is unknown. A shell without arguments ends at once."""
    flags, rest = "", list(arguments)
    while rest and rest[0][:1] in ("-", "+") and len(rest[0]) > 1:
        flag = rest.pop(0)
        if flag in ("-o", "+o"):
            flag = "-e" if rest and rest.pop(0) == "errexit" else ""
        flags += flag
    if "c" not in flags or not rest:
        shell.clock += shell.unknown_seconds if rest else 0.0
        return 0
    before = shell.exit_on_error
    shell.exit_on_error = before or "e" in flags
    shell.variables.update({str(number): argument for number, argument in enumerate(rest[1:])})
    try:
        shell.script(rest[0])
    except Ended as end:
        return end.status
    finally:
        shell.exit_on_error = before
    return shell.status
