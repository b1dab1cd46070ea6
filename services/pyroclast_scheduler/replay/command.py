"""`python -m pyroclast_scheduler replay snapshot.json`: prints the decisions of a session over a `/debug/snapshot` as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import orjson

from pyroclast_scheduler.replay.decide import decided
from pyroclast_scheduler.replay.state import NotReplayable, read

_USAGE: Final = "usage: python -m pyroclast_scheduler replay FILE (what /debug/snapshot answered; - reads standard input)\n"


def replay(arguments: Sequence[str]) -> int:
    """Print the decisions. Return the exit status: 0, or 2 with one line on standard error if they cannot be repeated."""
    is_asked_for_help = arguments[:1] in (["-h"], ["--help"])
    if is_asked_for_help or len(arguments) != 1:
        (sys.stdout if is_asked_for_help else sys.stderr).write(_USAGE)
        return 0 if is_asked_for_help else 2
    try:
        body = sys.stdin.buffer.read() if arguments[0] == "-" else Path(arguments[0]).read_bytes()
        decision = decided(read(body))
    except (OSError, NotReplayable) as error:
        sys.stderr.write(f"{arguments[0]} cannot be replayed: {error}\n")
        return 2
    sys.stdout.buffer.write(orjson.dumps(asdict(decision), option=orjson.OPT_INDENT_2) + b"\n")
    return 0
