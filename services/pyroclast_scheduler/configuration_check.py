"""`python -m pyroclast_scheduler check FILE`: prints the problems of a configuration file as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson

from pyroclast_scheduler import registry
from pyroclast_scheduler.session.configuration import BadConfiguration, parse

_USAGE: Final = """\
usage: python -m pyroclast_scheduler check [--skip-unknown-plugins] FILE (a scheduler configuration; - reads standard input)
"""
_SKIP: Final = "--skip-unknown-plugins"


def check(arguments: Sequence[str]) -> int:
    """Print `{"error": TEXT, "warnings": [TEXT, ...]}`. Return 0 if the file can be used, 1 if not, 2 if it is unreadable."""
    skip = arguments[:1] == [_SKIP]
    arguments = arguments[skip:]
    is_asked_for_help = arguments[:1] in (["-h"], ["--help"])
    if is_asked_for_help or len(arguments) != 1:
        (sys.stdout if is_asked_for_help else sys.stderr).write(_USAGE)
        return 0 if is_asked_for_help else 2
    try:
        text = sys.stdin.read() if arguments[0] == "-" else Path(arguments[0]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"{arguments[0]} cannot be read: {error}\n")
        return 2
    reason = ""
    warnings: tuple[str, ...] = ()
    try:
        names = {"actions": registry.actions(), "plugins": registry.plugins()}
        warnings = parse(text, **names, skip_unknown_plugins=skip).warnings
    except BadConfiguration as error:
        reason = str(error)
    sys.stdout.buffer.write(orjson.dumps({"error": reason, "warnings": warnings}) + b"\n")
    return 1 if reason else 0
