"""The command `pyroclast-recorder`."""

from __future__ import annotations

from pyroclast import lean

lean.prepare()

import sys
from collections.abc import Sequence

from pyroclast.runtime.service import Service, run_service
from pyroclast.runtime.settings import parse
from pyroclast_recorder.app import run
from pyroclast_recorder.settings import RecorderSettings

NAME = "pyroclast-recorder"


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped; return the exit status."""
    settings = parse(RecorderSettings, sys.argv[1:] if argv is None else argv, NAME)

    async def work(service: Service) -> None:
        await run(service, settings)

    return run_service(NAME, settings, work)


if __name__ == "__main__":
    sys.exit(main())
