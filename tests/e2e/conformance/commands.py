"""kubectl commands that must print the same whichever server they talk to."""

from __future__ import annotations

import asyncio
import re
import secrets
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.conformance.normal import Normaliser

_AT_ONCE = 3
_SECONDS = 40
_DATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}")
_AGES = re.compile(r"(?<![\w/.-])\d+(\.\d+)?(ms|s|m|h|d)(?![\w/.-])( {0,3}(?= ))?")
_VERSION = re.compile(r'((?:resourceVersion"?|Resource Version): +)"?\d+"?')
_SPACES = re.compile(r" {2,}")
_LOG = re.compile(r"^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Commands:
    name: str
    steps: Sequence[Mapping[str, Any]]

    @property
    def id(self) -> str:
        return f"commands: {self.name}"


def load_commands() -> list[Commands]:
    """All sets of commands, in the order of the file."""
    documents = yaml.safe_load((Path(__file__).parent / "commands.yaml").read_text())
    return [Commands(document["commands"], document["steps"]) for document in documents]


async def compared_commands(
    real: Path, ours: Path, wanted: Sequence[Commands]
) -> AsyncIterator[tuple[Commands, list[Any], list[Any]]]:
    """Each set with what it printed on either server, the real one first."""
    async for commands, (one, other) in printed([real, ours], wanted):
        yield commands, one, other


async def printed(kubeconfigs: Sequence[Path], wanted: Sequence[Commands]) -> AsyncIterator[tuple[Commands, list[list[Any]]]]:
    """Each set with what it printed on each of the servers."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def all_of(commands: Commands) -> list[list[Any]]:
        async with gate:
            return list(await asyncio.gather(*(_run(each, commands) for each in kubeconfigs)))

    tasks = [asyncio.ensure_future(all_of(commands)) for commands in wanted]
    try:
        for commands, task in zip(wanted, tasks, strict=True):
            yield commands, await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run(kubeconfig: Path, commands: Commands) -> list[Any]:
    namespace = f"conf-{secrets.token_hex(3)}"
    normal = Normaliser(namespace)
    printed = []
    with tempfile.TemporaryDirectory() as cache:

        async def kubectl(words: str, given: str = "") -> tuple[int, str, str]:
            process = await asyncio.create_subprocess_exec(
                "bash", "-c", f"kubectl {words}", "bash",
                env={"PATH": "/usr/local/bin:/usr/bin:/bin", "KUBECONFIG": str(kubeconfig), "HOME": cache, "NS": namespace},
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            async with asyncio.timeout(_SECONDS):
                out, err = await process.communicate(given.encode())
            return process.returncode or 0, out.decode(), err.decode()

        await kubectl(f"create namespace {namespace}")
        await kubectl(f"wait --for=create serviceaccount/default -n {namespace} --timeout=20s")
        try:
            for step in commands.steps:
                status, out, err = await kubectl(
                    f"-n {namespace} {step['run']}".replace("<ns>", namespace), step.get("stdin", "")
                )
                if step.get("quiet") and status == 0:
                    continue
                printed.append({"request": step["run"], "status": status, "out": _text(normal, out), "err": _text(normal, err)})
        finally:
            await kubectl(f"delete namespace {namespace} --wait=false")
    return printed


def _text(normal: Normaliser, text: str) -> list[str]:
    """The lines of an output, without ages, dates, versions and the width of columns. Causes are sorted: they have no order."""
    text = _VERSION.sub(r"\1<rv>", _DATE.sub("<date>", _LOG.sub("", text)))
    text = normal.text(_AGES.sub("<age>", text))
    lines = [_SPACES.sub("  ", line).rstrip() for line in text.splitlines()]
    causes = sorted(line for line in lines if line.startswith("* "))
    return [causes.pop(0) if line.startswith("* ") else line for line in lines]
