"""The program `pyroclast-board`."""

from __future__ import annotations

from pyroclast import lean

lean.prepare()

import sys
from collections.abc import Sequence

from pyroclast.runtime.service import Service, run_service
from pyroclast.runtime.settings import parse
from pyroclast_board.app import run
from pyroclast_board.settings import BoardSettings

NAME = "pyroclast-board"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the board until the process is stopped. Return the exit status."""
    settings = parse(BoardSettings, sys.argv[1:] if argv is None else argv, NAME)

    async def work(service: Service) -> None:
        await run(service, settings)

    return run_service(NAME, settings, work)


if __name__ == "__main__":
    sys.exit(main())
