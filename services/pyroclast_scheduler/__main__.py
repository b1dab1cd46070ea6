"""`python -m pyroclast_scheduler`: the scheduler as a service, and the commands `replay FILE` and `check FILE`."""

from __future__ import annotations

from pyroclast import lean

lean.prepare()

import sys
from collections.abc import Sequence

from pyroclast.runtime.service import run_service
from pyroclast.runtime.settings import parse
from pyroclast_scheduler.configuration_check import check
from pyroclast_scheduler.replay.decide import replay
from pyroclast_scheduler.settings import SchedulerSettings
from pyroclast_scheduler.wiring import main as work

NAME = "pyroclast-scheduler"


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped, or run one of the two commands. Return the exit status."""
    given = sys.argv[1:] if argv is None else list(argv)
    if given[:1] == ["replay"]:
        return replay(given[1:])
    if given[:1] == ["check"]:
        return check(given[1:])
    return run_service(NAME, parse(SchedulerSettings, given, NAME), work)


if __name__ == "__main__":
    sys.exit(main())
