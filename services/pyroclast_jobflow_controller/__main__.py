"""The program `pyroclast-jobflow-controller`."""

from __future__ import annotations

from pyroclast import lean

lean.prepare()

import sys
from collections.abc import Sequence
from functools import partial

from pyroclast.runtime.service import run_service
from pyroclast.runtime.settings import parse
from pyroclast_jobflow_controller.app import run
from pyroclast_jobflow_controller.settings import JobFlowSettings

NAME = "pyroclast-jobflow-controller"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the controllers until the process is stopped. Return the exit status."""
    settings = parse(JobFlowSettings, sys.argv[1:] if argv is None else argv, NAME)
    return run_service(NAME, settings, partial(run, settings=settings))


if __name__ == "__main__":
    sys.exit(main())
