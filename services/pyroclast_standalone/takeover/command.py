"""The command `pyroclast takeover`: reports what would happen to an installed Volcano, stops it, and starts it again.

`check`, `print_values`, `take_over` and `back` return the exit status. They raise KubeError: the API server does not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from pyroclast.api.types import CONFIG_MAPS, DAEMON_SETS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Key
from pyroclast.kube.basics.errors import AlreadyExists, NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, Json, PatchKind
from pyroclast_standalone import installation
from pyroclast_standalone.directory import CommandError
from pyroclast_standalone.installation import refuse_beside_ours, release_all
from pyroclast_standalone.takeover import inventory
from pyroclast_standalone.takeover.answers import (
    SCHEDULER_FILE,
    ConfigurationAnswer,
    check_configuration,
    check_scheduler_configuration,
    known_flags,
)
from pyroclast_standalone.takeover.inventory import Inventory, Program, WebhookConfiguration, read
from pyroclast_standalone.takeover.review import COUNTERPARTS, Effect, Finding, chart_values, review

REPLICAS: Final = "pyroclast.dev/replicas-before-takeover"
"""Annotation of a Volcano Deployment that was scaled to 0, with its previous number of replicas."""
SAVED: Final = "pyroclast-takeover"
"""The ConfigMap with the deleted webhook configurations, in the namespace of Volcano's first Deployment."""

STOP_SECONDS: Final = 300.0
POLL_SECONDS: Final = 0.5
_MOST_NAMED: Final = 20
_KINDS: Final = {kind.kind: kind for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)}
_SET_BY_SERVER: Final = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"})


async def stop_volcano(client: Client, found: Inventory, say: Callable[[str], None], *, seconds: float = STOP_SECONDS) -> None:
    """Save and delete Volcano's webhook configurations, then scale its Deployments to 0 and wait for their last pods.

    The webhooks are deleted first: without a running webhook manager, the API server would reject every Job. A second
    deletion follows at the end, because a webhook manager that started meanwhile has created the webhooks again.
    """
    await _remove_webhooks(client, found, found.webhooks, say)
    for program in _stopped(found):
        if program.replicas:
            await _scale(client, program, 0, {REPLICAS: str(program.replicas)})
            say(f"scaled from {program.replicas} to 0 replicas: {program.kind.kind} {program.key}")
    await _wait_for_last_pods(client, _stopped(found), seconds)
    await _remove_webhooks(client, found, (await read(client)).webhooks, say)


def _stopped(found: Inventory) -> list[Program]:
    """Return the programs that a takeover stops; agents on nodes go on."""
    return [program for program in found.programs if program.kind != DAEMON_SETS]


async def _remove_webhooks(
    client: Client, found: Inventory, webhooks: Sequence[WebhookConfiguration], say: Callable[[str], None]
) -> None:
    for webhook in webhooks:
        await _save_and_delete(client, _saved_in(found), webhook)
        say(f"saved in ConfigMap {_saved_in(found)} and deleted: {webhook.kind} {webhook.name}")


async def start_volcano(client: Client, found: Inventory, say: Callable[[str], None]) -> None:
    """Scale Volcano's Deployments to their previous replicas, then create its webhook configurations again."""
    await refuse_beside_ours(client)
    for kind, key in await release_all(client):  # no program would remove them later
        say(f"released: {kind.kind} {key}")
    for program in _stopped(found):
        annotations = (await client.get(program.kind, program.key))["metadata"].get("annotations") or {}
        if REPLICAS in annotations:
            await _scale(client, program, int(annotations[REPLICAS]), {REPLICAS: None})
            say(f"scaled to {annotations[REPLICAS]} replicas: {program.kind.kind} {program.key}")
    try:
        saved = await client.get(CONFIG_MAPS, _saved_in(found))
    except NotFound:
        return
    for text in (saved.get("data") or {}).values():
        body = orjson.loads(text)
        with contextlib.suppress(AlreadyExists):  # Volcano's webhook manager creates some of them itself
            await client.create(_KINDS[body["kind"]], body)
            say(f"created: {body['kind']} {body['metadata']['name']}")
    with contextlib.suppress(NotFound):
        await client.delete(CONFIG_MAPS, _saved_in(found))


def _saved_in(found: Inventory) -> Key:
    return Key(found.programs[0].key.namespace, SAVED)


async def _save_and_delete(client: Client, saved: Key, webhook: WebhookConfiguration) -> None:
    kind, key = _KINDS[webhook.kind], Key("", webhook.name)
    try:
        body = await client.get(kind, key)
    except NotFound:
        return
    metadata = {name: value for name, value in body["metadata"].items() if name not in _SET_BY_SERVER}
    text = orjson.dumps({"apiVersion": kind.api_version, "kind": kind.kind, **body, "metadata": metadata}).decode()
    with contextlib.suppress(AlreadyExists):
        empty = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": saved.name}}
        await client.create(CONFIG_MAPS, empty, namespace=saved.namespace)
    await client.patch(CONFIG_MAPS, saved, {"data": {f"{kind.kind}.{webhook.name}": text}}, PatchKind.MERGE)
    with contextlib.suppress(NotFound):
        await client.delete(kind, key, uid=body["metadata"]["uid"])


async def _scale(client: Client, program: Program, replicas: int, annotations: dict[str, Any]) -> None:
    """Scale a program in one write, so that it never has 0 replicas without the annotation of its previous number."""
    change = {"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}
    await client.patch(program.kind, program.key, change, PatchKind.MERGE)


async def _wait_for_last_pods(client: Client, programs: Sequence[Program], seconds: float) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    left = programs
    while left := [program for program in left if await _has_pods(client, program)]:
        if asyncio.get_running_loop().time() > deadline:
            names = ", ".join(f"{program.kind.kind} {program.key}" for program in left)
            raise CommandError(f"{names}: still has pods {seconds:.0f} s after it was scaled to 0; run this again")
        await asyncio.sleep(POLL_SECONDS)


async def _has_pods(client: Client, program: Program) -> bool:
    workload: Json = await client.get(program.kind, program.key)
    return bool((workload.get("status") or {}).get("replicas"))


INSTALL = (
    "Volcano has stopped; Jobs and pods go on as they are. Now: "
    "helm install pyroclast charts/pyroclast -n pyroclast-system --create-namespace --take-ownership"
)
HEADERS = ("PART", "NAME", "EFFECT", "DETAIL")


async def check(kubeconfig: Path, say: Callable[[str], None]) -> int:
    """Print the table of findings. Nothing is written to the cluster."""
    async with Client(load_config(str(kubeconfig))) as client:
        return await _check(await inventory.read(client), say)


async def print_values(kubeconfig: Path, say: Callable[[str], None]) -> int:
    """Print the values for Pyroclast's chart that carry the installed Volcano over. Nothing is written to the cluster."""
    async with Client(load_config(str(kubeconfig))) as client:
        findings = await _review(await inventory.read(client))
    lost = [finding for finding in findings if finding.effect is Effect.LOST]
    for finding in lost:
        say(f"# lost: {finding.part} {finding.name}: {' '.join(finding.detail.split())}")
    say(yaml.dump(chart_values(findings), Dumper=_Readable, sort_keys=True, allow_unicode=True).rstrip())
    return 1 if lost else 0


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


_Readable.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)
)


async def take_over(kubeconfig: Path, say: Callable[[str], None]) -> int:
    """Check, then stop Volcano so that Pyroclast can be installed. If something would be lost, nothing is changed.

    The command can be interrupted and run again. Running pods are not affected.
    """
    async with Client(load_config(str(kubeconfig))) as client:
        found = await inventory.read(client)
        if await _check(found, say):
            say("Nothing was changed.")
            return 1
        if found.programs:
            await stop_volcano(client, found, say)
            say(INSTALL)
    return 0


async def back(kubeconfig: Path, say: Callable[[str], None]) -> int:
    """Start Volcano again in the state before `take_over`."""
    async with Client(load_config(str(kubeconfig))) as client:
        found = await inventory.read(client)
        if not found.programs:
            say("No program of Volcano is installed here: install its chart; its objects are as they were.")
            return 1
        if beyond := await inventory.beyond_volcano(client):
            say("Volcano does not know these fields, acts as if they were absent, and removes them when it writes the object:")
            for name, fields in islice(beyond.items(), _MOST_NAMED):
                say(f"  {name}: {', '.join(fields)}")
            if len(beyond) > _MOST_NAMED:
                say(f"  and {len(beyond) - _MOST_NAMED} more")
        await start_volcano(client, found, say)
    say("Volcano works again as before the takeover.")
    return 0


async def _check(found: inventory.Inventory, say: Callable[[str], None]) -> int:
    findings = await _review(found)
    for line in _table(findings):
        say(line)
    say(_verdict(found, findings))
    return 1 if any(finding.effect is Effect.LOST for finding in findings) else 0


async def _review(found: inventory.Inventory) -> list[Finding]:
    modules = sorted(set(COUNTERPARTS.values()))
    texts = {(file, text) for (_, file), text in found.configurations.items()}
    flags = await asyncio.gather(*(known_flags(module) for module in modules))
    answers = {(file, text): await _answer(file, text) for file, text in sorted(texts)}
    given = {module: installation.arguments(module) for module in modules}
    crds = {each["metadata"]["name"] for each in installation.objects("") if each["kind"] == "CustomResourceDefinition"}
    return review(found, crds=crds, flags=dict(zip(modules, flags, strict=True)), answers=answers, given=given)


async def _answer(file: str, text: str) -> ConfigurationAnswer:
    if file == SCHEDULER_FILE:
        return await check_scheduler_configuration(text)
    return check_configuration(file, text)


def _table(findings: Sequence[Finding]) -> list[str]:
    rows = [HEADERS, *((each.part, each.name, str(each.effect), each.detail) for each in findings)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return ["  ".join((*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3])) for row in rows]


def _verdict(found: inventory.Inventory, findings: Sequence[Finding]) -> str:
    if not found.programs and not any(finding.effect is Effect.LOST for finding in findings):
        return "No program of Volcano runs here: install Pyroclast by helm."
    counts = Counter(finding.effect for finding in findings)
    told = ", ".join(f"{counts[effect]} {effect}" for effect in Effect if counts[effect])
    lost = "Something would be lost: see the rows marked lost." if counts[Effect.LOST] else "Nothing would be lost."
    return f"{told}. {lost}"
