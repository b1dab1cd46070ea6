"""`python -m pyroclast_scheduler`: the scheduler as a service."""

from __future__ import annotations

from pyroclast import lean

lean.prepare()

import sys
from collections.abc import Sequence

from pyroclast.runtime.service import run_service
from pyroclast.runtime.settings import parse
from pyroclast_scheduler.settings import SchedulerSettings
from pyroclast_scheduler.wiring import main as work

__all__ = ["main"]

NAME = "pyroclast-scheduler"
_SWITCH_SECONDS = 0.001  # how long the deciding thread may keep the event loop waiting for the interpreter


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped; the exit status."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    return run_service(NAME, parse(SchedulerSettings, sys.argv[1:] if argv is None else argv, NAME), work)


if __name__ == "__main__":
    sys.exit(main())
