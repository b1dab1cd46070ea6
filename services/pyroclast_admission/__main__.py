"""The program `python -m pyroclast_admission`: the webhook server."""

from __future__ import annotations

from pyroclast import lean

lean.prepare()

import sys
from collections.abc import Sequence
from functools import partial

from pyroclast.runtime.service import run_service
from pyroclast.runtime.settings import parse
from pyroclast_admission.service import AdmissionService
from pyroclast_admission.settings import AdmissionSettings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the service with these arguments (by default those of the process). Return the exit status."""
    settings = parse(AdmissionSettings, sys.argv[1:] if arguments is None else arguments, "pyroclast-admission")
    return run_service("pyroclast-admission", settings, partial(AdmissionService.serve, settings))


if __name__ == "__main__":
    sys.exit(main())
