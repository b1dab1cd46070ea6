"""The command `pyroclast takeover`: reports what would happen to an installed Volcano, stops it, and starts it again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast_standalone import installation
from pyroclast_standalone.takeover import inventory, programs, steps
from pyroclast_standalone.takeover.configurations import SCHEDULER_FILE, ConfigurationAnswer, check_configuration
from pyroclast_standalone.takeover.review import Effect, Finding, review

INSTALL = (
    "Volcano has stopped; Jobs and pods go on as they are. Now: "
    "helm install pyroclast charts/pyroclast -n pyroclast-system --create-namespace --take-ownership"
)
HEADERS = ("PART", "NAME", "EFFECT", "DETAIL")


async def check(kubeconfig: Path, say: Callable[[str], None]) -> int:
    """Print the table of findings. Nothing is written to the cluster.

    Returns:
        0 when Pyroclast can take over without loss, else 1.

    Raises:
        CommandError: a program of Pyroclast does not answer.
        KubeError: the API server does not answer.
    """
    async with Client(load_config(str(kubeconfig))) as client:
        return await _check(await inventory.read(client), say)


async def take_over(kubeconfig: Path, say: Callable[[str], None]) -> int:
    """Check, then stop Volcano so that Pyroclast can be installed. If something would be lost, nothing is changed.

    The command can be interrupted and run again. Running pods are not affected.

    Returns:
        0 when Volcano has stopped, 1 when something would be lost.

    Raises:
        CommandError: a program of Pyroclast does not answer, or a program of Volcano does not stop.
        KubeError: the API server does not answer.
    """
    async with Client(load_config(str(kubeconfig))) as client:
        found = await inventory.read(client)
        if await _check(found, say):
            say("Nothing was changed.")
            return 1
        if found.programs:
            await steps.stop_volcano(client, found, say)
            say(INSTALL)
    return 0


async def back(kubeconfig: Path, say: Callable[[str], None]) -> int:
    """Start Volcano again in the state before `take_over`.

    Returns:
        0 when Volcano was started, 1 when there is no Volcano.

    Raises:
        CommandError: Pyroclast still runs in the cluster.
        KubeError: the API server does not answer.
    """
    async with Client(load_config(str(kubeconfig))) as client:
        found = await inventory.read(client)
        if not found.programs:
            say("No program of Volcano is installed here: install its chart; its objects are as they were.")
            return 1
        await steps.start_volcano(client, found, say)
    say("Volcano works again as before the takeover.")
    return 0


async def _check(found: inventory.Inventory, say: Callable[[str], None]) -> int:
    modules = sorted(set(programs.COUNTERPARTS.values()))
    texts = {(file, text) for (_, file), text in found.configurations.items()}
    flags = await asyncio.gather(*(programs.known_flags(module) for module in modules))
    answers = {(file, text): await _answer(file, text) for file, text in sorted(texts)}
    given = {module: installation.arguments(module) for module in modules}
    crds = {each["metadata"]["name"] for each in installation.objects("") if each["kind"] == "CustomResourceDefinition"}
    findings = review(found, crds=crds, flags=dict(zip(modules, flags, strict=True)), answers=answers, given=given)
    for line in _table(findings):
        say(line)
    say(_verdict(found, findings))
    return 1 if any(finding.effect is Effect.LOST for finding in findings) else 0


async def _answer(file: str, text: str) -> ConfigurationAnswer:
    if file == SCHEDULER_FILE:
        return await programs.check_scheduler_configuration(text)
    return check_configuration(file, text)


def _table(findings: Sequence[Finding]) -> list[str]:
    rows = [HEADERS, *((each.part, each.name, str(each.effect), each.detail) for each in findings)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return ["  ".join((*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3])) for row in rows]


def _verdict(found: inventory.Inventory, findings: Sequence[Finding]) -> str:
    if not found.programs:
        return "No program of Volcano runs here: install Pyroclast by helm."
    counts = Counter(finding.effect for finding in findings)
    told = ", ".join(f"{counts[effect]} {effect}" for effect in Effect if counts[effect])
    lost = "Something would be lost: see the rows marked lost." if counts[Effect.LOST] else "Nothing would be lost."
    return f"{told}. {lost}"
