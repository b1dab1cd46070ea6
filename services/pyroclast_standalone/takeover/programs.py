"""Asks the installed programs of Pyroclast for their flags and for the check of a scheduler configuration.

The programs run as processes, because services never import each other. The answer of a program is always that of the installed
version.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping
from typing import Final

import orjson

from pyroclast_standalone.errors import CommandError
from pyroclast_standalone.takeover.configurations import ConfigurationAnswer

COUNTERPARTS: Final[Mapping[str, str]] = {
    "vc-scheduler": "pyroclast_scheduler",
    "vc-controller-manager": "pyroclast_job_controller",
    "vc-webhook-manager": "pyroclast_admission",
    "vc-hypernode-controller-manager": "pyroclast_job_controller",
}
"""The program of Pyroclast for each program of Volcano."""

_FLAG: Final = re.compile(r"^  (--[a-z0-9-]+)", re.MULTILINE)
_SECONDS: Final = 30.0  # an interpreter starts within 1 s, on a loaded machine later


async def known_flags(module: str) -> frozenset[str]:
    """Return the flags in the help of a program of Pyroclast."""
    return frozenset(_FLAG.findall((await _output(module, "--help")).decode()))


async def check_scheduler_configuration(text: str) -> ConfigurationAnswer:
    """Return the answer of `python -m pyroclast_scheduler check`; plugins that do not exist are warnings of their own."""
    answer = orjson.loads(
        await _output("pyroclast_scheduler", "check", "--skip-unknown-plugins", "-", given=text.encode(), accepted=(0, 1))
    )
    return ConfigurationAnswer(answer["error"], tuple(answer["warnings"]))


async def _output(module: str, *arguments: str, given: bytes = b"", accepted: tuple[int, ...] = (0,)) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            output, errors = await process.communicate(given)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise CommandError(f"{module} {' '.join(arguments)} did not answer within {_SECONDS:.0f} s") from None
    if process.returncode not in accepted:
        raise CommandError(f"{module} {' '.join(arguments)} ended with status {process.returncode}: {errors.decode().strip()}")
    return output
